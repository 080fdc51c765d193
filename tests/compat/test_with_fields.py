"""Nodes with fields changed, and nodes with places."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.ir import SourceName, Span

from vmkit import relay
from vmkit.compat import frontend_common as common
from vmkit.compat.with_fields import CallWithFields, FunctionWithFields, TupleWithFields, VarWithFields
from vmkit.errors import InputError, UnavailableError

X, Y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
PLACE = Span(SourceName("layer"), 0, 0, 0, 0)


def test_only_what_is_given_changes() -> None:
    call = relay.add(X, Y)
    assert CallWithFields(call) is call
    changed = CallWithFields(call, new_args=[Y, X])
    assert changed.op.name == "add" and changed.args[0].same_as(Y)
    assert call.args[0].same_as(X)
    assert TupleWithFields(relay.Tuple([X]), [X, Y]).fields[1].same_as(Y)


def test_a_function_keeps_its_attributes() -> None:
    function = relay.Function([X], X, attrs={"Primitive": 1})
    changed = FunctionWithFields(function, body=relay.exp(X))
    assert changed.attrs["Primitive"] == 1 and changed.body.op.name == "exp"


def test_a_place_is_set_on_a_copy() -> None:
    call = relay.add(X, Y)
    placed = CallWithFields(call, None, None, None, None, None, PLACE)
    assert placed.span.source_name.name == "layer" and call.span is None
    variable = relay.var("v", shape=(1,))
    assert VarWithFields(variable, variable) is variable
    assert VarWithFields(variable, span=PLACE).span.source_name.name == "layer"
    assert VarWithFields(variable, None, relay.TensorType((2,))).name_hint == "v"


def test_devices_and_unknown_fields_are_refused() -> None:
    with pytest.raises(UnavailableError, match=r"relay\.annotation\.on_device"):
        CallWithFields(relay.exp(X), virtual_device=relay.VirtualDevice.of("cpu"))
    with pytest.raises(TypeError, match="what changes of a Call is op, args"):
        CallWithFields(relay.exp(X), body=X)


def test_set_span_places_what_is_new() -> None:
    before = common.set_span(relay.exp(X), "first")
    after = common.set_span(relay.add(before, relay.const(1.0)), "second")
    assert after.span.source_name.name == "second"
    assert after.args[0].span.source_name.name == "first"
    assert after.args[1].span.source_name.name == "second"


def test_types_shapes_and_values_of_expressions() -> None:
    summed = relay.add(X, relay.const(np.ones(3, "float32")))
    assert common.infer_type(summed).checked_type == relay.TensorType((2, 3))
    assert common.infer_shape(relay.split(X, 3, 1)) == relay.TupleType([relay.TensorType((2, 1))] * 3)
    assert common.infer_shape(summed) == (2, 3)
    assert common.infer_channels(relay.var("w", shape=(8, 4, 3, 3)), transpose=True) == 4
    value = common.infer_value(summed, {"x": np.zeros((2, 3), "float32")})
    np.testing.assert_array_equal(value.numpy(), np.ones((2, 3)))
    with pytest.raises(InputError, match="without values of x"):
        common.infer_value(summed, {})
    simulated = common.infer_value_simulated(summed, {})
    np.testing.assert_array_equal(simulated.numpy(), np.full((2, 3), 2))


def test_a_value_is_inferred_where_there_is_one() -> None:
    value, found = common.try_infer_value(relay.add(relay.const(1), relay.const(2)), on_success=lambda v: int(v) * 10)
    assert (value, found) == (30, True)
    assert common.try_infer_value(X, on_failure=lambda: "none") == ("none", False)


def test_operators_are_found_by_their_last_name() -> None:
    assert common.get_relay_op("conv2d") is not None
    assert common.get_relay_op("exp")(X).op.name == "exp"
    with pytest.raises(RuntimeError, match="Unable to map op_name covn2d"):
        common.get_relay_op("covn2d")


def test_unbind_gives_slices() -> None:
    parts = common.unbind(X, axis=-1)
    assert len(parts) == 3
    assert common.infer_shape(parts[2]) == (2,)
    with pytest.raises(InputError, match="greater than or equal to rank"):
        common.unbind(X, axis=2)


def test_a_table_of_expressions_makes_parameters() -> None:
    table = common.ExprTable()
    weight = table.new_const(np.zeros((4, 5), "float32"))
    assert weight.name_hint == "_param_1" and table.get_expr("_param_1").same_as(weight)
    table.set_expr("out", X)
    table.set_expr("out", Y)
    assert table.get_expr("out") is X and not table.has_expr("other")
