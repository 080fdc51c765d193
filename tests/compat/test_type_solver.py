"""Type relations and unification, one step at a time; and the relation as a type."""

from __future__ import annotations

import pytest
import tvm

from vmkit import relay
from vmkit.compat.type_solver import Solver, register_relations
from vmkit.errors import TypeCheckError

register_relations()


def _relation(name: str, *types: relay.Type) -> relay.TypeRelation:
    function = tvm.ir.EnvFunc.get(f"tvm.relay.type_relation.{name}")
    return relay.TypeRelation(function, types, len(types) - 1)


def test_what_follows_from_known_types_is_solved() -> None:
    solver, out, same = Solver(), relay.IncompleteType(), relay.IncompleteType()
    solver("AddConstraint")(_relation("Identity", out, same))
    solver("AddConstraint")(_relation("Broadcast", relay.TensorType((4, 1)), relay.TensorType((3,)), out))
    assert solver("Solve")()
    assert solver("Resolve")(same) == relay.TensorType((4, 3))


def test_what_lacks_a_type_stays_open() -> None:
    solver = Solver()
    solver("AddConstraint")(
        _relation("Broadcast", relay.IncompleteType(), relay.TensorType((3,)), relay.IncompleteType())
    )
    assert not solver("Solve")()


def test_types_that_do_not_agree_are_refused() -> None:
    solver, hole = Solver(), relay.IncompleteType()
    unified = solver("Unify")(relay.TupleType([hole, hole]), relay.TupleType([relay.TensorType((2,)), hole]))
    assert unified == relay.TupleType([relay.TensorType((2,))] * 2)
    with pytest.raises(TypeCheckError, match="does not agree"):
        solver("Unify")(relay.TensorType((2,)), relay.TensorType((3,)))
