"""onnxruntime's operators on quantised tensors."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.programs import Compiled, array, model, node
from tests.frontend.onnx.quantized import agrees_exactly, f32, i8, integers, u8, weights, with_types

# Each: nodes, constants, and the data type of the outputs.
MICROSOFT: dict[str, tuple[list[onnx.NodeProto], str]] = {
    "QLinearAdd": ([node("QLinearAdd", "x sx zx c sy zy sz zz", "y")], "uint8"),
    "QLinearMul": ([node("QLinearMul", "x sx zx c sy zy sz zz", "y")], "uint8"),
    "QLinearSigmoid": ([node("QLinearSigmoid", "x sx zx tiny z0", "y")], "uint8"),
    "QLinearLeakyRelu": ([node("QLinearLeakyRelu", "x sx zx sy zy", "y", alpha=0.2)], "uint8"),
    "QLinearGlobalAveragePool": ([node("QLinearGlobalAveragePool", "x sx zx sy zy", "y", channels_last=0)], "uint8"),
    "channels last": ([node("QLinearGlobalAveragePool", "x sx zx sy zy", "y", channels_last=1)], "uint8"),
    "QLinearAveragePool": (
        [node("QLinearAveragePool", "x sx zx sy zy", "y", kernel_shape=[2, 3], strides=[1, 2], pads=[0, 1, 0, 1])],
        "uint8",
    ),
    "QLinearConcat": ([node("QLinearConcat", "sz zz x sx zx x sy zy", "y", axis=-1)], "uint8"),
    "QLinearSoftmax": ([node("QLinearSoftmax", "x sx zx tiny z0", "y", axis=-1, opset=13)], "uint8"),
    "QLinearWhere": ([node("QLinearWhere", "k x sx zx c sy zy sz zz", "y")], "uint8"),
    "QLinearWhere of a number": ([node("QLinearWhere", "k z0 sx zx x sy zy sz zz", "y")], "uint8"),
    "NhwcMaxPool": ([node("NhwcMaxPool", "x", "y", kernel_shape=[2, 3], strides=[1, 2], pads=[0, 1, 0, 1])], "uint8"),
    "QuantizeLinear": ([node("DequantizeLinear", "x sx zx", "f"), node("QuantizeLinear", "f sz zz", "y")], "uint8"),
}  # fmt: skip


@pytest.mark.parametrize("name", MICROSOFT)
def test_an_operator_between_quantised_tensors_agrees_with_onnxruntime(name: str) -> None:
    nodes, dtype = MICROSOFT[name]
    for each in nodes:
        each.domain = "com.microsoft"
    constants = {
        "sx": f32(0.05), "zx": u8(120), "sy": f32(0.04), "zy": u8(130), "sz": f32(0.08), "zz": u8(60),
        "tiny": f32(1 / 256), "z0": u8(0), "c": integers(3, 4, 5),
        "k": np.arange(5) % 2 == 0,
    }  # fmt: skip
    proto = with_types(model(nodes, {"x": (["n", 3, 4, 5], "uint8")}, "y", constants), {"y": dtype}, "com.microsoft")
    # onnxruntime approximates: by tables, and by sums in integers.
    agrees_exactly(proto, *({"x": integers(n, 3, 4, 5)} for n in (1, 3)), off_by=1)


def test_a_mean_of_quantised_numbers() -> None:
    nodes = [
        node("QLinearReduceMean", "x sx zx sy zy", "y", axes=[1, -1], keepdims=1, domain="com.microsoft"),
        node("QLinearReduceMean", "x sx _ sy", "z", axes=[2], keepdims=0, domain="com.microsoft"),
    ]
    constants = {"sx": f32(0.05), "zx": u8(120), "sy": f32(0.02), "zy": u8(90)}
    proto = model(nodes, {"x": (["n", 3, 4, 5], "uint8")}, "y z", constants)
    x = integers(2, 3, 4, 5)
    means = 0.05 * (x - 120.0).mean((1, 3), keepdims=True) / 0.02 + 90, 0.05 * x.mean(2) / 0.02
    for actual, expected in zip(Compiled(proto)(x=x), means, strict=True):
        assert actual.dtype == np.uint8
        np.testing.assert_allclose(actual, np.clip(expected, 0, 255), atol=0.501)


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("group", [1, 2])
def test_a_quantised_convolution_of_either_layout(channels_last: int, group: int) -> None:
    conv = node(
        "QLinearConv", "x sx zx w sw zw sy zy b", "y", pads=[1, 0, 1, 0], strides=[2, 1], group=group,
        channels_last=channels_last, domain="com.microsoft",
    )  # fmt: skip
    constants = {
        "sx": f32(0.05), "zx": u8(120), "w": weights(6, 4 // group, 3, 2), "zw": i8(*[0] * 6),
        "sw": np.linspace(0.01, 0.03, 6, dtype="float32"), "sy": f32(0.4), "zy": u8(130),
        "b": np.arange(6, dtype="int32"),
    }  # fmt: skip
    shape = ["n", "h", 5, 4] if channels_last else ["n", 4, "h", 5]
    proto = with_types(model([conv], {"x": (shape, "uint8")}, "y", constants), {"y": "uint8"}, "com.microsoft")
    sizes = [(n, h, 5, 4) if channels_last else (n, 4, h, 5) for n, h in ((1, 6), (2, 7))]
    agrees_exactly(proto, *({"x": integers(*s)} for s in sizes), off_by=1)


@pytest.mark.sweep
@pytest.mark.parametrize("scale", [1 / 256, 1 / 255, 1 / 250.3, 0.0033, 0.4])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_softmax_is_in_steps_of_one_over_a_whole_number(scale: float, dtype: str) -> None:
    zero = u8 if dtype == "uint8" else i8
    constants = {"sx": f32(0.05), "zx": zero(20), "sy": f32(scale), "zy": zero(3)}
    nodes = [node("QLinearSoftmax", "x sx zx sy zy", "y", axis=-1, opset=13, domain="com.microsoft")]
    proto = with_types(model(nodes, {"x": (["n", 9], dtype)}, "y", constants), {"y": dtype}, "com.microsoft")
    agrees_exactly(proto, {"x": integers(40, 9, dtype=dtype)}, {"x": integers(1, 9, dtype=dtype)})


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_quantised_product_with_a_bias_is_quantised_or_real(transposed: int) -> None:
    nodes = [
        node("QGemm", "a sa za b sb zb c sy zy", "y", alpha=0.5, transB=transposed, domain="com.microsoft"),
        node("QGemm", "a sa za b sb zb c", "v", alpha=0.5, transB=transposed, domain="com.microsoft"),
        node("MatMulIntegerToFloat", "a d sa sb za zb bias", "w", domain="com.microsoft"),
    ]
    b = weights(20, 6)
    constants = {
        "b": b.T.copy() if transposed else b, "d": b, "sa": f32(0.02), "za": u8(9), "sy": f32(0.3), "zy": u8(99),
        "sb": np.linspace(0.01, 0.03, 6, dtype="float32"), "zb": i8(0, 1, 2, 3, 4, 5), "bias": array(6),
        "c": integers(6, dtype="int8").astype("int32"),
    }  # fmt: skip
    proto = model(nodes, {"a": (["n", 20], "uint8")}, "y v w", constants)
    proto = with_types(proto, {"y": "uint8", "v": "float32", "w": "float32"}, "com.microsoft")
    agrees_exactly(proto, {"a": integers(3, 20)}, {"a": integers(1, 20)})


def test_a_real_matrix_is_quantised_for_its_product_with_a_quantised_one() -> None:
    nodes = [node("DynamicQuantizeMatMul", "x b sb zb bias", "y", domain="com.microsoft")]
    constants = {"b": integers(20, 6), "sb": f32(0.02), "zb": u8(130), "bias": array(6)}
    proto = with_types(model(nodes, {"x": (["n", 20], "float32")}, "y", constants), {"y": "float32"}, "com.microsoft")
    agrees_exactly(proto, {"x": array(3, 20)}, {"x": array(1, 20)})


def test_one_of_two_quantised_tensors_is_chosen() -> None:
    nodes = [node("QLinearWhere", "k x sx zx c sy zy sz zz", "y", domain="com.microsoft")]
    constants = {
        "sx": f32(0.05), "zx": u8(120), "sy": f32(0.04), "zy": u8(130), "sz": f32(0.08), "zz": u8(60),
        "c": integers(4, 1),
    }  # fmt: skip
    proto = model(nodes, {"k": (["n", 1, 5], "bool"), "x": (["n", 4, 5], "uint8")}, "y", constants)
    proto = with_types(proto, {"y": "uint8"}, "com.microsoft")
    feeds = [{"k": integers(n, 1, 5) > 128, "x": integers(n, 4, 5)} for n in (1, 3)]
    # Quotients of these scales lie halfway between integers for some numbers: all are among these.
    every = np.broadcast_to(np.arange(256, dtype="uint8").reshape(64, 4, 1), (64, 4, 5))
    agrees_exactly(proto, *feeds, {"k": np.ones((64, 1, 5), bool), "x": every})


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("operator", ["QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool"])
def test_every_number_of_a_byte_has_the_result_of_onnxruntime(operator: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    constants = {"sx": f32(0.05), "zx": np.array(7, dtype), "sy": f32(1 / 256), "zy": np.array(info.min, dtype)}
    nodes = [node(operator, "x sx zx sy zy", "y", domain="com.microsoft")]
    proto = model(nodes, {"x": (["n", 2, 8, 8], dtype)}, "y", constants)
    every = np.arange(info.min, info.max + 1).astype(dtype)
    agrees_exactly(with_types(proto, {"y": dtype}, "com.microsoft"), {"x": every.reshape(2, 2, 8, 8)})


@pytest.mark.parametrize("keepdims", [0, 1])
def test_the_mean_of_a_quantised_tensor_is_quantised(keepdims: int) -> None:
    # onnxruntime declares the operator and has no kernel for it.
    nodes = [
        node("QLinearReduceMean", "x sx zx sy zy", "y", axes=[-1, 1], keepdims=keepdims, domain="com.microsoft")
    ]  # fmt: skip
    constants = {"sx": f32(0.05), "zx": u8(120), "sy": f32(0.03), "zy": u8(7)}
    proto = model(nodes, {"x": (["n", 4, 3, 5], "uint8")}, "y", constants)
    proto = with_types(proto, {"y": "uint8"}, "com.microsoft")
    x = integers(2, 4, 3, 5)
    mean = (0.05 * (x.astype("float64") - 120)).mean(axis=(1, 3), keepdims=bool(keepdims))
    expected = np.clip(np.round(mean / 0.03) + 7, 0, 255)
    (actual,) = Compiled(proto)(x=x)
    assert actual.dtype == np.uint8 and actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ("x w bias sx sw", {}),
        ("x w bias sx sw _ zx zw", {"unidirectional": 1}),
        ("x v bias sx sv mask zx zv", {"mask_filter_value": -1000.0}),
        ("x w bias sx sw _ zx zw past", {}),
    ],
    ids=["defaults", "causal", "by column, masked", "with a past"],
)
def test_attention_of_a_quantised_tensor(inputs: str, attributes: dict[str, object]) -> None:
    nodes = [node("QAttention", inputs, "y present", num_heads=2, domain="com.microsoft", **attributes)]
    constants = {
        "w": integers(6, 24), "v": weights(6, 24), "bias": array(24), "sx": f32(0.02), "zx": u8(110),
        "sw": f32(0.01), "zw": u8(140), "sv": np.linspace(0.005, 0.02, 24, dtype="float32"), "zv": np.zeros(24, "int8"),
        "mask": np.int32([3, 1]),
    }  # fmt: skip
    used = {name: value for name, value in constants.items() if name in inputs.split()}
    given: dict[str, object] = {"x": ([2, "rows", 6], "uint8")}
    feed = {"x": integers(2, 4, 6)}
    if "past" in inputs:
        given["past"], feed["past"] = ([2, 2, 2, "before", 4], "float32"), array(2, 2, 2, 3, 4)
    else:
        nodes[0].output.remove("present")
    names = " ".join(nodes[0].output)
    proto = with_types(model(nodes, given, names, used), dict.fromkeys(names.split(), "float32"), "com.microsoft")
    agrees_exactly(proto, feed)
