"""Operators that move elements, of every width: transposes, parts, joins, repeats and look-ups along each axis."""

from __future__ import annotations

import numpy as np

from .case import Make, case, floats, integers
from .movement import listed

_TYPES = ("uint8", "float16", "float32", "float64", "int64", "bool")
_THREE = (64, 128, 96)
_ODD = (63, 129, 99)


def _of(dtype: str, *shape: int) -> Make:
    if dtype.startswith("float"):
        return floats(*shape, dtype=dtype)
    return integers(*shape, high=2 if dtype == "bool" else 100, dtype=dtype)


_TURNS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "1000x1000": ((1000, 1000), (1, 0)),
    "HWC to CHW": ((1, 224, 224, 3), (0, 3, 1, 2)),
    "CHW to HWC": ((1, 3, 224, 224), (0, 2, 3, 1)),
    "heads": ((16, 128, 12, 64), (0, 2, 1, 3)),
    "0132": ((16, 12, 128, 64), (0, 1, 3, 2)),
    "0231 7x7": ((8, 512, 7, 7), (0, 2, 3, 1)),
    "0312 7x7": ((8, 7, 7, 512), (0, 3, 1, 2)),
    "8192x96": ((8192, 96), (1, 0)),
    "021 of 64x128x96": (_THREE, (0, 2, 1)),
}
for _label, (_shape, _perm) in _TURNS.items():
    for _dtype in _TYPES:
        if (_label, _dtype) != ("021 of 64x128x96", "float32"):
            case("Transpose", _of(_dtype, *_shape), label=f"{_label}, {_dtype}", perm=_perm)
case("Transpose", floats(2048, 2048), label="2048x2048", perm=(1, 0))
case("Transpose", floats(8, 64, 49, 4), label="0132, narrow", perm=(0, 1, 3, 2))
case("Transpose", floats(1000, 1000), label="1000x1000, any", perm=(1, 0), free=(0, 1))

for _axis in (0, 1, 2):
    _at, _name = integers(*_THREE, high=64), f"{_axis} of 64x128x96"
    case("Gather", floats(*_THREE), integers(50, high=64), label=_name, axis=_axis, free=())
    case("GatherElements", floats(*_THREE), _at, label=_name, axis=_axis)
    case("ScatterElements", floats(*_THREE), _at, floats(*_THREE), label=_name, axis=_axis)
    for _shape, _parts in ((_THREE, 2), (_ODD, 3)):
        _name = f"{_axis} of {'x'.join(map(str, _shape))}"
        case("Concat", *[floats(*_shape)] * _parts, label=_name, axis=_axis, free=())
        case("Split", floats(*_shape), label=_name, axis=_axis, num_outputs=_parts, outputs=_parts, free=())
for _dtype in ("uint8", "float16", "int64", "float64"):
    _matrix = _of(_dtype, 1000, 1000)
    case("Gather", _of(_dtype, 30000, 256), integers(1, 512, high=30000), label=f"of a table, {_dtype}")
    case("Gather", _matrix, integers(500, high=1000), label=f"columns, {_dtype}", axis=1, free=())
    case("Concat", *[_of(_dtype, 1000, 500)] * 2, label=_dtype, axis=1)
    _parts_of = {1: listed(10, 10), 2: listed(900, 900), 3: listed(0, 1)}
    case("Slice", _matrix, label=_dtype, constants=_parts_of)
    case("Slice", _matrix, label=f"by 2, {_dtype}", constants={i + 1: listed(v) for i, v in enumerate((0, 1000, 1, 2))})
    case("Pad", _of(_dtype, 1, 64, 56, 56), label=_dtype, constants={1: listed(0, 0, 1, 1, 0, 0, 1, 1)})
    case("Tile", _of(_dtype, 64, 256), label=f"4x2, {_dtype}", constants={1: listed(4, 2)})
    case("Expand", _of(_dtype, 64, 1, 64), label=_dtype, constants={1: listed(64, 256, 64)}, free=())

# Small images, whose lines are shorter than vectors.
for _shape in ((1, 512, 7, 7), (8, 512, 7, 7), (4, 256, 14, 14), (2, 96, 28, 28)):
    _label = f"channels of {'x'.join(map(str, _shape))}"
    case("Concat", *[floats(*_shape)] * 2, label=_label, axis=1, free=())
    case("Split", floats(*_shape), label=_label, axis=1, num_outputs=2, outputs=2, free=())
    case("Add", *[floats(*_shape)] * 2, label=f"images, {'x'.join(map(str, _shape))}")

_IMAGES = (8, 64, 56, 56)
case("Gather", floats(1000, 1000), integers(500, high=1000), label="columns", axis=1, free=())
case("Gather", floats(*_IMAGES), integers(32, high=64), label="channels", axis=1, free=())
case("Slice", floats(*_IMAGES), label="crop", constants={1: listed(3, 3), 2: listed(50, 50), 3: listed(2, 3)})
_by_two = {1: listed(0, 0), 2: listed(56, 56), 3: listed(2, 3), 4: listed(2, 2)}
case("Slice", floats(*_IMAGES), label="by 2 both ways", constants=_by_two)
_back = {1: listed(-1), 2: listed(-9999), 3: listed(3), 4: listed(-1)}
case("Slice", floats(*_IMAGES), label="columns backwards", constants=_back)
case("Pad", floats(1000, 1000), label="rows", constants={1: listed(0, 3, 0, 5)})
case("Pad", floats(1, 64, 56, 56), label="channels", constants={1: listed(0, 3, 0, 0, 0, 3, 0, 0)})
case("Tile", floats(8, 3, 56, 56), label="channels", constants={1: listed(1, 4, 1, 1)})
case("Tile", floats(1000, 1), label="columns", constants={1: listed(1, 1000)})
case("Expand", floats(1000, 1), label="columns", constants={1: listed(1000, 1000)}, free=())
case("Expand", floats(8, 64, 1, 1), label="pixels", constants={1: listed(*_IMAGES)}, free=())
case("ScatterND", floats(64, 64, 64), integers(1000, 3, high=64), floats(1000), label="elements", free=())
_classes: dict[int, Make] = {1: lambda _: np.int64(1000), 2: listed(0, 1, dtype="float32")}
for _axis in (-1, 0):
    case("OneHot", integers(1000), label=f"1000 classes, axis {_axis}", constants=_classes, axis=_axis)
case("DepthToSpace", floats(1, 64, 56, 56), label="2, columns first", blocksize=2, mode="CRD")
case("SpaceToDepth", floats(1, 3, 224, 224), label="4", blocksize=4)
case("Trilu", integers(1000, 1000), label="upper, int64", upper=1)
case("Compress", floats(1000, 1000), integers(1000, high=2, dtype="bool"), label="columns", axis=1)
case("Compress", floats(100000), integers(100000, high=2, dtype="bool"), label="elements")
case("NonZero", integers(1000, 1000, high=2), label="int64")
