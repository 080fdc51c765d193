"""MobileNetV2 with random weights, built node by node (Sandler et al., "MobileNetV2", CVPR 2018, table 2).

As exporters write it for inference: normalisations are folded into the convolutions, ReLU6 is a Clip.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["mobilenet_v2"]

# The paper's t, c, n, s: expansion, channels, how many blocks, stride of the first.
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: object) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value, "float32"), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(math.sqrt(2 / math.prod(shape[1:])) * self.random.standard_normal(shape))

    def conv(self, x: str, inner: int, outer: int, size: int = 1, stride: int = 1, groups: int = 1) -> str:
        pad = size // 2
        weight, bias = self.weight(outer, inner // groups, size, size), self.constant(0.1 * self.random.random(outer))
        shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.add("Conv", x, weight, bias, group=groups, **shape)

    def relu6(self, x: str) -> str:
        return self.add("Clip", x, "zero", "six")

    def block(self, x: str, inner: int, outer: int, stride: int, expansion: int) -> str:
        wide = inner * expansion
        y = self.relu6(self.conv(x, inner, wide)) if expansion > 1 else x
        y = self.conv(self.relu6(self.conv(y, wide, wide, 3, stride, wide)), wide, outer)
        return self.add("Add", x, y) if stride == 1 and inner == outer else y


def mobilenet_v2(classes: int = 1000) -> onnx.ModelProto:
    """Return the network of width 1 for images of float32[1, 3, 224, 224]."""
    g = _Graph()
    g.tensors += [numpy_helper.from_array(np.float32(v), name) for name, v in (("zero", 0), ("six", 6))]
    x, channels = g.relu6(g.conv("image", 3, 32, 3, 2)), 32
    for expansion, outer, count, stride in _STAGES:
        for index in range(count):
            x = g.block(x, channels, outer, stride if index == 0 else 1, expansion)
            channels = outer
    x = g.add("Flatten", g.add("GlobalAveragePool", g.relu6(g.conv(x, channels, 1280))))
    result = g.add("Gemm", x, g.weight(classes, 1280), g.constant(np.zeros(classes)), transB=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])
    scores = helper.make_tensor_value_info(result, TensorProto.FLOAT, [1, classes])
    graph = helper.make_graph(g.nodes, "mobilenet_v2", [image], [scores], g.tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
