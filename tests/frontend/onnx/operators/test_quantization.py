"""Quantised tensors: steps between them and real ones, and exact products, at several sizes from one compilation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.frontend.onnx.programs import Compiled, array, check, model, node
from tests.frontend.onnx.quantized import agrees_exactly, f32, i8, integers, u8, with_types
from vmkit.errors import ModelError, VMError
from vmkit.optimize.float_products import EXACT
from vmkit.relay.ir import Constant
from vmkit.relay.ir.visit import post_order

TIES = np.float32([[-1e9, -300, -2.5, -1.5, -0.5, 0.5], [1.5, 2.5, 126.5, 300, 1e9, 0]])


def test_numbers_are_quantised_by_tensor_and_by_axis_halves_to_even_and_limited() -> None:
    nodes = [
        node("QuantizeLinear", "x one z8", "a"),
        node("QuantizeLinear", "x one zs8", "b"),
        node("QuantizeLinear", "x half", "c"),
        node("QuantizeLinear", "x scales zeros", "d", axis=-1),
        node("QuantizeLinear", "x rows rowzeros", "e", axis=0),
        node("DequantizeLinear", "a one z8", "f"),
        node("DequantizeLinear", "d scales zeros", "g", axis=-1),
        node("DequantizeLinear", "e rows rowzeros", "h", axis=0),
    ]
    constants = {
        "one": f32(1), "half": f32(0.5), "z8": u8(3), "zs8": i8(-3), "scales": f32(0.1, 1, 2, 3, 0.5, 7),
        "zeros": i8(0, 1, -1, 5, -128, 127), "rows": f32(1, 0.25), "rowzeros": u8(0, 200),
    }  # fmt: skip
    proto = model(nodes, {"x": ([2, 6], "float32")}, "a b c d e f g h", constants)
    check(proto, {"x": TIES}, {"x": array(2, 6)})


def test_scales_and_zero_points_may_come_at_run_time_beside_an_unknown_size() -> None:
    inputs = {"x": (["n", "m"], "float32"), "s": (["m"], "float32"), "z": (["m"], "int8")}
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    feeds = [{"x": 9 * array(n, 4), "s": f32(0.1, 0.5, 1, 2), "z": i8(-1, 0, 1, 9)} for n in (1, 3)]
    check(model(nodes, inputs, "q y", opset=13), *feeds)


@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT16, TensorProto.UINT16])
def test_blocks_of_elements_have_scales_of_their_own(dtype: int) -> None:
    zeros = helper.make_tensor("z", dtype, [2, 2], [1, 2, 3, 0])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n"])
    nodes = [
        node("QuantizeLinear", "x s z", "q", block_size=3, axis=1),
        node("DequantizeLinear", "q s z", "y", block_size=3, axis=1),
    ]
    scales = numpy_helper.from_array(np.float32([[0.5, 1], [2, 0.25]]), "s")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], [scales, zeros])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    check(proto, {"x": 4 * array(2, 5)}, {"x": 4 * array(2, 6)})


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint2, np.int8])
def test_known_integers_of_few_bits_stay_so_in_the_program(dtype: type) -> None:
    bits = 8 if dtype is np.int8 else int(np.dtype(dtype).name[-1])
    low = 0 if np.dtype(dtype).name.startswith("u") else -(1 << (bits - 1))
    columns = 33 if bits == 4 else 36  # a row of an odd number of 4 bits each has one in each byte

    def few(*shapes: tuple[int, int]) -> list[np.ndarray]:
        return [(integers(*shape).astype("int16") % (1 << bits) + low).astype(dtype) for shape in shapes]

    codes, zeros = few((40, columns), (9, 32)), few((3, columns), (9, 2))
    constants = {
        "w": codes[0], "ws": np.abs(array(3, columns)), "wz": zeros[0], "column": np.abs(array(columns)),
        "t": codes[1], "ts": np.abs(array(9, 2)), "tz": zeros[1],
    }  # fmt: skip
    nodes = [
        node("DequantizeLinear", "w ws wz", "blocks", axis=0, block_size=16),
        node("MatMul", "x blocks", "y"),
        node("DequantizeLinear", "t ts tz", "table", axis=1, block_size=16),
        node("Gather", "table i", "rows"),
    ]
    outputs = "y rows"
    if bits < 8:
        nodes += [node("DequantizeLinear", "w column", "turned"), node("Gemm", "x turned", "z")]
        outputs += " z"
    inputs = {"x": (["n", 40], "float32"), "i": (["n", 2], "int64")}
    proto = model(nodes, inputs, outputs, constants, opset=25)
    compiled = Compiled(proto)
    feed = {"x": array(2, 40), "i": np.array([[8, -9], [0, -1]])}
    for actual, expected in zip(compiled(**feed), ReferenceEvaluator(proto).run(None, feed), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-3)
    held = sum(c.data.numpy().nbytes for c in post_order(compiled.module["main"]) if isinstance(c, Constant))
    scales = sum(4 * c.size for name, c in constants.items() if name in ("ws", "ts", "column"))
    # Codes of both, of one twice, and a byte for each zero point.
    assert held < scales + (2 * 40 * columns + 9 * 32) * (8 if columns == 33 else bits) // 8 + 1000


def test_a_tensor_is_quantised_to_its_own_range() -> None:
    proto = model([node("DynamicQuantizeLinear", "x", "q s z")], {"x": (["n", 3], "float32")}, "q s z")
    proto = with_types(proto, {"q": "uint8", "s": "float32", "z": "uint8"})
    feeds = [array(4, 3), np.abs(array(2, 3)), -np.abs(array(2, 3)), np.zeros((2, 3), "float32")]
    agrees_exactly(proto, *({"x": x} for x in feeds))


def test_the_scale_of_zeros_is_one_whether_they_are_known_or_not() -> None:
    zeros = np.zeros((2, 3), "float32")
    nodes = [node("DynamicQuantizeLinear", "x", "q s z"), node("DynamicQuantizeLinear", "known", "p t u")]
    check(model(nodes, {"x": (["n", 3], "float32")}, "q s z p t u", {"known": zeros}), {"x": zeros})


def test_products_of_integers_are_exact_for_every_form_of_zero_point() -> None:
    wide = integers(700, 5, dtype="int8")  # so many terms that float32 could not hold their sum
    assert EXACT < 255 * 700 * 255
    nodes = [
        node("MatMulInteger", "a c", "p"),
        node("MatMulInteger", "a c za", "q"),
        node("MatMulInteger", "a c za zc", "r"),
        node("MatMulInteger", "a b za", "s"),
        node("MatMulInteger", "a c za zcs", "t"),
    ]
    inputs = {"a": (["n", 700], "uint8"), "b": ([700, 2], "int8")}
    constants = {"c": wide, "za": u8(200), "zc": i8(-7), "zcs": i8(1, 2, 3, 4, -128)}
    proto = model(nodes, inputs, "p q r s t", constants)
    feeds = ({"a": integers(n, 700), "b": integers(700, 2, dtype="int8")} for n in (1, 4))
    agrees_exactly(proto, *feeds, by_reference=True)


def test_rows_and_stacks_of_matrices_have_zero_points_of_their_own() -> None:
    nodes = [node("MatMulInteger", "a b z", "y"), node("MatMulInteger", "c d _ w", "v")]
    inputs = {"a": ([3, 4], "uint8"), "b": ([4, 2], "uint8"), "z": ([3], "uint8"),
              "c": (["k", 3, 4], "int8"), "d": (["k", 4, 2], "int8"), "w": ([], "int8")}  # fmt: skip
    feed = {"a": integers(3, 4), "b": integers(4, 2), "z": u8(1, 2, 255),
            "c": integers(2, 3, 4, dtype="int8"), "d": integers(2, 4, 2, dtype="int8"), "w": i8(-5)}  # fmt: skip
    y, v = Compiled(model(nodes, inputs, "y v"))(**feed)
    wide = {k: value.astype("int32") for k, value in feed.items()}
    np.testing.assert_array_equal(y, (wide["a"] - wide["z"][:, None]) @ wide["b"])
    np.testing.assert_array_equal(v, wide["c"] @ (wide["d"] + 5))


CONVOLUTIONS = {
    "plain": ((2, 3, "h", "w"), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": ((2, 3, "h", "w"), (4, 3, 2, 3), {"strides": [2, 1], "dilations": [1, 2], "pads": [0, 1, 1, 2]}),
    "grouped": ((1, 4, "h", "w"), (4, 2, 3, 3), {"group": 2}),
    "wide": ((1, 32, "h", "w"), (32, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
    "cut in parts": ((1, 80, "h", "w"), (16, 80, 3, 3), {"pads": [1, 1, 1, 1]}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_integers_are_exact(name: str) -> None:
    shape, weight, attributes = CONVOLUTIONS[name]
    nodes = [
        node("ConvInteger", "x w zx", "a", **attributes),
        node("QLinearConv", "x sx zx w sws zws sy zy bias", "b", **attributes),
        node("QLinearConv", "x sx zx w sw zw sy zy", "c", **attributes),
    ]
    outputs = weight[0]
    constants = {
        "w": integers(*weight, dtype="int8"), "zx": u8(120), "sx": f32(0.02), "sw": f32(0.01), "zw": i8(0),
        "sws": np.linspace(0.005, 0.02, outputs, dtype="float32"), "zws": np.zeros(outputs, "int8"),
        "sy": f32(0.9), "zy": u8(100), "bias": integers(outputs, dtype="int16").astype("int32"),
    }  # fmt: skip
    proto = with_types(
        model(nodes, {"x": (shape, "uint8")}, "a b c", constants), {"a": "int32", "b": "uint8", "c": "uint8"}
    )
    feeds = ({"x": integers(shape[0], shape[1], h, w)} for h, w in ((7, 8), (10, 5)))
    # Sums are exact; what lies half way between two quanta is not the same for the reference, which divides by scales.
    agrees_exactly(proto, *feeds, by_reference=True, off_by=1)


def test_a_quantised_product_of_matrices_is_quantised_again() -> None:
    nodes = [node("QLinearMatMul", "a sa za b sb zb sy zy", "y"), node("QLinearMatMul", "a sa za b sbs zbs sy zy", "v")]
    constants = {
        "sa": f32(0.01), "za": u8(113), "b": integers(64, 6), "sb": f32(0.02), "zb": u8(114), "sy": f32(0.5),
        "zy": u8(118), "sbs": np.linspace(0.01, 0.03, 6, dtype="float32"), "zbs": integers(6),
    }  # fmt: skip
    agrees_exactly(
        model(nodes, {"a": (["n", 64], "uint8")}, "y v", constants), {"a": integers(3, 64)}, {"a": integers(1, 64)}
    )


@pytest.mark.parametrize(
    ("op_type", "names", "message"),
    [
        ("QuantizeLinear", "x s z", "output_dtype is int8, but the zero point is uint8"),
        ("DequantizeLinear", "x s", "the input x has elements of type float32; it takes .*, uint8"),
    ],
)
def test_types_that_do_not_fit_are_named(op_type: str, names: str, message: str) -> None:
    attributes = {"output_dtype": TensorProto.INT8} if op_type == "QuantizeLinear" else {}
    proto = model(
        [node(op_type, names, "y", **attributes)], {"x": ([2], "float32")}, "y", {"s": f32(1), "z": u8(0)}, opset=21
    )
    with pytest.raises(ModelError, match=message):
        Compiled(proto)


def test_a_scale_of_unknown_length_is_a_number_where_it_has_no_axis() -> None:
    inputs = {"x": (["n"], "float32"), "s": (["k"], "float32"), "z": (["k"], "uint8")}
    proto = model([node("QuantizeLinear", "x s z", "y")], inputs, "y", opset=21)
    compiled = Compiled(proto)
    feed = {"x": f32([0, 2, 3, 1000]), "s": f32([2]), "z": np.array([128], "uint8")}
    (result,) = compiled(**feed)
    assert result.tolist() == [128, 129, 130, 255]
    with pytest.raises(VMError, match="reshape"):
        compiled(x=feed["x"], s=f32([2, 3]), z=np.array([1, 2], "uint8"))


def test_weights_less_a_zero_point_stay_integers_of_8_bits() -> None:
    constants = {"w": integers(512, 640), "wz": u8(91), "f": integers(64, 96, 3, 3), "fz": u8(200), "xz": u8(7)}
    nodes = [
        node("MatMulInteger", "a w xz wz", "y"),
        node("ConvInteger", "x f xz fz", "z", pads=[1, 1, 1, 1]),
    ]
    inputs = {"a": (["n", 512], "uint8"), "x": ([1, 96, "h", 9], "uint8")}
    compiled = Compiled(model(nodes, inputs, "y z", constants))
    held = sum(c.data.numpy().nbytes for c in post_order(compiled.module["main"]) if isinstance(c, Constant))
    assert held < 1.01 * (constants["w"].nbytes + constants["f"].nbytes)
    a, x = integers(3, 512), integers(1, 96, 8, 9)
    y, z = compiled(a=a, x=x)
    np.testing.assert_array_equal(y, (a.astype("int64") - 7) @ (constants["w"].astype("int64") - 91))
    padded = np.pad(x.astype("int64") - 7, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_array_equal(z, np.einsum("nchwij,ocij->nohw", windows, constants["f"].astype("int64") - 200))
