"""Gradients of reductions."""

from __future__ import annotations

import math

from ...ir import Call, Expr, const
from ...op.reduce import reduced_axes
from .terms import call, gradient_of, number, tensor_type, zeros

__all__: list[str] = []


def _spread(made: Call, value: Expr) -> Expr:
    """Return what stands at the places of a reduction's result at those of its data, by broadcasting."""
    data = made.args[0]
    if not made.attrs.keepdims:
        for axis in reduced_axes(made.attrs, len(tensor_type(data).shape)):
            value = call("expand_dims", value, axis=axis)
    return call("broadcast_to_like", value, data)


def _count(made: Call) -> Expr:
    """Return how many elements a reduction joins, as a scalar of its data's type."""
    data = made.args[0]
    axes = reduced_axes(made.attrs, len(tensor_type(data).shape))
    sizes = [tensor_type(data).shape[axis] for axis in axes]
    if all(isinstance(size, int) for size in sizes):
        return number(math.prod(sizes), data)
    shape = call("take", call("shape_of", data), const(axes), axis=0)
    return call("cast_like", call("prod", shape), data)


@gradient_of("sum")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [_spread(made, grad)]


@gradient_of("mean")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [_spread(made, grad / _count(made))]


@gradient_of("max", "min")
def _(made: Call, grad: Expr) -> list[Expr]:
    data = made.args[0]
    is_it = call("equal", _spread(made, made), data)
    return [call("where", is_it, _spread(made, grad), zeros(data))]


@gradient_of("prod")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [_spread(made, grad * made) / made.args[0]]


@gradient_of("variance")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, mean = made.args
    count = _count(made)
    divisor = count - number(1.0, data) if made.attrs.unbiased else count
    of_data = number(2.0, data) * (data - mean) * _spread(made, grad / divisor)
    return [of_data, call("collapse_sum_like", -of_data, mean)]


@gradient_of("cumsum")
def _(made: Call, grad: Expr) -> list[Expr]:
    axis = 0 if made.attrs.axis is None else int(made.attrs.axis)
    turned = call("reverse", grad, axis=axis)
    summed = call("reverse", call("cumsum", turned, axis=axis, exclusive=bool(made.attrs.exclusive)), axis=axis)
    return [call("reshape_like", call("cast_like", summed, made.args[0]), made.args[0])]
