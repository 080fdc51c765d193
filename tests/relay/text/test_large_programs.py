"""Texts of programs that are long, deep or share much: they are printed and read in time that grows with the text."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import tvm

from vmkit import relay
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
