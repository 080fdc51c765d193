"""Texts of programs that are long, deep or share much: they are printed and read in time that grows with the text."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import tvm

from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay import Call, Function, If, Let, Tuple, TupleGetItem, const, var
from vmkit.relay.text.printed_scopes import _enclosing, _Scope

SIZE = 6_000  # deeper than a stack of 8 MB holds


def _calls() -> Function:
    x = var("x", shape=(3, 2))
    body = x
    for _ in range(SIZE):
        body = body + const(1.0)
    return Function([x], body)


def _lets() -> Function:
    x = var("x", "float32")
    names = [x, *(var("y", "float32") for _ in range(SIZE))]
    body = names[-1]
    for before, name in zip(names[-2::-1], names[:0:-1], strict=True):
        body = Let(name, before + x, body)
    return Function([x], body)


def _projections() -> Function:
    x = body = var("x", "float32")
    for _ in range(SIZE):
        body = TupleGetItem(Tuple([body, x]), 0)
    return Function([x], body)


def _doubled() -> Function:
    x = body = var("x", "float32")
    for _ in range(1000):
        body = body + body
    return Function([x], body)


@pytest.mark.parametrize("make", [_calls, _lets, _projections, _doubled])
def test_large_program_is_typed_printed_read_and_saved(make: Callable[[], Function]) -> None:
    mod = relay.transform.InferType()(tvm.IRModule({"main": make()}))
    assert relay.structural_equal(relay.parse(relay.astext(mod)), mod)
    assert str(mod["main"]) == repr(mod["main"])
    assert relay.structural_equal(relay.load_json(relay.save_json(mod)), mod)


def _pairs(count: int, name: str = "v", first: str = "%x") -> str:
    pairs = [f"let %{name}1 = ({first}, {first});"]
    return "\n".join(pairs + [f"let %{name}{i + 1} = (%{name}{i}, %{name}{i});" for i in range(1, count)])


@pytest.mark.parametrize(
    "text",
    [
        f"def @main(%x: float32) {{ {_pairs(1000)} %v1000 }}",
        f"def @main(%x: Tensor[(n, 3), float32]) {{ {_pairs(100)} %v100 }}",
        f"def @id[A](%x: A) -> A {{ %x }} def @main(%x: float32) {{ {_pairs(100)} @id(%v100) }}",
        f"def @main(%x: float32, %c: bool) {{ {_pairs(100)} {_pairs(100, 'w')} if (%c) {{ %v100 }} else {{ %w100 }} }}",
        f"def @f(%x: Tensor[(n), float32]) {{ {_pairs(100)} %v100 }} def @main(%x: Tensor[(2), float32]) {{ @f(%x) }}",
        f"def @main(%x: {'(' * 3000}float32{',)' * 3000}) {{ %x }}",
    ],
)
def test_types_that_hold_one_type_many_times_are_found_in_the_time_of_one(text: str) -> None:
    mod = relay.fromtext(f'#[version = "0.0.5"]\n{text}')
    ty, depth = mod["main"].ret_type, 0
    while isinstance(ty, relay.TupleType):
        ty, depth = ty.fields[0], depth + 1
    assert depth in (100, 1000, 3000) and isinstance(ty, relay.TensorType)


def test_errors_show_large_types_in_brief() -> None:
    with pytest.raises(TypeCheckError) as caught:
        relay.fromtext(f'#[version = "0.0.5"]\ndef @main(%x: float32) {{ {_pairs(100)} nn.relu(%v100) }}')
    deep = "((..., ...), (..., ...))"
    assert f"nn.relu(({deep}, {deep})): data must be a tensor, not ({deep}, {deep})" in str(caught.value)


def test_nested_blocks_are_indented_by_their_depth() -> None:
    condition, x = var("c", "bool"), var("x", "float32")
    body = x
    for _ in range(1000):
        body = If(condition, x, Call(Function([], body), []))
    function = Function([condition, x], body)
    lines = str(function).split("\n")
    assert max(len(line) - len(line.lstrip(" ")) for line in lines) == 2 * (2 * 1000 + 1)
    assert relay.structural_equal(relay.parse_expr(relay.astext(function)), function)


def test_string_with_a_mark_of_the_printer_is_kept() -> None:
    function = Function([], const(1)).with_attr("note", "a\ufdd0b")
    assert relay.parse_expr(relay.astext(function)).attrs["note"] == "a\ufdd0b"


def test_scope_around_two_is_the_innermost() -> None:
    choose = random.Random(0)
    scopes = [_Scope()]
    for _ in range(500):
        scopes.append(_Scope(choose.choice(scopes[-3:])))

    def around(scope: _Scope) -> list[_Scope]:
        found = [scope]
        while found[-1].outer is not found[-1]:
            found.append(found[-1].outer)
        return found

    for _ in range(500):
        a, b = choose.choice(scopes), choose.choice(scopes)
        assert _enclosing(a, b) is next(scope for scope in around(a) if scope in around(b))
