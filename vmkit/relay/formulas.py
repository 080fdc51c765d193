"""Functions that Relay has no operator for, written by those it has."""

from __future__ import annotations

import math

from .ir import Expr, const
from .op.registry import build

__all__ = ["gelu", "gelu_by_tanh", "whole_power"]


def gelu(x: Expr, dtype: str) -> Expr:
    """Return ``x / 2 * (1 + erf(x / sqrt(2)))`` of a tensor of a data type."""
    return _gated(x, build("erf", _times(x, math.sqrt(0.5), dtype)), dtype)


def gelu_by_tanh(x: Expr, dtype: str) -> Expr:
    """Return what approximates :func:`gelu` by a hyperbolic tangent of a cubic polynomial."""
    cube = whole_power(x, 3)
    assert cube is not None
    inner = build("add", x, _times(cube, 0.044715, dtype))
    return _gated(x, build("tanh", _times(inner, math.sqrt(2 / math.pi), dtype)), dtype)


def whole_power(x: Expr, exponent: float | None) -> Expr | None:
    """Return a square or a cube as a product; None of other powers.

    The library's function for powers takes numbers one by one.
    """
    if exponent not in (2, 3):
        return None
    square = build("multiply", x, x)
    return square if exponent == 2 else build("multiply", square, x)


def _gated(x: Expr, gate: Expr, dtype: str) -> Expr:
    return build("multiply", _times(x, 0.5, dtype), build("add", gate, const(1, dtype)))


def _times(x: Expr, factor: float, dtype: str) -> Expr:
    return build("multiply", x, const(factor, dtype))
