"""Relay's evaluator interface: what may be evaluated, and what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import DeviceError, InputError, OptionError, TargetError
from vmkit.executor import DebugExecutor


@pytest.fixture(scope="module")
def mod() -> tvm.IRModule:
    """``main(x, y) = x - y`` and ``double(z) = z + z``, for any number of rows."""
    x, y, z = (relay.var(name, shape=(relay.Any(),)) for name in "xyz")
    return tvm.IRModule(
        {"main": relay.Function([x, y], relay.subtract(x, y)), "double": relay.Function([z], relay.add(z, z))}
    )


@pytest.fixture(scope="module")
def executor(mod: tvm.IRModule) -> vmkit.VMExecutor:
    return vmkit.VMExecutor(mod, tvm.cpu(), "llvm")


def test_main_is_what_is_evaluated_by_default(executor: vmkit.VMExecutor) -> None:
    main = executor.evaluate()
    assert main([5, 7], [1, 1]).numpy().tolist() == [4, 6]
    assert main(y=[1], x=[3]).numpy().tolist() == [2]
    assert str(executor.executable.signature) == "main(x: float32[?], y: float32[?]) -> float32[?]"
    assert executor.vm.run([1], [1]).numpy().tolist() == [0]


def test_a_global_variable_gives_its_function(mod: tvm.IRModule, executor: vmkit.VMExecutor) -> None:
    assert executor.evaluate(mod.get_global_var("double"))([1, 2]).numpy().tolist() == [2, 4]


def test_a_function_may_call_the_functions_of_the_module(mod: tvm.IRModule, executor: vmkit.VMExecutor) -> None:
    a = relay.var("a", shape=(2,))
    function = relay.Function([a], relay.Call(mod.get_global_var("double"), [relay.exp(a)]))
    assert executor.evaluate(function)([0, 0]).numpy().tolist() == [2, 2]
    assert executor.evaluate()([1], [1]).numpy().tolist() == [0], "main is what it was"


def test_an_expression_is_run_at_once(mod: tvm.IRModule, executor: vmkit.VMExecutor) -> None:
    one = relay.const(np.ones(2, "float32"))
    assert executor.evaluate(relay.Call(mod.get_global_var("double"), [one])).numpy().tolist() == [2, 2]
    first, second = executor.evaluate(relay.Tuple([one, relay.const(3)]))
    assert (first.numpy().tolist(), int(second.numpy())) == ([1, 1], 3)


def test_binds_give_values_to_free_variables(executor: vmkit.VMExecutor) -> None:
    a, b = relay.var("a", shape=(2,)), relay.var("b", "float32")
    value = executor.evaluate(relay.multiply(a, b), binds={a: np.array([1, 2], "float32"), b: 3.0})
    assert value.numpy().tolist() == [3, 6]


@pytest.mark.parametrize(
    ("evaluate", "said"),
    [
        (lambda e, a: e.evaluate(relay.Function([], a)), "the function has free variables: %a; bind them with binds"),
        (lambda e, a: e.evaluate(binds={a: 1.0}), "binds need an expression whose free variables they bind"),
        (lambda e, a: e.evaluate()([1]), "y: missing, expected float32[?]"),
    ],
)
def test_wrong_evaluations(executor: vmkit.VMExecutor, evaluate: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        evaluate(executor, relay.var("a", "float32"))
    assert said in str(caught.value)


@pytest.mark.parametrize(("kind", "made"), [("vm", vmkit.VMExecutor), ("debug", DebugExecutor)])
def test_executors_by_name(mod: tvm.IRModule, kind: str, made: type) -> None:
    executor = relay.create_executor(kind, mod=mod, device=tvm.cpu(), target="llvm")
    assert type(executor) is made
    assert executor.evaluate()([2], [1]).numpy().tolist() == [1]


def test_weights_of_an_executor_are_bound(mod: tvm.IRModule) -> None:
    executor = relay.create_executor("vm", mod=mod, params={"y": np.array([1, 2], "float32")})
    assert executor.evaluate()([5, 5]).numpy().tolist() == [4, 3]


def test_an_executor_needs_no_module_for_expressions() -> None:
    assert int(relay.create_executor().evaluate(relay.add(relay.const(2), relay.const(3))).numpy()) == 5


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"kind": "graph"}, OptionError, "unknown execution strategy: graph; the graph executor is gone from TVM"),
        ({"kind": "aot"}, OptionError, "unknown execution strategy: aot; "),
        ({"kind": "vmm"}, OptionError, "unknown execution strategy: vmm; expected one of 'vm', 'debug'"),
        ({"target": "lvm"}, TargetError, "there is no target kind 'lvm'; did you mean 'llvm'?"),
        ({"device": "cuda:7"}, DeviceError, "device cuda:7 is not available"),
    ],
)
def test_wrong_executors(mod: tvm.IRModule, arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        relay.create_executor(**{"mod": mod, **arguments})
    assert said in str(caught.value)


def test_an_executor_of_nothing_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Must provide module to get VM executor"):
        vmkit.VMExecutor(None)
