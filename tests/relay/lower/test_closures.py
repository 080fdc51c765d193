"""Functions are values: passed, stored, returned; local ones take what they use from around them."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from vmkit import relay

TYPES = "type Option[A] { Some(A), None, } type Box { Fn(fn (int32) -> int32), }"


def machine(text: str) -> vmkit.VirtualMachine:
    mod = relay.parse(f'#[version = "0.0.5"]\n{TYPES}\n{text}')
    return vmkit.VirtualMachine(vmkit.compile(mod, target="llvm"))


APPLY = "def @apply(%f: fn (int32) -> int32, %x: int32) -> int32 { %f(%x) }"
PROGRAMS = {
    "a global function": (APPLY + "def @inc(%x: int32) { %x + 1 } def @main(%x: int32) { @apply(@inc, %x) }", 11),
    "a polymorphic function": (
        APPLY + "def @id[A](%x: A) -> A { %x } def @main(%x: int32) { @apply(@id, %x) }",
        10,
    ),
    "a captured variable": (
        APPLY + "def @main(%x: int32) { let %y = %x * 3; @apply(fn (%n: int32) { %n - %y }, %x) }",
        -20,
    ),
    "a constructor": (
        "def @wrap(%f: fn (int32) -> Option[int32], %x: int32) { %f(%x) }"
        "def @main(%x: int32) -> int32 { match (@wrap(Some, %x)) { Some(%a) => { %a + 1 }, None => { 0 } } }",
        11,
    ),
    "a function that calls itself": (
        APPLY + "def @main(%x: int32) { let %f = fn (%n: int32) -> int32 "
        "{ if (%n == 0) { 0 } else { %f(%n - 1) + %x } }; @apply(%f, 4) }",
        40,
    ),
    "a function that gives a function": (
        "def @flip(%f: fn (int32, int32) -> int32) { fn (%a: int32, %b: int32) { %f(%b, %a) } }"
        "def @main(%x: int32) { let %g = @flip(fn (%a: int32, %b: int32) { %a - %b }); %g(%x, 3) }",
        -7,
    ),
    "a choice of functions": (
        "def @main(%x: int32) -> int32 { let %f = if (%x < 3) { fn (%a: int32) -> int32 { %a } } "
        "else { fn (%a: int32) -> int32 { %a * %x } }; %f(2) }",
        20,
    ),
    "a function in a tuple": (
        "def @main(%x: int32) -> int32 { let %t = (fn (%a: int32) { %a + %x }, 1); let %f = %t.0; %f(%t.1) }",
        11,
    ),
    "a function in a data type": (
        "def @main(%x: int32) -> int32 { match (Fn(fn (%a: int32) { %a + %x })) { Fn(%f) => { %f(5) } } }",
        15,
    ),
    "a loop over a function": (
        "def @loop(%f: fn (int32) -> int32, %n: int32, %i: int32) -> int32 "
        "{ if (%n == 0) { %i } else { @loop(%f, %n - 1, %f(%i)) } }"
        "def @main(%x: int32) { @loop(fn (%a: int32) { %a + %x }, 1000, 0) }",
        10_000,
    ),
    "a polymorphic function with a local one": (
        "def @f[A](%x: A, %n: int32) -> A "
        "{ let %g = fn (%y: A) -> A { if (%n == 0) { %y } else { %x } }; %g(%x) }"
        "def @main(%x: int32) { @f(%x, 2) }",
        10,
    ),
    "mutual recursion": (
        "def @even(%n: int32) -> int32 { if (%n == 0) { 1 } else { @odd(%n - 1) } }"
        "def @odd(%n: int32) -> int32 { if (%n == 0) { 0 } else { @even(%n - 1) } }"
        "def @main(%x: int32) { @even(%x) * 10 + @odd(%x) }",
        10,
    ),
    "recursion through a closure": (
        APPLY + "def @down(%n: int32) -> int32 { let %g = fn (%m: int32) -> int32 { @down(%m - 1) }; "
        "if (%n == 0) { 0 } else { @apply(%g, %n) + 1 } } def @main(%x: int32) { @down(%x * 1000) }",
        10_000,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_are_values(name: str) -> None:
    text, expected = PROGRAMS[name]
    assert machine(text).run(10).numpy() == expected


def test_a_function_that_a_program_returns_can_be_called() -> None:
    vm = machine("def @main(%x: int32) { fn (%y: int32) { %x - %y } }")
    closure = vm.run(10)
    assert vm.invoke_closure(closure, 3).numpy() == 7


def test_an_untyped_function_gets_its_types_from_where_it_goes() -> None:
    text = """def @map[A, B](%f: fn (A) -> B, %o: Option[A]) -> Option[B] {
      match (%o) { Some(%x) => { Some(%f(%x)) }, None => { None } }
    }
    def @main(%x: Tensor[(?), float32]) -> Tensor[(?), float32] {
      match? (@map(fn (%p) { %p.0 + exp(%p.1) }, Some((%x, %x)))) { Some(%y) => { %y } }
    }"""
    x = np.arange(3, dtype="float32")
    np.testing.assert_allclose(machine(text).run(x).numpy(), x + np.exp(x), rtol=1e-6)
