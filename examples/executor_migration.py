"""A script of Relay's time, moved over by changing its imports.

Where it said ``from tvm import relay`` it now says ``from vmkit import relay``, and ``tvm.cpu()`` stays. Executors
evaluate functions, global functions, and whole expressions.
"""

from __future__ import annotations

import numpy as np
import tvm

import vmkit
from vmkit import relay


def main() -> None:
    """Evaluate the same module in the ways that Relay offered."""
    x = relay.var("x", shape=(relay.Any(), 3), dtype="float32")
    scale = relay.var("scale", shape=(), dtype="float32")
    mod = tvm.IRModule()
    mod["main"] = relay.Function([x, scale], relay.sum(relay.multiply(x, scale), axis=1))
    mod["double"] = relay.Function([scale], relay.add(scale, scale))
    data = np.arange(6, dtype="float32").reshape(2, 3)

    run = relay.create_executor("vm", mod=mod, device=tvm.cpu(), target="llvm").evaluate()
    print(f"main by position: {run(data, 2.0).numpy().tolist()}")
    print(f"main by name:     {run(scale=10.0, x=data).numpy().tolist()}")
    np.testing.assert_allclose(run(data, 2.0).numpy(), 2 * data.sum(axis=1))

    # Weights given to the executor are bound to main.
    bound = relay.create_executor("vm", mod=mod, device=tvm.cpu(), target="llvm", params={"scale": np.float32(3)})
    print(f"main of weights:  {bound.evaluate()(data).numpy().tolist()}")

    # The class itself, as tests used it: other functions of the module, functions of one's own, expressions.
    executor = vmkit.VMExecutor(mod, tvm.cpu(), "llvm")
    print(f"double:           {executor.evaluate(mod.get_global_var('double'))(4.0).numpy()}")
    y = relay.var("y", shape=(3,))
    print(f"a function:       {executor.evaluate(relay.Function([y], relay.exp(y)))([0, 0, 0]).numpy().tolist()}")
    value = executor.evaluate(relay.subtract(relay.const(7.0), y), binds={y: np.ones(3, "float32")})
    print(f"an expression:    {value.numpy().tolist()}")
    assert value.numpy().tolist() == [6, 6, 6]


if __name__ == "__main__":
    main()
