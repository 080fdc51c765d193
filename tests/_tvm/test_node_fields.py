"""Nodes that Python defines are made, and their fields set, without a reference too many."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi

from vmkit import relay
from vmkit._tvm.node_references import references_to
from vmkit.relay.ir import Clause, Constructor, PatternVar, PatternWildcard
from vmkit.relay.ir.lifetime import nodes_end


def references(value: tvm_ffi.Object) -> int:
    return references_to(value.__chandle__())


def test_a_field_holds_what_it_is_set_to_once() -> None:
    data, other = relay.const(np.ones(4, "float32")), relay.TensorType((2,), "float32")
    before = references(data), references(other)
    with nodes_end():
        made = relay.Tuple([data])
        held = references(data)
        for _ in range(3):
            made.checked_type_ = other
            assert references(other) == before[1] + 1
        made.checked_type_ = None
        assert (held, references(other)) == (before[0] + 1, before[1])
        del made
    assert references(data) == before[0]


def test_fields_of_one_class_of_nodes_hold_what_they_are_set_to_once() -> None:
    ty, x = relay.TensorType((2,), "float32"), relay.var("x")
    before = references(ty), references(x)
    with nodes_end():
        made = [relay.RefType(ty), relay.FuncType([], ty), Clause(PatternVar(x), x)]
        assert references(ty) == before[0] + 2
        del made
    assert (references(ty), references(x)) == before


def test_fields_have_their_values_and_defaults() -> None:
    x = relay.var("x", shape=(2,))
    call = relay.Call(tvm.ir.Op.get("negative"), [x])
    assert call.attrs is None and call.span is None and call.checked_type_ is None and list(call.type_args) == []
    assert call.op.name == "negative" and call.args[0].same_as(x)
    item = relay.TupleGetItem(relay.Tuple([x, call]), 1)
    assert (item.index, item.tuple_value.fields[1].same_as(call)) == (1, True)
    assert relay.TensorType((2, relay.Any()), "bfloat16").dtype == "bfloat16"
    assert isinstance(relay.Any().ty, tvm.ir.Type)


def test_fields_are_taken_by_their_place_or_name_where_a_class_says_no_more() -> None:
    device = relay.ir.VirtualDevice(1, 2)
    assert (device.device_type, device.virtual_device_id) == (1, 2)
    assert relay.ir.VirtualDevice(device_type=1, virtual_device_id=3).virtual_device_id == 3
    with pytest.raises(TypeError, match=r"VirtualDevice takes at most \d values by their place, got 9"):
        relay.ir.VirtualDevice(*range(9))
    with pytest.raises(TypeError, match="VirtualDevice has no field 'nothing'"):
        relay.ir.VirtualDevice(nothing=1)


def test_a_value_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError):
        relay.Var(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        relay.RefType(relay.var("x"))  # type: ignore[arg-type]
    assert isinstance(PatternWildcard(), relay.Pattern) and not issubclass(Constructor, relay.Pattern)
