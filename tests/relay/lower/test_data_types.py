"""Values of algebraic data types are built, matched, passed in and returned."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from vmkit import ADT, relay
from vmkit.errors import InputError, VMError

TYPES = """
type List[A] { Cons(A, List[A]), Nil, }
type Option[A] { Some(A), None, }
type Shape { Circle(float32), Box(float32, float32), Empty, }
type Pair { Both(int32, int32), }
"""
LIST = """
def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] {
  match (%l) { Cons(%x, %xs) => { Cons(%f(%x), @map(%f, %xs)) }, Nil => { Nil }, }
}
def @range(%n: int32, %acc: List[int32]) -> List[int32] {
  if (%n == 0) { %acc } else { @range(%n - 1, Cons(%n, %acc)) }
}
def @sum(%l: List[int32], %a: int32) -> int32 {
  match (%l) { Cons(%x, %xs) => { @sum(%xs, %a + %x) }, Nil => { %a }, }
}
"""


def parsed(text: str) -> object:
    return relay.parse(f'#[version = "0.0.5"]\n{TYPES}{text}')


def machine(text: str) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(parsed(text), target="llvm"))


def tags(type_name: str) -> dict[str, int]:
    return {c.name_hint: c.tag for c in relay.find_type(parsed(""), type_name).constructors}


def as_list(value: ADT) -> list[object]:
    found = []
    while len(value):
        found.append(value[0].numpy().item())
        value = value[1]
    return found


def test_tags_are_those_that_relay_chose() -> None:
    assert tags("List") == {"Cons": -2013265920, "Nil": -2013265919}


def test_a_list_is_built_mapped_and_returned() -> None:
    vm = machine(LIST + "def @main(%n: int32) { @map(fn (%x: int32) { %x * %n }, @range(%n, Nil)) }")
    assert as_list(vm.run(4)) == [4, 8, 12, 16]
    assert as_list(vm.run(0)) == []


def test_a_list_of_a_hundred_thousand_elements_is_walked() -> None:
    vm = machine(LIST + "def @main(%n: int32) { @sum(@map(fn (%x: int32) { %x + 1 }, @range(%n, Nil)), 0) }")
    n = 100_000
    assert vm.run(n).numpy() == np.int64(n * (n + 3) // 2).astype("int32")


def test_a_value_comes_back_in_and_survives_export(tmp_path: object) -> None:
    text = LIST + "def @main(%l: List[int32]) { (@sum(%l, 0), @map(fn (%x: int32) { 0 - %x }, %l)) }"
    vmkit.compile(parsed(text), target="llvm").export(f"{tmp_path}/list.vmx")
    vm = vmkit.VirtualMachine(vmkit.load(f"{tmp_path}/list.vmx"))
    tag = tags("List")
    given = ADT(tag["Cons"], [5, ADT(tag["Cons"], [np.int32(7), ADT(tag["Nil"])])])
    total, negated = vm.run(given)
    assert total.numpy() == 12
    assert as_list(negated) == [-5, -7]
    assert vm.run(negated)[0].numpy() == -12


CASES = {
    "nested constructors": (
        "def @main(%x: Option[Option[int32]]) -> int32 "
        "{ match (%x) { Some(Some(%a)) => { %a }, Some(None) => { 1 }, None => { 2 } } }",
        [(("Some", ("Some", 7)), 7), (("Some", ("None",)), 1), (("None",), 2)],
    ),
    "the first clause that matches": (
        "def @main(%x: Option[int32]) -> int32 { match (%x) { None => { 0 }, _ => { 1 }, Some(%a) => { %a } } }",
        [(("Some", 7), 1), (("None",), 0)],
    ),
    "tuples": (
        "def @main(%x: Option[int32]) -> int32 { match ((%x, %x)) "
        "{ (None, _) => { 0 }, (Some(%a), None) => { %a }, (Some(%b), Some(%c)) => { %b + %c } } }",
        [(("Some", 4), 8), (("None",), 0)],
    ),
    "a variable for the whole": (
        "def @main(%x: Option[int32]) -> int32 "
        "{ match (%x) { Some(%a) => { %a }, %other => { match? (%other) { None => { 3 } } } } }",
        [(("Some", 4), 4), (("None",), 3)],
    ),
    "a match on a match": (
        "def @main(%x: Option[int32]) -> int32 { match (match (%x) { Some(%a) => { None }, None => { Some(5) } }) "
        "{ Some(%a) => { %a }, None => { 6 } } }",
        [(("Some", 4), 6), (("None",), 5)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_match_takes_the_first_clause_that_fits(name: str) -> None:
    text, examples = CASES[name]
    vm = machine(text)
    for given, expected in examples:
        assert vm.run(_option(given)).numpy() == expected


def _option(value: object) -> object:
    if not isinstance(value, tuple):
        return value
    return ADT(tags("Option")[value[0]], [_option(v) for v in value[1:]])


def test_constructors_of_several_fields_and_of_none() -> None:
    vm = machine(
        "def @main(%s: Shape) -> float32 "
        "{ match (%s) { Circle(%r) => { %r * %r }, Box(%a, %b) => { %a * %b }, Empty => { 0f } } }"
    )
    tag = tags("Shape")
    assert vm.run(ADT(tag["Circle"], [3.0])).numpy() == 9
    assert vm.run(ADT(tag["Box"], [3.0, 5.0])).numpy() == 15
    assert vm.run(ADT(tag["Empty"])).numpy() == 0


def test_a_type_of_one_constructor_needs_no_test() -> None:
    vm = machine("def @main(%p: Pair) -> int32 { match (%p) { Both(%a, %b) => { %a - %b } } }")
    assert vm.run(ADT(tags("Pair")["Both"], [9, 2])).numpy() == 7


def test_unknown_dimensions_of_fields_are_named() -> None:
    text = """def @main(%x: Tensor[(?, 2), float32], %y: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
      match (Some((%x, 1))) { Some((%a, %one)) => { %a + %y }, None => { %y } } }"""
    vm = machine(text)
    np.testing.assert_array_equal(vm.run(np.ones((3, 2), "float32"), np.ones((1, 2), "float32")).numpy(), 2)
    with pytest.raises(VMError, match="dimension 0 is"):
        vm.run(np.ones((3, 2), "float32"), np.ones((4, 2), "float32"))


def test_what_two_clauses_share_is_computed_before_them() -> None:
    vm = machine(
        "def @main(%x: Tensor[(4), float32], %o: Option[int32]) -> Tensor[(4), float32] "
        "{ %0 = exp(%x); match (%o) { Some(%a) => { %0 + %0 }, None => { negative(%0) } } }"
    )
    x = np.arange(4, dtype="float32")
    np.testing.assert_allclose(vm.run(x, _option(("Some", 1))).numpy(), 2 * np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(vm.run(x, _option(("None",))).numpy(), -np.exp(x), rtol=1e-6)


def test_tensors_that_values_hold_are_not_overwritten() -> None:
    # Each tensor is stored in a value, is dead to the planner of memory from there on, and read at the end.
    steps = "".join(f"let %v{i} = Some(multiply(%x, {i}f)); " for i in range(1, 6))
    reads = " + ".join(f"@get(%v{i})" for i in range(1, 6))
    vm = machine(
        "def @get(%o: Option[Tensor[(64), float32]]) -> Tensor[(64), float32] "
        "{ match? (%o) { Some(%a) => { %a } } }"
        f"def @main(%x: Tensor[(64), float32]) -> Tensor[(64), float32] {{ {steps} {reads} }}"
    )
    np.testing.assert_array_equal(vm.run(np.ones(64, "float32")).numpy(), 15)


def test_a_value_that_no_clause_covers_is_an_error_at_run_time() -> None:
    vm = machine("def @main(%x: Option[Option[int32]]) -> int32 { match? (%x) { Some(Some(%a)) => { %a } } }")
    assert vm.run(_option(("Some", ("Some", 3)))).numpy() == 3
    for value in [("None",), ("Some", ("None",))]:
        with pytest.raises(VMError, match=r"no clause of the match covers the value; .* leave out Some\(None\), None"):
            vm.run(_option(value))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.int32(3), r"x: an int32, expected vmkit.ADT\(tag, fields\) for Option\[int32\]|a int32|an array"),
        (ADT(7, [3]), r"x: tag 7 is of no constructor of Option\[int32\]; its tags are \d+ for Some, \d+ for None"),
        (ADT(1107296256, []), "x: Some has 1 fields, got 0"),
    ],
)
def test_a_wrong_value_is_refused_by_the_signature(value: object, message: str) -> None:
    vm = machine("def @main(%x: Option[int32]) -> int32 { match (%x) { Some(%a) => { %a }, None => { 0 } } }")
    with pytest.raises(InputError, match=message):
        vm.run(value)


def test_the_signature_names_the_type() -> None:
    executable = vmkit.compile(parsed("def @main(%x: Option[int32]) -> List[int32] { Nil }"), target="llvm")
    assert str(executable.signature) == "main(x: Option[int32]) -> List[int32]"
