"""Operators of elements: of one tensor, of two, choices and conversions."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from .case import case, floats, integers

_SIZES = {"2k": (16, 128), "1M": (1024, 1024)}
_UNIT = ("Asin", "Acos", "Atanh")
_POSITIVE = ("Log", "Sqrt", "Acosh", "Reciprocal")
_ANY = (
    *("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Exp", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh"),
    *("Tanh", "Erf", "Sigmoid", "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "Mish", "HardSigmoid"),
    *("HardSwish", "Softplus", "Softsign", "ThresholdedRelu", "IsNaN", "IsInf"),
)

for _label, _shape in _SIZES.items():
    for _name in _ANY:
        case(_name, floats(*_shape, low=-4, high=4), label=_label)
    for _name in _UNIT:
        case(_name, floats(*_shape, low=-0.99, high=0.99), label=_label)
    for _name in _POSITIVE:
        case(_name, floats(*_shape, low=1.0, high=5), label=_label)
    for _name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"):
        case(_name, floats(*_shape), floats(*_shape, low=0.5, high=2), label=_label)
    for _name in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        case(_name, floats(*_shape), floats(*_shape), label=_label)
    for _name in ("And", "Or", "Xor"):
        case(_name, *[integers(*_shape, high=2, dtype="bool")] * 2, label=_label)
    for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        case(_name, *[integers(*_shape, dtype="int32")] * 2, label=_label)
    case("Not", integers(*_shape, high=2, dtype="bool"), label=_label)
    case("Pow", floats(*_shape, low=0.1, high=2), floats(*_shape), label=_label)
    case("Pow", floats(*_shape), label=f"by 3, {_label}", constants={1: lambda _: np.float32(3)})
    case("Mod", floats(*_shape, low=1, high=9), floats(*_shape, low=1, high=3), label=_label, fmod=1)
    case("Mod", integers(*_shape), integers(*_shape, low=1, high=9), label=f"int64, {_label}")
    case("Div", integers(*_shape), integers(*_shape, low=1, high=9), label=f"int64, {_label}")
    case("BitShift", *[integers(*_shape, high=8, dtype="uint32")] * 2, label=_label, direction="LEFT")
    case("Add", floats(*_shape), label=f"a row, {_label}", constants={1: floats(_shape[1])})
    case("Mul", floats(*_shape), label=f"a column, {_label}", constants={1: floats(_shape[0], 1)}, free=())
    case("Add", floats(*_shape), label=f"a number, {_label}", constants={1: floats()})
    case("Sum", *[floats(*_shape)] * 3, label=_label)
    case("Mean", *[floats(*_shape)] * 3, label=_label)
    case("Clip", floats(*_shape), label=_label, constants={1: lambda _: np.float32(-0.5), 2: lambda _: np.float32(0.5)})
    case("Where", integers(*_shape, high=2, dtype="bool"), floats(*_shape), floats(*_shape), label=_label)
    for _from, _to in (("float32", "INT32"), ("float32", "FLOAT16"), ("int64", "FLOAT"), ("float32", "BOOL")):
        _made = (integers if _from == "int64" else floats)(*_shape, dtype=_from)
        case("Cast", _made, label=f"{_from} to {_to.lower()}, {_label}", to=getattr(TensorProto, _to))
    case("Cast", floats(*_shape, dtype="float16"), label=f"float16 to float, {_label}", to=TensorProto.FLOAT)
    _scale = {1: lambda _: np.float32(0.02), 2: lambda _: np.uint8(128)}
    case("QuantizeLinear", floats(*_shape), label=_label, constants=_scale)
    case("DequantizeLinear", integers(*_shape, high=256, dtype="uint8"), label=_label, constants=_scale)
    case("DynamicQuantizeLinear", floats(*_shape), label=_label, outputs=3)
    case("com.microsoft:FastGelu", floats(*_shape), label=_label)
    case("com.microsoft:BiasGelu", floats(*_shape), label=_label, constants={1: floats(_shape[1])})
