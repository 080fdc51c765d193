"""Operators that move elements: layouts, looking up, scattering, resizing, regions of images."""

from __future__ import annotations

import numpy as np

from .case import Make, case, floats, integers

__all__ = ["listed", "scalar"]


def listed(*values: float, dtype: str = "int64") -> Make:
    """Return what gives a vector of some numbers."""
    return lambda _: np.array(values, dtype)


def scalar(value: int) -> Make:
    """Return what gives an integer."""
    return lambda _: np.array(value, "int64")


for _perm in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (3, 2, 1, 0)):
    case("Transpose", floats(4, 32, 48, 64), label="".join(map(str, _perm)), perm=_perm)
case("Transpose", floats(1024, 1024), label="1024x1024", perm=(1, 0))
case("Transpose", floats(16, 128), label="16x128", perm=(1, 0))
for _perm in ((0, 2, 1), (1, 0, 2), (2, 0, 1), (2, 1, 0), (1, 2, 0)):
    case("Transpose", floats(64, 128, 96), label=f"{''.join(map(str, _perm))} of 64x128x96", perm=_perm)
for _perm in ((0, 3, 1, 4, 2), (4, 3, 2, 1, 0), (0, 1, 4, 2, 3)):
    case("Transpose", floats(2, 8, 16, 32, 24), label="".join(map(str, _perm)), perm=_perm)
for _dtype in ("float16", "int8", "int64"):
    _made = (floats if _dtype == "float16" else integers)(4, 64, 56, 56, dtype=_dtype)
    case("Transpose", _made, label=f"0231, {_dtype}", perm=(0, 2, 3, 1))
for _axis in (0, 1):
    case("Concat", *[floats(256, 256)] * 4, label=f"axis {_axis}", axis=_axis)
    case("Split", floats(256, 1024), label=f"axis {_axis}", axis=_axis, num_outputs=4, outputs=4, free=())
    case("Gather", floats(1000, 256), integers(128), label=f"axis {_axis}", axis=_axis, free=())
    _at = integers(1000, 256, high=256)
    case("GatherElements", floats(1000, 256), _at, label=f"axis {_axis}", axis=_axis)
    case("ScatterElements", floats(1000, 256), _at, floats(1000, 256), label=f"axis {_axis}", axis=_axis)
case("Gather", floats(30000, 256), integers(1, 128, high=30000), label="of a table")
case("GatherND", floats(64, 64, 64), integers(1000, 2, high=64), label="1000 rows", free=())
case("ScatterND", floats(1000, 64), integers(200, 1, high=1000), floats(200, 64), label="200 rows", free=())
case("Slice", floats(256, 1024), label="columns", constants={1: listed(100), 2: listed(900), 3: listed(1)})
case("Slice", floats(256, 1024), label="by 2", constants={1: listed(0), 2: listed(1024), 3: listed(1), 4: listed(2)})
case("Pad", floats(1, 64, 56, 56), label="constant", constants={1: listed(0, 0, 1, 1, 0, 0, 1, 1)})
case("Pad", floats(1, 64, 56, 56), label="reflect", mode="reflect", constants={1: listed(0, 0, 1, 1, 0, 0, 1, 1)})
for _mode in ("reflect", "edge", "wrap"):
    case(
        "Pad", floats(1, 3, 224, 224), label=f"{_mode} by 3", mode=_mode, constants={1: listed(0, 0, 3, 3, 0, 0, 3, 3)}
    )
    case("Pad", floats(1, 1, 16000), label=f"{_mode} by 200", mode=_mode, constants={1: listed(0, 0, 200, 0, 0, 200)})
case("Pad", floats(8, 64, 14, 14), label="reflect 14x14", mode="reflect", constants={1: listed(0, 0, 1, 1, 0, 0, 1, 1)})
for _reduction in ("add", "max"):
    _at, _new = integers(1000, 256, high=256), floats(1000, 256)
    _rest = {"label": _reduction, "reduction": _reduction, "opset": 18}
    case("ScatterElements", floats(1000, 256), _at, _new, axis=1, **_rest)
    case("ScatterND", floats(1000, 64), integers(200, 1, high=1000), floats(200, 64), free=(), **_rest)
