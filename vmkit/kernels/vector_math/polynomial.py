"""Polynomials as arithmetic of float32, or of float64."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from ..builder import constant, let

__all__ = ["odd_polynomial", "or_small", "polynomial", "with_sign_of"]


def polynomial(coefficients: Sequence[float], x: tirx.Expr) -> tirx.Expr:
    """Return a polynomial in the type of its argument, the coefficient of the constant first."""
    dtype = str(x.ty.dtype)
    total = constant(coefficients[-1], dtype)
    for c in reversed(coefficients[:-1]):
        total = total * x + constant(c, dtype)
    return total


def odd_polynomial(coefficients: Sequence[float], x: tirx.Expr, square: tirx.Expr) -> tirx.Expr:
    """Return ``x + x * square * polynomial(square)``: what is near x keeps all of its digits."""
    return x + x * square * polynomial(coefficients, square)


def or_small(x: tirx.Expr, value: tirx.Expr) -> tirx.Expr:
    """Return a value of x, or x where its square is less than the last digit of 1: the sign of zero stays."""
    return tirx.Select(tirx.abs(x) < constant(2.0**-12), x, value)


def with_sign_of(x: tirx.Expr, value: tirx.Expr) -> tirx.Expr:
    """Return a value, or minus the value where x is negative."""
    return let(value, lambda v: tirx.Select(x < constant(0.0), constant(0.0) - v, v))
