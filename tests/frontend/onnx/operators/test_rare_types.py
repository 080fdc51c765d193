"""Operators on the element types that models seldom have, and conversions between types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx.programs import Compiled, model, node
from vmkit.backend import prepare
from vmkit.errors import ModelError


def results(nodes: list[onnx.NodeProto], **inputs: Any) -> list[np.ndarray]:
    """Return what each node gives, in a model whose sizes are unknown."""
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), [f"{name}{i}" for i in range(value.ndim)]
        )
        for name, value in inputs.items()
    ]
    outputs = [onnx.ValueInfoProto(name=o) for n in nodes for o in n.output]
    graph = helper.make_graph(nodes, "g", infos, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", onnx.defs.onnx_opset_version())])
    return list(prepare(proto).run(inputs))


def test_a_shift_by_all_bits_or_backwards_leaves_the_sign() -> None:
    nodes = [node("BitShift", "x by", way.lower(), direction=way) for way in ("LEFT", "RIGHT")]
    x, by = np.int8([-5, 5, -5, 5, -1, 64]), np.int8([8, 100, -1, -1, 1, 1])
    left, right = results(nodes, x=x, by=by)
    assert left.tolist() == [0, 0, 0, 0, -2, -128]
    assert right.tolist() == [-1, 0, -1, 0, -1, 32]
    left, right = results(nodes, x=np.uint64([1 << 63, 3, 3]), by=np.uint64([63, 64, 1]))
    assert (left.tolist(), right.tolist()) == ([0, 0, 6], [1, 0, 1])


def test_softplus_and_mish_keep_the_digits_of_small_results() -> None:
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-13)):
        x = np.array([-80, -20, -10, -9.97, -4, -1, 0, 1, 30, 100], dtype)
        softplus, mish = results([node("Softplus", "x", "a"), node("Mish", "x", "b")], x=x)
        expected = np.logaddexp(0, x.astype("float64"))
        np.testing.assert_allclose(softplus, expected, rtol=tolerance)
        np.testing.assert_allclose(mish, x * np.tanh(expected), rtol=tolerance)


def test_the_largest_of_64_unsigned_bits_come_first() -> None:
    x = np.uint64([3, 1 << 63, 7, (1 << 64) - 1])
    info = helper.make_tensor_value_info("x", TensorProto.UINT64, [4])
    k = helper.make_tensor("k", TensorProto.INT64, [1], [3])
    outputs = [onnx.ValueInfoProto(name=n) for n in "va"]
    graph = helper.make_graph([node("TopK", "x k", "v a")], "g", [info], outputs, [k])
    values, at = prepare(helper.make_model(graph)).run([x])
    assert (values.tolist(), at.tolist()) == ([(1 << 64) - 1, 1 << 63, 7], [3, 1, 2])


def test_the_length_of_an_integer_vector_is_an_integer() -> None:
    nodes = [node("ReduceL2", "x", "y", keepdims=0)]
    for dtype in ("int32", "uint64"):
        (y,) = results(nodes, x=np.array([3, 5], dtype))
        assert (str(y.dtype), y.tolist()) == (dtype, 5)


# Each: the elements, the type to read them as.
BITS = [
    (np.array([-8, -1, 0, 7], ml_dtypes.int4), TensorProto.UINT4, [8, 15, 0, 7]),
    (np.array([8, 15, 0, 7], ml_dtypes.uint4), TensorProto.INT4, [-8, -1, 0, 7]),
    (np.array([1, 3, 9], ml_dtypes.uint4), TensorProto.FLOAT4E2M1, [0.5, 1.5, -0.5]),
    (np.array([0.5, -0.5], ml_dtypes.float4_e2m1fn), TensorProto.INT4, [1, -7]),
    (np.array([-2, -1, 1], ml_dtypes.int2), TensorProto.UINT2, [2, 3, 1]),
    (np.array([1, -2], ml_dtypes.float8_e5m2), TensorProto.INT8, [0x3C, 0xC0 - 256]),
    (np.array([0x38, 0x7F], "uint8"), TensorProto.FLOAT8E8M0, [2.0**-71, 1]),
    (np.array([1, -2], ml_dtypes.bfloat16), TensorProto.UINT16, [0x3F80, 0xC000]),
    (np.array([0x3C00, 0xC000], "uint16"), TensorProto.FLOAT16, [1, -2]),
    (np.array([1, -2], "float16"), TensorProto.BFLOAT16, [0.0078125, -2]),
]


@pytest.mark.parametrize("case", range(len(BITS)))
def test_bits_are_read_as_another_type(case: int) -> None:
    x, to, expected = BITS[case]
    (y,) = results([node("BitCast", "x", "y", to=to)], x=x)
    assert y.dtype == helper.tensor_dtype_to_np_dtype(to)
    assert y.astype("float64").tolist() == expected


def test_types_of_different_widths_share_no_bits() -> None:
    with pytest.raises(ModelError, match="float32 has 32 bits and int16 has 16"):
        results([node("BitCast", "x", "y", to=TensorProto.INT16)], x=np.zeros(2, "float32"))


def test_a_cast_tells_how_to_round_and_whether_to_saturate() -> None:
    x = np.float32([1.5, 3, 1e6])
    nodes = [
        node("Cast", "x", "a", to=TensorProto.FLOAT8E8M0, round_mode="down"),
        node("Cast", "x", "b", to=TensorProto.FLOAT8E8M0),
        node("Cast", "x", "c", to=TensorProto.FLOAT8E4M3FN),
        node("Cast", "x", "d", to=TensorProto.FLOAT8E5M2, saturate=0),
        node("CastLike", "x d", "e"),
    ]
    a, b, c, d, e = (v.astype("float32").tolist() for v in results(nodes, x=x))
    assert (a, b) == ([1, 2, 524288], [2, 4, 1048576])
    assert (c, d, e) == ([1.5, 3, 448], [1.5, 3, np.inf], [1.5, 3, 57344])


def test_elements_of_every_stored_type_are_moved_by_a_model() -> None:
    for dtype in (ml_dtypes.int4, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float4_e2m1fn):
        x, c = np.array([[1, 2], [3, 4]]).astype(dtype), np.array([[True, False], [False, True]])
        nodes = [
            node("Transpose", "x", "t"),
            node("Where", "c x t", "w"),
            node("Concat", "x t", "j", axis=0),
            node("Shape", "x", "s"),
            node("Identity", "x", "i"),
        ]
        t, w, j, s, i = results(nodes, x=x, c=c)
        assert t.astype(int).tolist() == x.T.astype(int).tolist()
        assert w.astype(int).tolist() == np.where(c, x.astype(int), x.T.astype(int)).tolist()
        assert (j.dtype, j.shape, s.tolist(), i.astype(int).tolist()) == (
            x.dtype,
            (4, 2),
            [2, 2],
            x.astype(int).tolist(),
        )


@pytest.mark.parametrize("stash_type", [None, 1, 10])
def test_ranges_of_float16_are_computed_in_the_type_that_is_asked_for(stash_type: int | None) -> None:
    attributes = {} if stash_type is None else {"stash_type": stash_type}
    proto = model([node("Range", "a b c", "y", **attributes)], {k: ([], "float16") for k in "abc"}, "y", opset=28)
    start, limit, delta = np.float16(0.1), np.float16(7), np.float16(0.3)
    (y,) = Compiled(proto)(a=start, b=limit, c=delta)
    assert y.dtype == np.float16
    steps = np.arange(len(y), dtype="float32") * np.float32(delta) + np.float32(start)
    assert len(y) == 23
    np.testing.assert_allclose(y.astype("float32"), steps, rtol=2e-3)
