"""Conversions between types: casts, texts of numbers, and bits read as another type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import vmkit
from tests.frontend.onnx.feeds import MATRIX
from tests.frontend.onnx.ml.models import I64, B, F, S, agrees, onnx_node, same, texts
from tests.frontend.onnx.programs import check, model, node, results_of
from vmkit.errors import InputError, ModelError, VMError

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
    (y,) = results_of([node("BitCast", "x", "y", to=to)], x=x)
    assert y.dtype == helper.tensor_dtype_to_np_dtype(to)
    assert y.astype("float64").tolist() == expected


def test_what_is_computed_in_bfloat16_is_true_where_it_is_not_0() -> None:
    x = np.float32([0, 1, -0.0, 2, np.nan, -np.inf, 2.0**-120])
    nodes = [
        node("Cast", "x", "b", to=TensorProto.BFLOAT16),
        node("Neg", "b", "c"),
        node("Cast", "c", "y", to=TensorProto.BOOL),
    ]
    machine = vmkit.VirtualMachine(vmkit.compile(model(nodes, {"x": (["n"], "float32")}, "y")))
    assert machine.run(x).numpy().tolist() == x.astype(bool).tolist()


def test_types_of_different_widths_share_no_bits() -> None:
    with pytest.raises(ModelError, match="float32 has 32 bits and int16 has 16"):
        results_of([node("BitCast", "x", "y", to=TensorProto.INT16)], x=np.zeros(2, "float32"))


def test_a_cast_tells_how_to_round_and_whether_to_saturate() -> None:
    x = np.float32([1.5, 3, 1e6])
    nodes = [
        node("Cast", "x", "a", to=TensorProto.FLOAT8E8M0, round_mode="down"),
        node("Cast", "x", "b", to=TensorProto.FLOAT8E8M0),
        node("Cast", "x", "c", to=TensorProto.FLOAT8E4M3FN),
        node("Cast", "x", "d", to=TensorProto.FLOAT8E5M2, saturate=0),
        node("CastLike", "x d", "e"),
    ]
    a, b, c, d, e = (v.astype("float32").tolist() for v in results_of(nodes, x=x))
    assert (a, b) == ([1, 2, 524288], [2, 4, 1048576])
    assert (c, d, e) == ([1.5, 3, 448], [1.5, 3, np.inf], [1.5, 3, 57344])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint8", "bool"])
def test_casts(dtype: str) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [node("Cast", "x", "y", to=code), node("Cast", "y", "z", to=1)]
    check(model(nodes, MATRIX, "y z"), {"x": np.array([[0, 1.5, 3, 100]], "float32")})


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64", "bool"])
def test_numbers_are_written_as_onnxruntime_writes_them(dtype: str) -> None:
    values = [0, 1, 100] if dtype == "bool" or "int" in dtype else [1.5, np.nan, np.inf, -np.inf, 1 / 3, -0.0, 123456]
    x = np.array(values, "float64").astype(dtype)
    agrees(onnx_node("Cast", {"x": (["n"], dtype)}, [S], to=S), {"x": x}, {"x": x[:1]})


@pytest.mark.parametrize("code", [F, TensorProto.DOUBLE, TensorProto.FLOAT16, I64, TensorProto.UINT8, B])
def test_texts_are_read_as_numbers(code: int) -> None:
    plain = texts("1.5", "-3", " 7", "300", "100.5", "0")
    special = [texts("NaN", "inf", "-INF", "+INF", "1e3", ".5")] if code in (F, TensorProto.DOUBLE) else []
    model = onnx_node("Cast", {"x": (["n"], object)}, [code], to=code)
    agrees(model, *[{"x": x} for x in [plain, *special]])


@pytest.mark.parametrize("text", ["abc", "", "1_0", "0x10"])
def test_a_text_that_is_no_number_is_an_error(text: str) -> None:
    machine = vmkit.VirtualMachine(
        vmkit.compile(onnx_node("Cast", {"x": (["n"], object)}, [F], to=F), target="llvm"), num_threads=1
    )
    with pytest.raises(VMError, match="is not a number"):
        machine.run(texts("1", text))


def test_texts_of_other_sizes_than_declared_are_refused_by_name() -> None:
    machine = vmkit.VirtualMachine(
        vmkit.compile(onnx_node("StringConcat", {"x": (["n"], object), "y": (["n"], object)}, [S]), target="llvm")
    )
    with pytest.raises(InputError, match="y: n = 3, but x already bound n = 2"):
        machine.run(texts("1", "2"), texts("1", "2", "3"))


def test_types_that_are_stored_as_others_are_written_and_read_by_way_of_plain_ones() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["small"], to=TensorProto.INT4),
        helper.make_node("Cast", ["small"], ["text"], to=S),
        helper.make_node("Cast", ["text"], ["float"], to=TensorProto.FLOAT8E5M2),
        helper.make_node("Cast", ["float"], ["y"], to=F),
    ]
    info = [helper.make_tensor_value_info(n, F, ["n"]) for n in "xy"]
    outputs = [helper.make_tensor_value_info("text", S, ["n"]), info[1]]
    graph = helper.make_graph(nodes, "g", info[:1], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    results = vmkit.VirtualMachine(vmkit.compile(model, target="llvm")).run(np.float32([-8, 3, 7]))
    same([r.numpy() for r in results], [texts("-8", "3", "7"), np.float32([-8, 3, 7])])
