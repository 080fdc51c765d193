"""Operators of elements of other types than float32, and of operands that are repeated along some axes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto

from .case import Array, Make, case, floats, integers

_M = (1000, 1000)
_MAKES: dict[str, Make] = {
    "float16": floats(*_M, dtype="float16"),
    "float32": floats(*_M),
    "float64": floats(*_M, dtype="float64"),
    "int8": integers(*_M, low=-100, dtype="int8"),
    "uint8": integers(*_M, dtype="uint8"),
    "int32": integers(*_M, low=-100, dtype="int32"),
    "int64": integers(*_M, low=-100),
    "bool": integers(*_M, high=2, dtype="bool"),
}


_ONNX = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}


def _full(value: float, dtype: str, _: np.random.Generator) -> Array:
    return np.array(value, dtype)


def _number(value: float, dtype: str = "float32") -> Make:
    return partial(_full, value, dtype)


def _some(*dtypes: str, shape: tuple[int, ...] = _M, **limits: Any) -> dict[str, Make]:
    return {d: (floats if d.startswith("float") else integers)(*shape, dtype=d, **limits) for d in dtypes}


for _from, _made in _MAKES.items():
    for _to in _MAKES:
        if _from != _to and (_from, _to) != ("float32", "int32"):
            case("Cast", _made, label=f"{_from} to {_to}", to=_ONNX.get(_to, getattr(TensorProto, _to.upper(), None)))
for _name in ("Exp", "Log", "Sqrt", "Sin", "Cos", "Tanh", "Sigmoid", "Abs", "Neg", "Floor", "Round", "Relu"):
    for _dtype, _made in _some("float64", "float16", low=0.5, high=3).items():
        case(_name, _made, label=_dtype)
for _name in ("Abs", "Neg", "Sign"):
    for _dtype in ("int8", "int32", "int64"):
        case(_name, _MAKES[_dtype], label=_dtype)
for _name in ("Add", "Mul", "Div", "Max"):
    for _dtype, _made in _some("float64", "float16", "int32", "int64", low=1, high=9).items():
        case(_name, _made, _made, label=_dtype)
for _dtype in ("int8", "uint8"):
    case("Max", _MAKES[_dtype], _MAKES[_dtype], label=_dtype)
for _name in ("Equal", "Less"):
    for _dtype in ("float64", "int32", "int64"):
        case(_name, _MAKES[_dtype], _MAKES[_dtype], label=_dtype)
for _dtype in ("float64", "uint8", "int64"):
    case("Where", _MAKES["bool"], _MAKES[_dtype], _MAKES[_dtype], label=_dtype)
for _dtype in ("float64", "int8", "int64"):
    case("Clip", _MAKES[_dtype], label=_dtype, constants={1: _number(-0.5, _dtype), 2: _number(9, _dtype)})
for _by in (2, 0.5, -1, 2.5):
    case("Pow", floats(*_M, low=0.1), label=f"by {_by}", constants={1: _number(_by)})
case("Pow", floats(*_M, low=0.1, dtype="float64"), label="by 2.5, float64", constants={1: _number(2.5, "float64")})
case("Pow", floats(*_M, low=0.1), integers(*_M, high=4), label="of int64")
case("Mod", *[integers(*_M, low=1, high=9, dtype="int32")] * 2, label="int32")

_BROADCASTS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "a column": ((1000, 1000), (1000, 1)),
    "a row and a column": ((1, 1000), (1000, 1)),
    "a middle axis": ((64, 32, 512), (64, 1, 512)),
    "channels": ((8, 64, 56, 56), (1, 64, 1, 1)),
    "channels of images": ((8, 64, 56, 56), (8, 64, 1, 1)),
    "images": ((8, 64, 56, 56), (8, 1, 56, 56)),
    "last axes of 7": ((512, 64, 7), (512, 1, 7)),
    "a number": ((1000, 1000), ()),
    "large": ((4096, 4096), (4096, 4096)),
}
for _label, (_one, _other) in _BROADCASTS.items():
    case("Add", floats(*_one), floats(*_other), label=_label, free=())
    if len(_one) == len(_other):
        case("Mul", floats(*_other), floats(*_one), label=f"{_label}, any", free=tuple(range(len(_one))))
_mask, _scores = integers(64, 1, 128, 128, high=2, dtype="bool"), floats(64, 4, 128, 128)
case("Where", _mask, _scores, label="a mask", constants={2: _number(-1e9)})
case("PRelu", floats(8, 64, 56, 56), label="of channels", constants={1: floats(64, 1, 1)})
case("Gelu", floats(*_M), label="by tanh", approximate="tanh")
for _dtype in ("int8", "uint8"):
    for _axis in (0, 1, 2):
        _channels = (32, 64, 784)[_axis]
        _given = {1: floats(_channels, low=0.01, high=0.1), 2: integers(_channels, high=9, dtype=_dtype)}
        case("QuantizeLinear", floats(32, 64, 784), label=f"{_dtype}, axis {_axis}", constants=_given, axis=_axis)
        _made = integers(32, 64, 784, dtype=_dtype)
        case("DequantizeLinear", _made, label=f"{_dtype}, axis {_axis}", constants=_given, axis=_axis)
