"""Operators that reduce or go along each axis, of sizes that no vector divides and of all types; images resized."""

from __future__ import annotations

import numpy as np

from .case import Make, case, floats, integers
from .movement import listed, scalar

_KINDS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp")
for _name in _KINDS:
    for _shape in ((30, 50, 70), (64, 128, 96)):
        for _which in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            _label = f"axes {', '.join(map(str, _which))} of {'x'.join(map(str, _shape))}"
            if (_shape[0], _name) != (64, "ReduceL2"):
                case(_name, floats(*_shape), label=_label, constants={1: listed(*_which)})
    case(_name, floats(1000, 700), label="rows of any size", constants={1: listed(1)}, free=(0, 1))
for _dtype in ("float64", "int32", "int64", "float16", "uint8"):
    _made = (floats if _dtype.startswith("float") else integers)(1000, 1000, dtype=_dtype)
    for _name in ("ReduceSum", "ReduceMax") if _dtype != "uint8" else ("ReduceMax",):
        case(_name, _made, label=f"rows, {_dtype}", constants={1: listed(1)}, atol=1)
        case(_name, _made, label=f"columns, {_dtype}", constants={1: listed(0)}, atol=1)
for _shape in ((8, 64, 56, 56), (8, 512, 7, 7)):
    case("ReduceMean", floats(*_shape), label=f"pixels of {'x'.join(map(str, _shape))}", constants={1: listed(2, 3)})
for _shape in ((100000, 10), (100000, 3), (4, 300000)):
    case("ReduceSum", floats(*_shape), label=f"rows of {_shape[1]}", constants={1: listed(1)})
case("ArgMax", floats(100000, 10), label="short rows", axis=1)
case("ArgMax", floats(1, 21, 256, 256), label="channels", axis=1)
case("Softmax", floats(1, 21, 256, 256), label="channels", axis=1)
for _shape in ((100000, 2), (10000, 50), (512, 49), (1000, 1000), (1536, 128), (300, 333)):
    case("Softmax", floats(*_shape), label="x".join(map(str, _shape)))
for _dtype in ("float64", "float16"):
    case("Softmax", floats(1000, 1000, dtype=_dtype), label=_dtype)
for _shape in ((1000, 1000), (5000, 100), (50000, 16)):
    _size, _label = _shape[1], "x".join(map(str, _shape))
    case("LayerNormalization", floats(*_shape), label=_label, constants={1: floats(_size), 2: floats(_size)})
    case("RMSNormalization", floats(*_shape), label=_label, constants={1: floats(_size)}, name="RMSNorm", opset=23)
for _shape in ((1, 32, 64, 64), (8, 64, 13, 13)):
    _pair: dict[int, Make] = {1: floats(_shape[1]), 2: floats(_shape[1])}
    case("InstanceNormalization", floats(*_shape), label="x".join(map(str, _shape)), constants=_pair)
for _shape in ((8, 64, 13, 13), (1000, 100)):
    _four = {at: floats(_shape[1], low=0.5) for at in (1, 2, 3, 4)}
    case("BatchNormalization", floats(*_shape), label="x".join(map(str, _shape)), constants=_four)
for _axis in (0, 1, 2):
    case("CumSum", floats(64, 128, 96), label=f"{_axis} of 64x128x96", constants={1: scalar(_axis)})
for _dtype in ("float64", "int32", "int64"):
    _made = (floats if _dtype == "float64" else integers)(1000, 1000, dtype=_dtype)
    case("CumSum", _made, label=f"rows, {_dtype}", constants={1: scalar(1)})
for _shape in ((4, 50, 77), (2, 1000, 33)):
    case("TopK", floats(*_shape), label=f"5 of {'x'.join(map(str, _shape))}", constants={1: listed(5)}, outputs=2)
for _k in (1, 5, 20):
    _how_many: dict[int, Make] = {1: listed(_k)}
    case("TopK", floats(1, 1000), label=f"{_k} of one row", constants=_how_many, outputs=2)
    case("TopK", floats(1000, 100), label=f"{_k} of 1000x100", constants=_how_many, outputs=2)

_NONE: dict[int, Make] = {at: lambda _: np.zeros(0, "float32") for at in (1, 2)}
_SIZES = {"13 to 26": ((1, 256, 13, 13), 26), "56 to 28": ((1, 64, 56, 56), 28), "224 to 448": ((1, 3, 224, 224), 448)}
for _label, (_shape, _to) in _SIZES.items():
    _given = _NONE | {3: listed(_to, _to)}
    for _mode in ("nearest", "linear", "cubic"):
        case("Resize", floats(*_shape), label=f"{_mode}, {_label}", constants=_given, mode=_mode, axes=[2, 3])
    if _to > 26:
        _rest = {"mode": "linear", "antialias": 1, "axes": [2, 3]}
        case("Resize", floats(*_shape), label=f"antialias, {_label}", constants=_given, **_rest)
# Sizes of all axes resize a batch of any size, too.
_all: dict[int, Make] = _NONE | {3: listed(1, 64, 56, 56)}
case("Resize", floats(1, 64, 28, 28), label="nearest, all axes, 28 to 56", constants=_all, mode="nearest")
for _mode in ("nearest", "cubic"):
    case("GridSample", floats(1, 32, 56, 56), floats(1, 56, 56, 2), label=_mode, mode=_mode)

for _equation, _shapes in {
    "bqhd,bkhd->bhqk": ((8, 128, 12, 64),) * 2,
    "abc->b": ((64, 128, 96),),
    "ij,ij->i": ((1000, 100),) * 2,
}.items():
    case("Einsum", *[floats(*s) for s in _shapes], label=_equation, equation=_equation, free=())
for _size in (1000, 1024, 257):
    _length: dict[int, Make] = {1: scalar(_size), 2: scalar(1)}
    case("DFT", floats(8, _size, 1), label=f"8x{_size}", constants=_length, free=(), atol=1e-2)
