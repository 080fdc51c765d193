"""Small networks of each kind, moved from opset to opset by ONNX's converter: all versions compute the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, version_converter

from tests.frontend.onnx.programs import Compiled, array, assert_agrees, model, node, session


class Network(NamedTuple):
    """Nodes from `x` to `y` as an opset has them, the shape of `x`, and weights."""

    nodes: Sequence[onnx.NodeProto]
    shape: Sequence[int]
    weights: Mapping[str, Any]
    first: int = 7


NETWORKS = {
    "convolutions": Network(
        [
            node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), node("BatchNormalization", "c s t m v", "n"),
            node("Relu", "n", "r"), node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
            node("GlobalAveragePool", "p", "g"), node("Flatten", "g", "f"), node("Gemm", "f d e", "h", transB=1),
            node("Softmax", "h", "y", axis=1),
        ],
        (2, 3, 6, 6),
        {
            "w": array(4, 3, 3, 3), "b": array(4), "s": array(4, seed=1), "t": array(4, seed=2), "m": array(4, seed=3),
            "v": np.abs(array(4, seed=4)) + np.float32(0.1), "d": array(5, 4), "e": array(5),
        },
    ),
    "LSTM": Network(
        [node("LSTM", "x w r b", "o h c", hidden_size=3), node("Squeeze", "h", "y", axes=[0])],
        (4, 2, 3),
        {"w": array(1, 12, 3), "r": array(1, 12, 3, seed=1), "b": array(1, 24)},
    ),
    "GRU": Network(
        [node("GRU", "x w r b", "o h", hidden_size=3, linear_before_reset=1), node("Squeeze", "o", "y", axes=[1])],
        (4, 2, 3),
        {"w": array(1, 9, 3), "r": array(1, 9, 3, seed=1), "b": array(1, 18)},
    ),
    "shapes": Network(
        [
            node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Unsqueeze", "n", "u", axes=[0]),
            node("Concat", "u rest", "t", axis=0), node("Reshape", "x t", "z"), node("Transpose", "z", "w"),
            node("Slice", "w", "i", axes=[0], starts=[1], ends=[3]), node("Split", "i", "a b", axis=0, split=[1, 1]),
            node("Sum", "a b", "y"),
        ],
        (2, 3, 4),
        {"one": np.array(1), "rest": np.array([-1])},
    ),
    "normalisation": Network(
        [
            node("ReduceMean", "x", "m", axes=[-1], keepdims=1), node("Sub", "x m", "d"), node("Mul", "d d", "q"),
            node("ReduceMean", "q", "v", axes=[-1], keepdims=1), node("Sqrt", "v", "s"), node("Div", "d s", "e"),
            node("Pad", "e", "p", pads=[0, 1, 0, 1]), node("Clip", "p", "y", min=-1.0, max=1.0),
        ],
        (3, 5),
        {},
    ),
    "attention": Network(
        [
            node("MatMul", "x w", "q"), node("Transpose", "x", "k", perm=[0, 2, 1]), node("MatMul", "q k", "s"),
            node("Softmax", "s", "m", axis=2), node("MatMul", "m x", "o"), node("Dropout", "o", "d", ratio=0.3),
            node("LogSoftmax", "d", "l", axis=2), node("ReduceSum", "l", "y", axes=[1], keepdims=0),
        ],
        (2, 3, 4),
        {"w": array(4, 4)},
    ),
    "images": Network(
        [
            node("PRelu", "x slope", "p"), node("InstanceNormalization", "p s s", "i"), node("LRN", "i", "l", size=3),
            node("AveragePool", "l", "a", kernel_shape=[2, 2]), node("ConvTranspose", "a w", "t", strides=[2, 2]),
            node("DepthToSpace", "t", "d", blocksize=2), node("Upsample", "d scales", "u", mode="nearest"),
            node("TopK", "u", "v places", k=2, axis=3), node("ReduceMax", "v", "m", axes=[2], keepdims=0),
            node("Hardmax", "m", "y", axis=2),
        ],
        (1, 4, 4, 4),
        {
            "slope": array(4, 1, 1), "s": array(4), "w": array(4, 4, 2, 2),
            "scales": np.array([1, 1, 2, 2], "float32"),
        },
        9,
    ),
}  # fmt: skip
_QUICK = {("convolutions", 7), ("shapes", 7), ("normalisation", 25)}
CASES = [(name, opset) for name, network in NETWORKS.items() for opset in range(network.first, 26)]


@pytest.mark.parametrize(
    ("name", "opset"), [pytest.param(*c, marks=[] if c in _QUICK else [pytest.mark.nightly]) for c in CASES]
)
def test_every_opset(name: str, opset: int) -> None:
    network = NETWORKS[name]
    proto = model(network.nodes, {"x": (network.shape, "float32")}, "y", network.weights, network.first)
    proto.ir_version = 3
    # The converter knows no initializers that are no inputs.
    for weight in proto.graph.initializer:
        proto.graph.input.append(helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims)))
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    feed = {"x": array(*network.shape)}
    expected = session(proto).run(None, feed)
    moved = proto if opset == network.first else version_converter.convert_version(proto, opset)
    assert_agrees(Compiled(moved)(**feed), expected, ["y"])
