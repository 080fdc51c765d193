"""Scales along the channels of a tensor: found in a product, and laid along the axes of another tensor."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np

from ..._dataclasses import dataclass
from ..ir import Constant, Expr, RelayExpr, TensorType, is_call
from ..op.pointwise import is_move
from ..op.registry import build
from .known_type import type_of

__all__ = [
    "ChannelScale",
    "channel_axes",
    "is_as_large",
    "is_known",
    "is_nonzero",
    "is_positive",
    "kernel_axes",
    "last_axis",
    "lies_along",
    "scale_of",
    "scaled_weight",
    "static",
]


@dataclass(frozen=True, eq=False)
class ChannelScale:
    """Factors along axes of a tensor; a scalar has no axes.

    Parameters
    ----------
    vector : Expr
        The factors, with the scaled axes alone.
    axes : tuple of int
        The axes that they lie along.
    count : int
        The number of factors.
    factors : Expr
        The factors as the program has them.
    """

    vector: Any
    axes: tuple[int, ...]
    count: int
    factors: Any

    def along(self, axes: tuple[int, ...], shape: list[int]) -> Expr:
        """Return the factors with a shape that broadcasts to a tensor along axes of it."""
        if not self.axes:
            return self.vector
        if len(axes) == 1 and len(self.axes) == 1:
            after = len(shape) - 1 - axes[0]
            return build("expand_dims", self.vector, axis=1, num_newaxis=after) if after else self.vector
        return build("reshape", self.vector, newshape=[n if i in axes else 1 for i, n in enumerate(shape)])

    def fits(self, axes: tuple[int, ...], shape: list[int]) -> bool:
        """Say whether axes of a tensor hold as many elements as there are factors."""
        return not self.axes or prod(shape[a] for a in axes) == self.count


def static(expr: RelayExpr) -> list[Any]:
    """Return the shape of a tensor; no axes for what is none."""
    ty = type_of(expr)
    return list(ty.shape) if isinstance(ty, TensorType) else []


def _varying(shape: list[Any], rank: int) -> tuple[int, ...] | None:
    """Return the axes of a tensor of `rank` that an operand of a shape varies along, or None where it has more."""
    if len(shape) > rank or not all(isinstance(d, int) for d in shape):
        return None
    return tuple(rank - len(shape) + i for i, d in enumerate(shape) if d != 1)


def scale_of(factors: Expr, data: Expr, axes: tuple[int, ...]) -> ChannelScale | None:
    """Return an operand of a product as the scale of the other one along some axes of that.

    Parameters
    ----------
    factors : Expr
        The operand. It has the sizes of `data` along the axes and 1 along the others, or one element altogether.
    data : Expr
        The other operand, which must have known sizes along the axes.
    axes : tuple of int
        The axes along which what takes the scale has its channels.

    Returns
    -------
    ChannelScale or None
        None where `factors` is no such scale.
    """
    shape, own = static(data), static(factors)
    rank = len(shape)
    if not all(isinstance(shape[a], int) for a in axes) or _varying(own, rank) is None:
        return None
    before = rank - len(own)
    at = [a - before for a in axes]
    if all(a >= 0 and own[a] == shape[axis] for a, axis in zip(at, axes, strict=True)):
        kept = axes
    elif all(d == 1 for d in own):
        kept, at = (), []
    else:
        return None
    dropped = [i for i in range(len(own)) if i not in at]
    if any(own[i] != 1 for i in dropped):
        return None
    vector = build("squeeze", factors, axis=dropped) if dropped else factors
    return ChannelScale(vector, kept, prod(shape[a] for a in kept), factors)


def scaled_weight(weight: Expr, scale: ChannelScale, axes: tuple[int, ...]) -> Expr | None:
    """Return a weight times a scale along axes of it, or None where these hold another number of elements."""
    shape = static(weight)
    if not all(isinstance(d, int) for d in shape) or not scale.fits(axes, shape):
        return None
    return build("multiply", weight, scale.along(axes, shape))


def is_as_large(part: RelayExpr, whole: RelayExpr) -> bool:
    """Say whether two tensors have the same shape."""
    return [str(d) for d in static(part)] == [str(d) for d in static(whole)]


def last_axis(expr: RelayExpr) -> tuple[int, ...]:
    """Return the last axis of a tensor, along which dense layers have their channels."""
    return (len(static(expr)) - 1,)


def lies_along(operand: Expr, axes: tuple[int, ...], rank: int) -> bool:
    """Say whether an operand varies along no other axes of a tensor than these."""
    varying = _varying(static(operand), rank)
    return varying is not None and set(varying) <= set(axes)


def channel_axes(layout: str) -> tuple[int, ...]:
    """Return the axes of the channels in a data layout: 1 and 4 of ``NCHW4c``."""
    return _named(layout, "C")


def kernel_axes(layout: str, letter: str) -> tuple[int, ...]:
    """Return the axes of the input (``"I"``) or output (``"O"``) channels in a kernel layout."""
    return _named(layout, letter)


def _named(layout: str, letter: str) -> tuple[int, ...]:
    axes = re.findall(r"\d*[A-Za-z]", layout)
    return tuple(i for i, axis in enumerate(axes) if axis[-1].upper() == letter)


def is_known(weight: RelayExpr, scale: ChannelScale) -> bool:
    """Say whether a weight and a scale are constants, perhaps with their elements in another order or shape."""
    return _constant(weight) is not None and _constant(scale.factors) is not None


def is_positive(expr: RelayExpr) -> bool:
    """Say whether an expression is a constant whose elements are all greater than zero."""
    value = _constant(expr)
    return value is not None and bool(np.all(value > 0))


def is_nonzero(expr: RelayExpr) -> bool:
    """Say whether an expression is a constant without zeros."""
    value = _constant(expr)
    return value is not None and bool(np.all(value != 0))


def _constant(expr: RelayExpr) -> np.ndarray | None:
    """Return the elements of a constant, perhaps in another order or shape."""
    while is_move(expr) or is_call(expr, "broadcast_to"):
        expr = expr.args[0]
    return expr.data.numpy() if isinstance(expr, Constant) else None
