"""Operators of ONNX that fewer models have: attention and its parts, losses, regions, rarer pools; views."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .case import Make, case, floats, integers
from .movement import listed, scalar

# Queries, keys: steps of a decoder, a prompt, an encoder.
for _queries, _keys in ((1, 128), (1, 1024), (128, 128), (512, 512)):
    _label = f"{_queries} by {_keys}"
    _past = [floats(1, 8, _keys, 64)] * 2
    case("Attention", floats(1, 8, _queries, 64), *_past, label=_label, opset=23)
    case("Attention", floats(1, 8, _queries, 64), *_past, label=f"{_label}, causal", opset=23, is_causal=1)
_grouped = [floats(1, 2, 256, 64)] * 2
case("Attention", floats(1, 8, 64, 64), *_grouped, label="64 by 256, 4 heads each", opset=23)
case(
    "Attention",
    floats(2, 128, 512),
    *[floats(2, 128, 512)] * 2,
    integers(128, 128, high=2, dtype="bool"),
    label="128, in rows, a mask",
    opset=23,
    q_num_heads=8,
    kv_num_heads=8,
)
for _batch, _length in ((1, 1), (1, 128), (4, 512)):
    _angles = [floats(_batch, _length, 32)] * 2
    for _turned in (0, 1):
        _label = f"{_batch}x8x{_length}x64{', interleaved' if _turned else ''}"
        _made = floats(_batch, 8, _length, 64)
        case("RotaryEmbedding", _made, *_angles, label=_label, opset=23, free=(), interleaved=_turned)
case("TensorScatter", floats(4, 8, 256, 64), floats(4, 8, 1, 64), integers(4, high=255), label="a step", opset=24)

_SIZES = {"2k": (16, 128), "1M": (1024, 1024)}
for _label, _shape in _SIZES.items():
    case("Identity", floats(*_shape), label=_label)
    case("Swish", floats(*_shape, low=-4, high=4), label=_label, opset=24)
    case("Shrink", floats(*_shape), label=_label, lambd=0.5, bias=0.1)
    case("BitwiseNot", integers(*_shape, dtype="int32"), label=_label)
    case("CastLike", floats(*_shape), label=_label, constants={1: listed(1)})
    case("Flatten", floats(*_shape), label=_label)
    case("Reshape", floats(*_shape), label=_label, constants={1: listed(-1, 64)})
    case("Unsqueeze", floats(*_shape), label=_label, constants={1: listed(1)})
    case("Squeeze", floats(1, *_shape), label=_label, constants={1: listed(0)}, free=(1,))
    case("Shape", floats(*_shape), label=_label)
    case("Size", floats(*_shape), label=_label)
    case("Dropout", floats(*_shape), label=_label)
    _labels = integers(_shape[0], high=_shape[1])
    case("SoftmaxCrossEntropyLoss", floats(*_shape), _labels, label=_label, atol=1e-3)
    case("NegativeLogLikelihoodLoss", floats(*_shape), _labels, label=_label, atol=1e-3)
    case("CumProd", floats(*_shape, low=0.9, high=1.1), label=_label, constants={1: scalar(1)}, opset=26)
case("SoftmaxCrossEntropyLoss", floats(1, 21, 128, 128), integers(1, 128, 128, high=21), label="pixels", atol=1e-3)

for _count in (100, 1_000_000):
    _ends = [scalar(0), scalar(_count), scalar(1)]
    case("Range", *_ends, label=f"{_count}", free=())
    _one = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.0])
    case("ConstantOfShape", listed(_count), label=f"{_count}", free=(), value=_one)

_IMAGE = floats(1, 64, 56, 56)
case("LpPool", _IMAGE, label="2x2 by 2", kernel_shape=[2, 2], strides=[2, 2])
case("LpPool", _IMAGE, label="3x3", kernel_shape=[3, 3], pads=[1] * 4)
case("GlobalLpPool", _IMAGE, label="56x56", opset=18)
_regions: Make = lambda random: np.concatenate(  # noqa: E731 - a default that draws
    [np.zeros((32, 1)), np.sort(random.uniform(0, 55, (32, 2, 2)), 1).reshape(32, 4)], 1
).astype("float32")
case("MaxRoiPool", _IMAGE, _regions, label="7x7 of 32", pooled_shape=[7, 7], free=(), opset=18)


def _places(random: np.random.Generator) -> np.ndarray:
    """Return where the largest of each window of 2x2 was, of 64 channels of 56x56."""
    rows, columns = (random.integers(0, 2, (64, 28, 28)) for _ in range(2))
    y, x = 2 * np.arange(28)[:, None] + rows, 2 * np.arange(28) + columns
    return (np.arange(64)[:, None, None] * 3136 + y * 56 + x)[None]


case("MaxUnpool", floats(1, 64, 28, 28), _places, label="2x2 by 2", kernel_shape=[2, 2], strides=[2, 2], free=())
for _kernel, _stride in ((3, 1), (2, 2), (4, 2), (7, 7)):
    _across = (28 - _kernel) // _stride + 1
    case(
        "Col2Im",
        floats(1, 32 * _kernel**2, _across**2),
        label=f"{_kernel}x{_kernel} by {_stride}",
        constants={1: listed(28, 28), 2: listed(_kernel, _kernel)},
        strides=[_stride] * 2,
    )
case("CenterCropPad", _IMAGE, label="40x64", constants={1: listed(40, 64)}, axes=[2, 3], free=())
case("Det", floats(1000, 3, 3), label="1000 of 3x3")
case("Det", floats(8, 64, 64), label="8 of 64x64", atol=1e-1)
case(
    "DeformConv",
    floats(1, 32, 28, 28),
    label="3x3, 32 to 32",
    constants={1: floats(32, 32, 3, 3), 2: floats(1, 18, 28, 28)},
    pads=[1] * 4,
    free=(),
)
for _length in (400, 100_000):
    for _name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        case(_name, scalar(_length), label=f"{_length}", free=())
case("Upsample", _IMAGE, label="nearest", constants={1: listed(1, 1, 2, 2, dtype="float32")}, opset=9)
case("Upsample", _IMAGE, label="linear", constants={1: listed(1, 1, 2, 2, dtype="float32")}, opset=9, mode="linear")
case("Scatter", floats(1000, 64), integers(1000, 64, high=64), floats(1000, 64), label="rows", axis=1, opset=10)
