"""A relation between types, visited and checked as other types are."""

from __future__ import annotations

import pytest

from vmkit import relay
from vmkit.errors import TypeCheckError

VECTOR = relay.TensorType((2,), "float32")


def test_a_relation_is_of_the_kind_constraint() -> None:
    relation = relay.TypeRelation(None, [VECTOR, relay.TypeVar("t")], 1)
    assert relay.analysis.check_kind(relation) == relay.Kind.Constraint
    shapes = relay.TypeRelation(None, [relay.TypeVar("s", relay.Kind.Shape)], 0)
    with pytest.raises(TypeCheckError, match="of kind Shape, where a Type is needed"):
        relay.analysis.check_kind(shapes)


def test_a_function_type_keeps_its_constraints() -> None:
    parameter = relay.TypeVar("t")
    relation = relay.TypeRelation(None, [parameter, VECTOR], 1)
    function = relay.FuncType([parameter], VECTOR, [parameter], [relation])
    assert relay.analysis.check_kind(function) == relay.Kind.Type
    assert relay.TypeMutator().visit(function).type_constraints[0].num_inputs == 1
    with pytest.raises(TypeCheckError, match="where a Constraint is needed"):
        relay.analysis.check_kind(relay.FuncType([], VECTOR, [], [VECTOR]))


def test_a_mutator_changes_what_is_related() -> None:
    class Wider(relay.TypeMutator):
        def visit_tensor_type(self, ty: relay.TensorType) -> relay.Type:
            return relay.TensorType(list(ty.shape), "float64")

    changed = Wider().visit(relay.TypeRelation(None, [VECTOR, VECTOR], 1))
    assert isinstance(changed, relay.TypeRelation)
    assert [part.dtype for part in changed.args] == ["float64"] * 2


def test_no_more_inputs_than_types() -> None:
    with pytest.raises(ValueError, match="from 0 to the number of types, 1"):
        relay.TypeRelation(None, [VECTOR], 2)
