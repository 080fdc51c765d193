"""Compilation in stages, weights and the two-part form, as Relay's ``vm.VMCompiler`` had them.

A module is typed and optimised first, for a look at it; then lowered with its weights bound, built, and taken apart
into bytecode and library, which travel separately and are joined where the program runs.
"""

from __future__ import annotations

import numpy as np
import tvm

import vmkit
from vmkit import relay

WEIGHTS = {"weight": np.eye(4, dtype="float32") * 2, "bias": np.arange(4, dtype="float32")}


def model() -> tvm.IRModule:
    """Return ``main(x, weight, bias) = relu(x @ weight.T + (bias + 1))`` for any number of rows."""
    x = relay.var("x", shape=(relay.Any(), 4))
    weight = relay.var("weight", shape=(4, 4))
    bias = relay.var("bias", shape=(4,))
    body = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, weight), relay.add(bias, relay.const(1.0))))
    return tvm.IRModule({"main": relay.Function([x, weight, bias], body)})


def main() -> None:
    """Optimise, lower, build, save, load and run."""
    optimized, _ = vmkit.VMCompiler().optimize(model(), "llvm", params=WEIGHTS)
    assert "%bias" not in relay.astext(optimized), "the weights are constants now, and bias + 1 was computed"
    print(f"parameters left: {[p.name_hint for p in optimized['main'].params]}")

    compiler = vmkit.VMCompiler()
    compiler.set_params(WEIGHTS)
    with vmkit.PassContext(opt_level=3):
        compiler.lower(model(), target="llvm")
        compiler.codegen()
    executable = compiler.get_exec()
    print(f"kernels: {len(executable.primitive_ops)}")

    code, library = executable.save()
    loaded = vmkit.Executable.load_exec(code, library)
    machine = vmkit.VirtualMachine(loaded, vmkit.device("cpu"))
    for rows in (1, 5):
        x = np.full((rows, 4), -1.0, "float32")
        expected = np.maximum(2 * x + np.arange(4) + 1, 0)
        result = machine.run(x).numpy()
        np.testing.assert_allclose(result, expected)
        print(f"{rows} rows: {result[0].tolist()}")


if __name__ == "__main__":
    main()
