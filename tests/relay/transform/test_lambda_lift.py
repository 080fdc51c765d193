"""Local functions that are only called run, whatever they capture."""

from __future__ import annotations

import numpy as np
import tvm

import vmkit
from vmkit import relay


def run(text: str, *inputs: object) -> np.ndarray:
    mod = relay.parse('#[version = "0.0.5"]\n' + text)
    return vmkit.VirtualMachine(vmkit.compile(mod, target="llvm")).run(*inputs).numpy()


def test_a_local_loop_that_captures() -> None:
    text = """
    def @main(%n: int32, %step: Tensor[(?), float32]) -> Tensor[(?), float32] {
      let %loop = fn (%i: int32, %x: Tensor[(?), float32]) -> Tensor[(?), float32] {
        if (equal(%i, %n)) { %x } else { %loop(add(%i, 1), add(%x, %step)) }
      };
      %loop(0, zeros_like(%step))
    }"""
    np.testing.assert_array_equal(run(text, 50_000, np.array([1, 2], "float32")), [50_000, 100_000])


def test_local_functions_that_call_each_other_capture_for_each_other() -> None:
    text = """
    def @main(%a: float32, %b: float32) -> float32 {
      let %inner = fn (%x: float32) -> float32 { multiply(%x, %a) };
      let %outer = fn (%x: float32) -> float32 { add(%inner(%x), %b) };
      %outer(%inner(3f))
    }"""
    assert run(text, 2.0, 5.0) == 17.0


def test_a_local_function_within_a_local_function() -> None:
    text = """
    def @main(%a: int32) -> int32 {
      let %outer = fn (%x: int32) -> int32 {
        let %inner = fn (%y: int32) -> int32 { add(multiply(%x, %y), %a) };
        %inner(%inner(%x))
      };
      %outer(3)
    }"""
    assert run(text, 1) == 3 * (3 * 3 + 1) + 1


def test_a_function_literal_called_where_it_stands() -> None:
    text = "def @main(%a: int32) -> int32 { (fn (%x: int32) -> int32 { add(%x, %a) })(4) }"
    assert run(text, 1) == 5


def test_the_function_that_a_let_gives_is_called() -> None:
    text = """
    def @main(%n: int32) -> int32 {
      let %loop = (
        let %self = fn (%i: int32, %sum: int32) -> int32 {
          if (less(%i, %n)) { %self(add(%i, 1), add(%sum, %i)) } else { %sum }
        };
        %self
      )(0, 0);
      multiply(%loop, 2)
    }"""
    assert run(text, 5) == 20


def test_names_of_the_module_are_not_taken_again() -> None:
    f, x = relay.var("f"), relay.var("x", "int32")
    local = relay.Function([x], x + relay.const(1), relay.scalar_type("int32"))
    y, z = relay.var("y", "int32"), relay.var("z", "int32")
    mod = tvm.IRModule({"main_f": relay.Function([z], z), "main": relay.Function([y], relay.Let(f, local, f(y)))})
    lifted = relay.transform.LiftCalledFunctions()(mod)
    assert sorted(v.name_hint for v in lifted.functions) == ["main", "main_f", "main_f_1"]
    assert vmkit.VirtualMachine(vmkit.compile(mod, target="llvm")).run(2).numpy() == 3


def scalars(*names: str) -> list[relay.Var]:
    return [relay.var(name, shape=()) for name in names]


def value_of(expr: object) -> float:
    return vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": relay.Function([], expr)}), target="llvm")).run()


def test_one_function_literal_called_twice_has_its_arguments_apart() -> None:
    x, y = scalars("x", "y")
    adder = relay.Function([x], relay.Function([y], x + y))
    f, g = relay.var("f"), relay.var("g")
    sums = relay.Call(f, [relay.const(1.0)]) + relay.Call(g, [relay.const(1.0)])
    made = relay.Let(f, adder(relay.const(1.0)), relay.Let(g, adder(relay.const(10.0)), sums))
    assert value_of(made).numpy() == 13


def test_one_function_literal_within_another_called_twice() -> None:
    x, y, z = scalars("x", "y", "z")
    half = relay.Var("half")
    inner = relay.Function([y], relay.Let(half, y * relay.const(0.5), half * half))
    outer = relay.Function([x], inner(x) - inner(x + relay.const(2.0)))
    squared = relay.Function([z], outer(z) * outer(relay.const(4.0)))
    assert value_of(squared(relay.const(2.0))).numpy() == (1.0 - 4.0) * (4.0 - 9.0)


def test_one_let_in_both_branches_of_an_if_and_after_it() -> None:
    (a,) = scalars("a")
    shared = relay.Let(a, relay.const(1.0) + relay.const(2.0), a * a)
    chosen = relay.If(relay.const(True), shared + relay.const(1.0), shared)
    assert value_of(relay.Tuple([chosen, shared]))[0].numpy() == 10


def test_a_function_literal_of_any_type_is_called_with_several() -> None:
    a = relay.TypeVar("a")
    w, (p,) = relay.Var("w", a), scalars("p")
    pair = relay.Function([w], relay.Tuple([w, p]), None, [a])
    body = relay.TupleGetItem(pair(relay.TupleGetItem(pair(relay.Tuple([p, p])), 0)), 0)
    mod = tvm.IRModule({"main": relay.Function([p], relay.Tuple([body, pair(relay.const(3))]))})
    first, second = vmkit.VirtualMachine(vmkit.compile(mod, target="llvm")).run(2.0)
    assert [first[0].numpy(), first[1].numpy(), second[0].numpy(), second[1].numpy()] == [2, 2, 3, 2]
