"""Operators that sum or compare along axes, normalise, sort and choose."""

from __future__ import annotations

import numpy as np

from .case import Make, case, floats, integers

_SIZES = {"2k": (16, 128), "1M": (1024, 1024)}
_REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum"),
    *("ReduceLogSumExp", "ReduceSumSquare"),
)


def _axes(*axes: int) -> dict[int, Make]:
    return {1: lambda _: np.array(axes, "int64")}


for _label, _shape in _SIZES.items():
    for _name in _REDUCTIONS:
        for _along, _which in (("rows", (1,)), ("columns", (0,)), ("all", (0, 1))):
            if _along == "rows" or _name in ("ReduceSum", "ReduceMean", "ReduceMax"):
                _made = floats(*_shape, low=0.5, high=1.5)
                case(_name, _made, label=f"{_along}, {_label}", constants=_axes(*_which))
    for _name in ("ArgMax", "ArgMin"):
        case(_name, floats(*_shape), label=f"rows, {_label}", axis=1)
        case(_name, floats(*_shape), label=f"columns, {_label}", axis=0)
    for _name in ("Softmax", "LogSoftmax", "Hardmax"):
        case(_name, floats(*_shape), label=f"rows, {_label}", axis=-1)
        case(_name, floats(*_shape), label=f"columns, {_label}", axis=0)
    _pair: dict[int, Make] = {1: floats(_shape[1]), 2: floats(_shape[1])}
    case("LayerNormalization", floats(*_shape), label=_label, constants=_pair)
    case("RMSNormalization", floats(*_shape), label=_label, constants={1: floats(_shape[1])}, name="RMSNorm", opset=23)
    case("LpNormalization", floats(*_shape), label=_label, axis=1)
    case("CumSum", floats(*_shape), label=f"rows, {_label}", constants={1: lambda _: np.int64(1)})
    case("CumSum", floats(*_shape), label=f"columns, {_label}", constants={1: lambda _: np.int64(0)})
    case("TopK", floats(*_shape), label=f"5 of a row, {_label}", constants={1: lambda _: np.array([5])}, outputs=2)
    case("TopK", floats(*_shape), label=f"100 of a row, {_label}", constants={1: lambda _: np.array([100])}, outputs=2)
    case("NonZero", integers(*_shape, high=2, dtype="float32"), label=_label)
    case("Unique", integers(*_shape), label=_label, sorted=1)
    case(
        "com.microsoft:SkipLayerNormalization",
        floats(*_shape),
        floats(*_shape),
        label=_label,
        constants={2: floats(_shape[1]), 3: floats(_shape[1])},
    )

for _label, _shape in {"4x16x8x8": (4, 16, 8, 8), "8x64x56x56": (8, 64, 56, 56)}.items():
    _pair = {1: floats(_shape[1]), 2: floats(_shape[1])}
    _four = {**_pair, 3: floats(_shape[1]), 4: floats(_shape[1], low=0.5)}
    case("BatchNormalization", floats(*_shape), label=_label, constants=_four)
    case("InstanceNormalization", floats(*_shape), label=_label, constants=_pair)
    case("GroupNormalization", floats(*_shape), label=_label, constants=_pair, num_groups=4)
    case("LRN", floats(*_shape), label=_label, size=5)
    case("MeanVarianceNormalization", floats(*_shape), label=_label)
    case("GlobalAveragePool", floats(*_shape), label=_label)
    case("GlobalMaxPool", floats(*_shape), label=_label)

for _name in ("ReduceSum", "ReduceMax"):
    for _which in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2)):
        _along = ", ".join(map(str, _which))
        case(_name, floats(32, 64, 100), label=f"axes {_along} of 32x64x100", constants=_axes(*_which))
    case(_name, floats(8, 64, 56, 56), label="channels of 8x64x56x56", constants=_axes(1))
    case(_name, floats(8, 28, 28, 64), label="pixels of 8x28x28x64", constants=_axes(1, 2))
    case(_name, integers(512, 512, dtype="int32"), label="int32 columns", constants=_axes(0))
for _name in ("Softmax", "LogSoftmax"):
    for _columns in (9, 20, 33):
        case(_name, floats(2, 1000, _columns), label=f"axis 1 of 2x1000x{_columns}", axis=1)
for _axis in (0, 1, 2):
    case("ArgMax", floats(32, 64, 100), label=f"axis {_axis} of 32x64x100", axis=_axis)
case("CumSum", floats(32, 64, 100), label="axis 1 of 32x64x100", constants={1: lambda _: np.int64(1)})
case("Softmax", floats(100000, 10), label="short rows")
case("Softmax", floats(8, 30000), label="long rows")
for _k in (1, 10, 50, 500, 1000):
    case("TopK", floats(128, 1000), label=f"{_k} of 1000", constants={1: lambda _, k=_k: np.array([k])}, outputs=2)
for _k in (300, 8400):
    case("TopK", floats(1, 8400), label=f"{_k} of 8400", constants={1: lambda _, k=_k: np.array([k])}, outputs=2)
case("TopK", floats(8, 1000, 64), label="10 of axis 1", constants={1: lambda _: np.array([10])}, outputs=2, axis=1)
case("TopK", integers(128, 1000), label="100 of int64", constants={1: lambda _: np.array([100])}, outputs=2)
case("Unique", integers(2000, 16, high=3), label="rows of 16", axis=0, sorted=1)
case("Unique", floats(100000), label="100k floats", sorted=1)
case("Unique", integers(100000, high=50), label="100k of 50", sorted=1)
case("Unique", integers(100000, high=50), label="100k of 50, as they appear", sorted=0)
case("NonZero", integers(256, 1000, high=2, dtype="bool"), label="bool, 256k")
