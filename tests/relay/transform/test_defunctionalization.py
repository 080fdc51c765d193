"""Defunctionalisation: functions as values become data, and the program computes the same."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.relay.transform.passes import module
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.ir import FuncType, post_order, type_parts
from vmkit.relay.transform import Defunctionalization, InferType


def has_function(ty: relay.Type) -> bool:
    return isinstance(ty, FuncType) or any(map(has_function, type_parts(ty)))


def defunctionalised(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose main, and all that it calls, have no functions as values."""
    mod["main"] = Defunctionalization(mod["main"], mod)
    mod = InferType()(mod)
    seen, waiting = set(), [mod["main"]]
    while waiting:
        for node in post_order(waiting.pop()):
            if isinstance(node, relay.Call):
                assert not has_function(node.checked_type)
                assert not any(has_function(arg.checked_type) for arg in node.args)
            if isinstance(node, relay.GlobalVar) and node not in seen:
                seen.add(node)
                waiting.append(mod[node])
    return mod


def run(mod: tvm.IRModule, *args: np.ndarray) -> np.ndarray:
    return relay.create_executor("vm", mod=mod, device=tvm.cpu(), target="llvm").evaluate()(*args).numpy()


SUM_OF_MAPPED = """
#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
def @map[A, B](%f: fn(A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
}
def @sum(%xs: List[float32]) -> float32 {
  match (%xs) { Cons(%x, %rest) => %x + @sum(%rest), Nil => 0f }
}
def @twice(%x: float32) -> float32 { %x + %x }
"""


@pytest.mark.parametrize(
    ("mapped", "expected"),
    [
        ("@sum(@map(@twice, %l))", 12.0),
        ("@sum(@map(fn (%x: float32) -> float32 { %x * %a }, %l))", 60.0),
        (
            "@sum(@map(fn (%x: float32) -> float32 { @sum(@map(fn (%y: float32) -> float32 { %y * %x }, %l)) }, %l))",
            36.0,
        ),
    ],
)
def test_functions_that_are_handed_on(mapped: str, expected: float) -> None:
    text = f"""{SUM_OF_MAPPED}
def @main(%a: float32) -> float32 {{
  let %l = Cons(1f, Cons(2f, Cons(3f, Nil)));
  {mapped}
}}"""
    mod = defunctionalised(relay.fromtext(text))
    np.testing.assert_allclose(run(mod, np.array(10.0, "float32")), expected, rtol=1e-6)


def test_closures_that_grow_with_a_recursion() -> None:
    text = """
#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
def @sum(%k: fn(int32) -> int32, %xs: List[int32]) -> int32 {
  match (%xs) {
    Cons(%x, %rest) => @sum(fn (%n: int32) -> int32 { %k(%x + %n) }, %rest),
    Nil => %k(0),
  }
}
def @id[A](%x: A) -> A { %x }
def @main(%a: int32) -> int32 { @sum(@id, Cons(%a, Cons(2, Cons(3, Nil)))) }
"""
    assert int(run(defunctionalised(relay.fromtext(text)), np.array(10, "int32"))) == 15


def test_a_local_function_that_calls_itself_and_is_handed_on() -> None:
    text = """
#[version = "0.0.5"]
def @apply(%f: fn(int32) -> int32, %x: int32) -> int32 { %f(%x) }
def @main(%a: int32) -> int32 {
  let %f = fn (%n: int32) -> int32 { if (%n == 0) { %a } else { %n + %f(%n - 1) } };
  @apply(%f, 4)
}
"""
    assert int(run(defunctionalised(relay.fromtext(text)), np.array(10, "int32"))) == 20


def test_functions_in_branches_and_tuples() -> None:
    text = """
#[version = "0.0.5"]
def @main(%c: bool, %x: float32) -> float32 {
  let %f = if (%c) { fn (%y: float32) -> float32 { %y + %x } } else { fn (%y: float32) -> float32 { %y * %x } };
  let %t = (%f, 2f);
  %t.0(%t.1)
}
"""
    mod = defunctionalised(relay.fromtext(text))
    assert [float(run(mod, np.array(c), np.array(3.0, "float32"))) for c in (True, False)] == [5.0, 6.0]


def test_a_function_that_takes_functions_itself_is_refused() -> None:
    f = relay.Var("f", FuncType([relay.scalar_type("float32")], relay.scalar_type("float32")))
    mod = module(relay.Function([f], f(relay.const(1.0))))
    with pytest.raises(ModelError, match="there is nobody to apply their encodings"):
        Defunctionalization(mod["main"], mod)