case("GatherND", floats(8, 1000, 64), integers(8, 100, 1, high=1000), label="of a batch", free=(), batch_dims=1)
case(
    "Slice",
    floats(64, 56, 56),
    label="backwards",
    constants={1: listed(-1), 2: listed(-99), 3: listed(2), 4: listed(-1)},
)
case("Concat", floats(1000, 3), floats(1000, 5), floats(1000, 1), label="narrow", axis=1)
case("Where", integers(512, 1, high=2, dtype="bool"), floats(512, 512), floats(1, 512), label="of a row", free=())
case("Expand", floats(64, 1, 64), label="64x256x64", constants={1: listed(64, 256, 64)}, free=())
case("Tile", floats(64, 256), label="4x2", constants={1: listed(4, 2)})
case("Trilu", floats(8, 256, 256), label="lower", upper=0)
case("DepthToSpace", floats(1, 64, 56, 56), label="2", blocksize=2)
case("SpaceToDepth", floats(1, 64, 56, 56), label="2", blocksize=2)
case(
    "OneHot",
    integers(1000),
    label="100 classes",
    constants={1: lambda _: np.int64(100), 2: listed(0, 1, dtype="float32")},
)
case("ReverseSequence", floats(64, 16, 64), integers(16, low=1, high=64), label="64 steps")
case("Compress", floats(1000, 64), integers(1000, high=2, dtype="bool"), label="rows", axis=0)
case("EyeLike", floats(256, 256), label="256")

_RESIZES = {
    "nearest": {"mode": "nearest"},
    "linear": {"mode": "linear"},
    "cubic": {"mode": "cubic"},
    "linear, corners": {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
}
for _name, _mode in _RESIZES.items():
    _none: Make = lambda _: np.zeros(0, "float32")  # noqa: E731 - a default that is no region
    _two = {1: _none, 2: listed(1, 1, 2, 2, dtype="float32")}
    case("Resize", floats(1, 32, 56, 56), label=f"{_name}, by 2", constants=_two, **_mode)
case("GridSample", floats(1, 32, 56, 56), floats(1, 56, 56, 2), label="linear", mode="linear")
case("AffineGrid", floats(4, 2, 3), label="64x64", constants={1: listed(4, 3, 64, 64)}, free=())
_corners = {"spatial_scale": 0.25, "output_height": 7, "output_width": 7, "sampling_ratio": 2}
case(
    "RoiAlign",
    floats(1, 32, 56, 56),
    lambda random: np.sort(random.uniform(0, 200, (32, 2, 2)), 1).reshape(32, 4).astype("float32"),
    integers(32, high=1),
    label="32 regions",
    free=(),
    opset=16,  # the last that onnxruntime has
    **_corners,
)


def _boxes(batch: int, count: int) -> Make:
    def draw(random: np.random.Generator) -> np.ndarray:
        corner = random.uniform(0, 0.8, (batch, count, 2))
        return np.concatenate([corner, corner + random.uniform(0.05, 0.2, corner.shape)], 2).astype("float32")

    return draw


# Boxes, classes, how many are left of a class, and the least score of a box.
for _count, _classes, _most, _score in (
    (1000, 8, 100, 0.3),
    (8400, 1, 300, 0.25),
    (2000, 80, 100, 0.5),
    (5000, 1, 1000, 0),
):
    _limits: dict[int, Make] = {
        2: listed(_most),
        3: listed(0.5, dtype="float32"),
        4: listed(_score, dtype="float32"),
    }
    case(
        "NonMaxSuppression",
        _boxes(1, _count),
        floats(1, _classes, _count, low=0),
        label=f"{_count} boxes, {_classes} classes",
        constants=_limits,
        free=(),
    )
case("DFT", floats(1, 512, 1), label="512", constants={1: lambda _: np.int64(512), 2: lambda _: np.int64(1)}, free=())
case(
    "STFT",
    floats(1, 16000, 1),
    label="400 by 160",
    constants={1: lambda _: np.int64(160), 2: lambda _: np.hanning(400).astype("float32"), 3: lambda _: np.int64(400)},
    free=(),
    atol=1e-3,  # onnxruntime's own error, beside float64
)
