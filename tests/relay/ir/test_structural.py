from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from vmkit import relay

# Deep enough to overflow the stack of a thread that was not asked for more.
DEEP = 6_000


def var(name: str = "x") -> relay.Var:
    return relay.var(name, shape=())


def doubled(levels: int) -> relay.Function:
    """Return a function in which every call uses the one before twice: 2 ** levels paths."""
    x = var()
    body: Any = x
    for _ in range(levels):
        body = body + body
    return relay.Function([x], body)


NESTS: dict[str, Callable[[Any, Any], Any]] = {
    "call": lambda e, x: relay.exp(e),
    "let": lambda e, x: relay.Let(var("bound"), x, e),
    "value of let": lambda e, x: relay.Let(v := var("bound"), e, v),
    "if": lambda e, x: relay.If(relay.const(True), e, x),
    "tuple": lambda e, x: relay.TupleGetItem(relay.Tuple([e]), 0),
    "function": lambda e, x: relay.Call(relay.Function([], e), []),
}


def nested(kind: str, levels: int) -> relay.Function:
    x = var()
    body: Any = x
    for _ in range(levels):
        body = NESTS[kind](body, x)
    return relay.Function([x], body)


@pytest.mark.parametrize("kind", NESTS)
def test_deep_programs_are_compared_and_hashed(kind: str) -> None:
    one, other, longer = nested(kind, DEEP), nested(kind, DEEP), nested(kind, DEEP + 1)
    assert relay.structural_equal(one, other)
    assert relay.structural_hash(one) == relay.structural_hash(other)
    assert not relay.structural_equal(one, longer)
    assert relay.structural_hash(one) != relay.structural_hash(longer)


@pytest.mark.parametrize("kind", NESTS)
def test_deep_programs_are_typed_saved_and_visited(kind: str) -> None:
    program = nested(kind, 700)
    assert relay.structural_equal(relay.load_json(relay.save_json(program)), program)
    assert relay.ExprMutator().visit(program).same_as(program)
    typed = relay.transform.InferType()(tvm.IRModule({"main": program}))
    assert str(typed["main"].checked_type) == "fn (float32) -> float32"
    bound = relay.bind(program, {program.params[0]: relay.const(np.float32(2))})
    assert relay.free_vars(bound) == []


def test_shared_expressions_are_looked_at_once() -> None:
    one, other = doubled(1_000), doubled(1_000)
    assert relay.structural_equal(one, other)
    assert relay.structural_hash(one) == relay.structural_hash(other)
    assert repr(one).count("add(") == 1_000
    assert relay.structural_equal(relay.load_json(relay.save_json(one)), one)
    mod = relay.transform.InferType()(tvm.IRModule({"main": one}))
    assert relay.structural_equal(relay.parse(relay.astext(mod)), mod)
    assert relay.ExprMutator().visit(one).same_as(one)


def test_a_shared_expression_differs_from_two_that_are_alike() -> None:
    x = var()
    shared, alike = relay.exp(x), relay.exp(x)
    once, twice = relay.Function([x], shared + shared), relay.Function([x], shared + alike)
    assert not relay.structural_equal(once, twice)
    assert relay.structural_hash(once) != relay.structural_hash(twice)


def test_empty_tuples_are_one_constant() -> None:
    unit = relay.Tuple([])
    x, y = var("x"), var("y")
    shared = relay.Function([], relay.Let(x, unit, unit))
    assert relay.structural_equal(shared, relay.Function([], relay.Let(y, relay.Tuple([]), relay.Tuple([]))))
    one = relay.Tuple([unit])
    assert not relay.structural_equal(relay.Tuple([one, one]), relay.Tuple([relay.Tuple([unit]), relay.Tuple([unit])]))
    body: relay.Expr = unit
    for _ in range(300):
        body = relay.Tuple([body, body])
    assert relay.structural_equal(body, relay.load_json(relay.save_json(body)))


def test_free_variables_are_themselves_unless_they_are_mapped() -> None:
    x, y = var("x"), var("y")
    assert not relay.structural_equal(relay.exp(x), relay.exp(y))
    assert relay.structural_equal(relay.exp(x), relay.exp(y), map_free_vars=True)
    assert relay.structural_hash(relay.exp(x), True) == relay.structural_hash(relay.exp(y), True)


def test_floats_of_attributes_are_compared_to_nine_digits() -> None:
    x = var()
    assert relay.structural_equal(relay.clip(x, 0.1, 1.0), relay.clip(x, 0.1 + 1e-11, 1.0))
    assert not relay.structural_equal(relay.clip(x, 0.1, 1.0), relay.clip(x, 0.1 + 1e-8, 1.0))
    assert not relay.structural_equal(relay.clip(x, 0.1, 1.0), relay.clip(x, 0.1, 2.0))


def test_a_failed_assertion_shows_where_programs_differ() -> None:
    x = var()
    one, other = (relay.Function([x], relay.exp(relay.clip(x, low, 1.0))) for low in (0.25, 0.5))
    with pytest.raises(ValueError, match="StructuralEqual check failed") as raised:
        relay.assert_structural_equal(one, other)
    assert str(raised.value).endswith(
        "They differ first where lhs has\nfree_var %x: float32;\nclip(%x, a_min=0.25f, a_max=1f)\n"
        "and rhs has\nfree_var %x: float32;\nclip(%x, a_min=0.5f, a_max=1f)"
    )
    relay.assert_structural_equal(one, one)


def test_a_failed_assertion_on_modules_shows_the_function() -> None:
    one, other = (tvm.IRModule({"main": nested("call", n)}) for n in (500, 501))
    with pytest.raises(ValueError, match="They differ first where"):
        relay.assert_structural_equal(one, other)
