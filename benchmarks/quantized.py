"""Quantised networks: an encoder and a recurrent one that quantise as they go, images by calibration; 4-bit layers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from benchmarks import models, transformers
from benchmarks.mobilenet import mobilenet_v2

__all__ = ["detector", "encoder", "four_bits", "mobilenet", "resnet", "speech", "speech_inputs"]

# ResNet-50's stages (He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1).
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


def encoder() -> onnx.ModelProto:
    """Return the encoder of :mod:`benchmarks.transformers` whose products quantise their data as they come."""
    return _quantized(transformers.encoder(), lambda source, target: quantize_dynamic(source, target))


def resnet() -> onnx.ModelProto:
    """Return ResNet-50 with random weights between QuantizeLinear and DequantizeLinear, a scale for each output."""

    return _calibrated(_resnet(), QuantType.QInt8)


def mobilenet() -> onnx.ModelProto:
    """Return MobileNetV2 of :mod:`benchmarks.mobilenet`, its data uint8, a scale for each output."""
    return _calibrated(mobilenet_v2(), QuantType.QUInt8)


def detector() -> onnx.ModelProto | None:
    """Return the detector of faces with its data and weights as int8; None where its file is not on this machine."""
    model = models.load("ultraface")
    # Scales along an axis are of opset 13 and later.
    return None if model is None else _calibrated(version_converter.convert_version(model, 17), QuantType.QInt8)


def speech(features: int = 80, hidden: int = 256, layers: int = 2, letters: int = 32) -> onnx.ModelProto:
    """Return layers of LSTM in both directions over (length, batch, features), quantised as they go, and scores."""
    return _quantized(
        transformers.recurrent(features, hidden, layers, letters),
        lambda source, target: quantize_dynamic(source, target),
    )


def speech_inputs(batch: int, length: int, features: int = 80) -> dict[str, np.ndarray]:
    """Return random features of sound."""
    return {"x": np.random.default_rng(0).standard_normal((length, batch, features), "float32")}


def four_bits(channels: int, units: int, block: int, accuracy: int) -> onnx.ModelProto:
    """Return a layer of random 4-bit weights in blocks, at an accuracy level, for any number of rows."""
    random, blocks = np.random.default_rng(0), channels // block
    constants = {
        "b": random.integers(0, 256, (units, blocks, block // 2), "uint8"),
        "s": random.random((units, blocks), "float32") / (8 * channels**0.5),
    }
    node = helper.make_node(
        "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", K=channels, N=units, bits=4, block_size=block,
        accuracy_level=accuracy,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "four_bits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", channels])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", units])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


class _Images(CalibrationDataReader):
    def __init__(self, model: onnx.ModelProto) -> None:
        self._images = [models.batched_inputs(model, 1)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._images.pop() if self._images else None


def _calibrated(model: onnx.ModelProto, data: QuantType) -> onnx.ModelProto:
    """Return a model between QuantizeLinear and DequantizeLinear, a scale for each output of a layer."""

    def quantize(source: Path, target: Path) -> None:
        images, form = _Images(model), QuantFormat.QDQ
        quantize_static(source, target, images, quant_format=form, per_channel=True, activation_type=data)

    return _quantized(model, quantize)


def _quantized(model: onnx.ModelProto, quantize: Callable[[Path, Path], None]) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.onnx", Path(folder) / "target.onnx"
        onnx.save(model, source)
        quantize(source, target)
        return onnx.load(target)


def _resnet(classes: int = 1000) -> onnx.ModelProto:
    nodes: list[onnx.NodeProto] = []
    tensors: list[onnx.TensorProto] = []
    random = np.random.default_rng(0)

    def add(kind: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"{kind}{len(nodes)}"], **attributes))
        return str(nodes[-1].output[0])

    def constant(value: np.ndarray) -> str:
        tensors.append(numpy_helper.from_array(value.astype("float32"), f"c{len(tensors)}"))
        return str(tensors[-1].name)

    def conv(x: str, inner: int, outer: int, size: int, stride: int, gain: float = 2) -> str:
        spread = (gain / (inner * size * size)) ** 0.5
        weight = constant(spread * random.standard_normal((outer, inner, size, size)))
        bias = constant(0.1 * random.standard_normal(outer))
        return add("Conv", x, weight, bias, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)

    x = add("Relu", conv("image", 3, 64, 7, 2))
    x, channels = add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for width, count, stride in _STAGES:
        for number in range(count):
            step = stride if number == 0 else 1
            y = add("Relu", conv(x, channels, width, 1, 1))
            y = add("Relu", conv(y, width, width, 3, step))
            y = conv(y, width, width * 4, 1, 1, gain=0.2)  # residual sums keep their spread
            x = x if number else conv(x, channels, width * 4, 1, step, gain=1)
            x, channels = add("Relu", add("Add", x, y)), width * 4
    x = add("Flatten", add("GlobalAveragePool", x))
    weight = constant(channels**-0.5 * random.standard_normal((channels, classes)))
    y = add("Gemm", x, weight, constant(np.zeros(classes)))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])
    result = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "resnet", [image], [result], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
