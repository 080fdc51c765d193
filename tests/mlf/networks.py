"""Small networks of the kinds that run on microcontrollers, as ONNX models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["ds_cnn", "keyword_spotting", "lstm_cell", "model", "quantized", "quantized_cnn"]

Info = onnx.ValueInfoProto


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: list[str],
    weights: dict[str, np.ndarray],
    dtypes: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """Return a model of nodes; tensors that `dtypes` does not name are of float32."""
    known = dtypes or {}

    def info(name: str, shape: list[int | str] | None) -> Info:
        return helper.make_tensor_value_info(name, known.get(name, TensorProto.FLOAT), shape)

    graph = helper.make_graph(
        nodes,
        "network",
        [info(name, shape) for name, shape in inputs.items()],
        [info(name, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def keyword_spotting(
    channels: int = 8, blocks: int = 2, kernel: tuple[int, int] = (5, 3), size: tuple[int, int] = (25, 10)
) -> onnx.ModelProto:
    """Return a DS-CNN: a convolution, depthwise separable ones, the mean, a dense layer; by default a small one."""
    rng = np.random.default_rng(1)
    weights = {"w0": _weight(rng, channels, 1, *kernel), "b0": _weight(rng, channels)}
    pads = [k // 2 for k in kernel] + [(k - 1) // 2 for k in kernel]
    nodes = [helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=pads, strides=[2, 2])]
    nodes.append(helper.make_node("Relu", ["c0"], ["r0"]))
    for k in range(1, blocks + 1):
        weights |= {f"d{k}": _weight(rng, channels, 1, 3, 3), f"p{k}": _weight(rng, channels, channels, 1, 1)}
        weights |= {f"b{k}": _weight(rng, channels), f"s{k}": 1 + _weight(rng, channels)}
        weights |= {f"m{k}": _weight(rng, channels), f"v{k}": 1 + _weight(rng, channels) ** 2}
        nodes += [
            helper.make_node("Conv", [f"r{k - 1}", f"d{k}"], [f"dc{k}"], pads=[1] * 4, group=channels),
            helper.make_node("BatchNormalization", [f"dc{k}", f"s{k}", f"b{k}", f"m{k}", f"v{k}"], [f"n{k}"]),
            helper.make_node("Relu", [f"n{k}"], [f"a{k}"]),
            helper.make_node("Conv", [f"a{k}", f"p{k}", f"b{k}"], [f"c{k}"]),
            helper.make_node("Relu", [f"c{k}"], [f"r{k}"]),
        ]
    weights |= {"wd": _weight(rng, 12, channels), "bd": _weight(rng, 12)}
    nodes += [
        helper.make_node("GlobalAveragePool", [f"r{blocks}"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "wd", "bd"], ["l"], transB=1),
        helper.make_node("Softmax", ["l"], ["scores"]),
    ]
    return model(nodes, {"x": [1, 1, *size]}, ["scores"], weights)


def ds_cnn() -> onnx.ModelProto:
    """Return the DS-CNN of 64 channels, the one of MLPerf Tiny: 49 frames of 10 numbers, 2.7 million products."""
    return keyword_spotting(64, 4, (10, 4), (49, 10))


def quantized(network: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """Return a network of one input quantised by onnxruntime, to int8 with QuantizeLinear and DequantizeLinear."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    (given,) = network.graph.input
    shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
    rng = np.random.default_rng(4)
    images = iter([{given.name: rng.random(shape, dtype="float32")} for _ in range(4)])

    class Images(CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(images, None)

    made = folder / "quantized.onnx"
    quantize_static(
        network,
        made,
        Images(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    return onnx.load(made)


def quantized_cnn() -> onnx.ModelProto:
    """Return two convolutions, one depthwise, between QuantizeLinear and DequantizeLinear; uint8 in, int8 out."""
    rng = np.random.default_rng(2)
    weights: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []

    def scale(name: str, value: float, zero: int, dtype: str) -> list[str]:
        weights[f"{name}_s"], weights[f"{name}_z"] = np.array(value, "float32"), np.array(zero, dtype)
        return [f"{name}_s", f"{name}_z"]

    def dequantize(name: str, value: float, zero: int, dtype: str) -> str:
        nodes.append(helper.make_node("DequantizeLinear", [name, *scale(name, value, zero, dtype)], [f"{name}_f"]))
        return f"{name}_f"

    def quantize(name: str, to: str, value: float, zero: int, dtype: str) -> str:
        nodes.append(helper.make_node("QuantizeLinear", [name, *scale(to, value, zero, dtype)], [to]))
        return to

    x = dequantize("x", 0.0213, 128, "uint8")
    for k, (shape, group) in enumerate((((8, 2, 3, 3), 1), ((8, 1, 3, 3), 8))):
        weights[f"w{k}"] = rng.integers(-127, 128, shape).astype("int8")
        weights[f"b{k}"] = rng.integers(-900, 900, shape[0]).astype("int32")
        nodes.append(helper.make_node("DequantizeLinear", [f"w{k}", *scale(f"w{k}", 0.0117, 0, "int8")], [f"w{k}_f"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"b{k}", *scale(f"b{k}", 2.49e-4, 0, "int32")], [f"b{k}_f"]))
        nodes.append(helper.make_node("Conv", [x, f"w{k}_f", f"b{k}_f"], [f"c{k}"], pads=[1] * 4, group=group))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        y = quantize(f"r{k}", f"y{k}", 0.0331, -128, "int8")
        if k == 0:
            nodes.append(helper.make_node("DequantizeLinear", [y, f"{y}_s", f"{y}_z"], [f"{y}_f"]))
            x = f"{y}_f"
    return model(nodes, {"x": [1, 2, 9, 7]}, ["y1"], weights, {"x": TensorProto.UINT8, "y1": TensorProto.INT8})


def lstm_cell() -> onnx.ModelProto:
    """Return three steps of an LSTM whose states come in and go out."""
    rng = np.random.default_rng(3)
    weights = {"w": _weight(rng, 1, 16, 3), "r": _weight(rng, 1, 16, 4), "b": _weight(rng, 1, 32)}
    node = helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["y", "yh", "yc"], hidden_size=4)
    return model([node], {"x": [3, 1, 3], "h": [1, 1, 4], "c": [1, 1, 4]}, ["y", "yh", "yc"], weights)


def _weight(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(-0.5, 0.5, shape).astype("float32")
