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
    lifted = relay.transform.LambdaLift()(mod)
    assert sorted(v.name_hint for v in lifted.functions) == ["main", "main_f", "main_f_1"]
    assert vmkit.VirtualMachine(vmkit.compile(mod, target="llvm")).run(2).numpy() == 3
