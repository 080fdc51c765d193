"""Every function literal becomes global, and the program means the same."""

from __future__ import annotations

import numpy as np
import tvm

import vmkit
from vmkit import relay
from vmkit.relay.ir import post_order
from vmkit.relay.transform import LambdaLift


def lifted(text: str) -> tvm.IRModule:
    """Return a module after the pass, none of whose functions has a literal but a closure the one that it returns."""
    mod = LambdaLift()(relay.fromtext(f'#[version = "0.0.5"]\n{text}'))
    for function in mod.functions.values():
        inside = function.body.body if function.attrs.get("Closure") else function.body
        assert not any(isinstance(node, relay.Function) for node in post_order(inside))
    return mod


def run(mod: tvm.IRModule, *args: int) -> int:
    machine = vmkit.VirtualMachine(vmkit.compile(mod, target="llvm"), vmkit.device("cpu"))
    return int(machine.run(*(np.array(arg, "int32") for arg in args)).numpy())


def test_a_literal_that_is_called_becomes_global() -> None:
    mod = lifted("def @main(%x: int32) -> int32 { (fn (%y: int32) -> int32 { %y + 1 })(%x) }")
    assert sorted(gvar.name_hint for gvar in mod.functions) == ["main", "main_lifted_0"]
    assert run(mod, 2) == 3


def test_a_closure_becomes_a_function_of_what_it_uses() -> None:
    mod = lifted("""
def @main(%x: int32) -> int32 {
  let %add = fn (%a: int32) -> fn(int32) -> int32 { fn (%b: int32) -> int32 { %a + %b } };
  %add(%x)(10)
}""")
    assert [len(f.params) for f in mod.functions.values() if f.attrs.get("Closure")] == [1]
    assert len(mod.functions) == 3
    assert run(mod, 2) == 12


def test_a_closure_that_calls_itself() -> None:
    mod = lifted("""
def @main(%x: int32) -> int32 {
  let %f = fn (%n: int32) -> int32 { if (%n == 0) { %x } else { %n + %f(%n - 1) } };
  %f(4)
}""")
    assert run(mod, 100) == 110


def test_type_variables_of_the_function_around_stay_bound() -> None:
    mod = lifted("""
def @keep[A](%x: A) -> A { let %f = fn (%y: A) -> A { %y }; %f(%x) }
def @main(%x: int32) -> int32 { @keep(%x) }""")
    assert run(mod, 7) == 7


def test_kernels_stay_where_they_are() -> None:
    text = "def @main(%x: int32) -> int32 { (fn (%y: int32, Primitive=1) -> int32 { %y + 1 })(%x) }"
    mod = LambdaLift()(relay.fromtext(f'#[version = "0.0.5"]\n{text}'))
    assert len(mod.functions) == 1
