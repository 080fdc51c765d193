"""Quantised functions of one number, by tables: an 8-bit tensor has only 256 different elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.expr import Expr, const
from ...ir.types import TensorType, Type
from ..registry import OpPattern, build, operator
from .parameters import Quantization, require_dtype, require_one
from .quantize import dequantized, quantized

__all__ = ["PARAMETERS", "require_quantized"]

PARAMETERS = ("scale", "zero_point", "output_scale", "output_zero_point")


def require_quantized(dtypes: Sequence[str], data: Type, parameters: Sequence[Type]) -> TensorType:
    """Return the type of a quantised tensor that comes with one scale and zero point, and as many of the result."""
    source = require_dtype(data, dtypes, "x")
    require_one(**dict(zip(PARAMETERS, parameters, strict=True)))
    return source


def _canonical(
    function: Callable[[np.ndarray], np.ndarray],
    expression: Callable[[Expr], Expr],
    args: Sequence[Expr],
    types: Sequence[TensorType],
) -> Expr:
    """Return the elements of a table; its arguments are all patterns of 8 bits, in the order of unsigned integers."""
    dtype = types[0].dtype
    source, wanted = (Quantization.of(args, types, k) for k in (1, 3))
    scale, zero_point = source.scale.constant, source.zero_point.constant
    patterns = np.arange(256, dtype="uint8").view(dtype)
    if scale is not None and zero_point is not None:
        with np.errstate(all="ignore"):
            reals: Expr = const(function((patterns.astype("int32") - zero_point).astype("float32") * scale))
    else:
        reals = expression(dequantized(const(patterns), 1, source))
    table = quantized(reals, 1, wanted, dtype)
    index = args[0] if dtype == "uint8" else build("reinterpret", args[0], dtype="uint8")
    return build("take", table, index, axis=0, mode="fast")


def _register(
    name: str, function: Callable[[np.ndarray], np.ndarray], doc: str, expression: Callable[[Expr], Expr] | None = None
) -> None:
    """Register a function, given in numpy and, where Relay has no operator of its name, as an expression."""
    full, operator_name = f"qnn.{name}", name

    def canonicalize(attrs: None, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        return _canonical(function, expression or (lambda x: build(operator_name, x)), args, types)

    body: dict[str, Any] = {
        "__doc__": doc,
        "relation": staticmethod(lambda attrs, data, *given: require_quantized(("int8", "uint8"), data, given)),
        "canonicalize": staticmethod(canonicalize),
    }
    operator(full, "x", *PARAMETERS, level=11, pattern=OpPattern.ELEMWISE)(type(name, (), body))


def _hardswish(x: Expr) -> Expr:
    inner = build("clip", x + const(3.0), a_min=0.0, a_max=6.0)
    return x * inner / const(6.0)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(v) for v in x], "float32")


_register("abs", np.abs, "Quantised absolute value.")
_register("erf", _erf, "Quantised Gauss error function.")
_register("exp", np.exp, "Quantised exponential.")
_register(
    "hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, "Quantised x * clip(x + 3, 0, 6) / 6.", expression=_hardswish
)
_register("log", np.log, "Quantised natural logarithm.")
_register("rsqrt", lambda x: 1 / np.sqrt(x), "Quantised reciprocal of the square root.")
_register("sigmoid", lambda x: 1 / (1 + np.exp(-x)), "Quantised logistic function.")
_register("sqrt", np.sqrt, "Quantised square root.")
_register("tanh", np.tanh, "Quantised hyperbolic tangent.")
