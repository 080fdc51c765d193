"""Attributes of other formats, read, renamed and refused as the old converters did."""

from __future__ import annotations

import numpy as np
import pytest

from vmkit import relay
from vmkit.compat.frontend_common import AttrCvt, Renamer, StrAttrsDict, shape_of

X = relay.var("x", shape=(2, 3))


def test_texts_are_read_as_what_they_stand_for() -> None:
    texts = {"f": "0.5", "i": "7", "n": "None", "t": "(1, None,3)", "l": "[1, 2]", "r": "(0.5,)", "b": " Yes", "s": "a"}
    attrs = StrAttrsDict({**texts, "p": "((1, 2), (3, 4))"})
    assert (attrs.get_float("f"), attrs.get_int("i"), attrs.get_int("n"), attrs.get_str("s")) == (0.5, 7, None, "a")
    assert (attrs.get_int_tuple("t"), attrs.get_int_list("l")) == ((1, None, 3), [1, 2])
    assert (attrs.get_float_tuple("r"), attrs.get_tuple_tuple_int("p")) == ((0.5,), ((1, 2), (3, 4)))
    assert attrs.get_bool("b") and not attrs.get_bool("s") and attrs.get_bool("none", False) is False
    assert attrs.get_int("none", None) is None and attrs.has_attr("i") and not attrs.has_attr("none")
    with pytest.raises(AttributeError, match="Required attribute kernal not found"):
        attrs.get_int_tuple("kernal")


def test_attributes_are_renamed_converted_and_left_out() -> None:
    convert = AttrCvt(
        op_name=lambda attrs: "max_pool2d" if attrs["kind"] == "max" else "avg_pool2d",
        transforms={"kernel": "pool_size", "pads": ("padding", (0, 0), tuple), "stride": ("strides", (2, 2))},
        ignores=["kind"],
        disables=["workspace"],
        excludes=["global_pool"],
        extras={"ceil_mode": True},
        custom_check=(lambda attrs: "kernel" in attrs, "a window is needed"),
    )
    data = relay.var("data", shape=(1, 1, 8, 8))
    given = {"kind": "max", "kernel": (3, 3), "pads": [1, 1], "stride": None, "workspace": 1, "tvm_custom": {}}
    call = convert([data], given, {})
    assert call.op.name == "nn.max_pool2d" and call.args[0].same_as(data) and call.attrs.ceil_mode
    assert [list(map(int, getattr(call.attrs, name))) for name in ("pool_size", "strides")] == [[3, 3], [2, 2]]
    assert {int(n) for n in call.attrs.padding} == {1}
    with pytest.raises(NotImplementedError, match="Attribute global_pool in operator avg_pool2d is not supported"):
        convert([data], {"kind": "avg", "kernel": (3, 3), "global_pool": 1})
    with pytest.raises(RuntimeError, match="Check failed: a window is needed"):
        convert([data], {"kind": "max"})
    with pytest.raises(ValueError, match="is not a valid target of a"):
        AttrCvt("exp", {"a": ()})([X], {"a": 1})


def test_operators_are_renamed() -> None:
    call = Renamer("transpose")([X], {"axes": (1, 0), "tvm_custom": {"name": "n"}}, {})
    assert call.op.name == "transpose" and list(call.attrs.axes) == [1, 0]
    with pytest.raises(RuntimeError, match="Unable to map op_name transposed to relay"):
        Renamer("transposed")([X], {})


def test_a_shape_is_a_constant_where_it_is_known() -> None:
    known = shape_of(relay.exp(X), "int32", start=-1)
    assert isinstance(known, relay.Constant) and known.data.dtype == "int32"
    np.testing.assert_array_equal(known.data.numpy(), [3])
    unknown = relay.var("u", shape=(relay.Any(), 3))
    assert shape_of(unknown).op.name == "shape_of"
    assert shape_of(unknown, end=1).op.name == "strided_slice"
