"""Weights that are integers of 8 bits but for a number that is added to all of an output's: a zero point."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..relay.ir import Call, Expr, const
from ..relay.op.registry import build
from ..relay.transform.known_type import type_of
from ..relay.transform.layout_rules import with_attrs

__all__ = ["offset_weight", "window_sums"]

_LOW, _HIGH = -128, 127


def offset_weight(weight: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Return integers as int8 and what is to be added to those of each output, one number where one will do.

    None where the integers of an output are too far apart for that.

    Parameters
    ----------
    weight : array
        Integers, (units, ...).

    >>> offset_weight(np.array([[-3, 200], [-40, 90]]))
    (array([[ -76,  127],
           [-113,   17]], dtype=int8), array(73, dtype=int32))
    """
    offset: int | list[int] | None = _offset(int(weight.min(initial=0)), int(weight.max(initial=0)))
    if offset is None:
        lows, highs = (extreme(axis=tuple(range(1, weight.ndim)), initial=0) for extreme in (weight.min, weight.max))
        each = [_offset(low, high) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
        offset = [number for number in each if number is not None]
        if len(offset) < len(each):
            return None
    added = np.array(offset, "int32")
    by_unit = added.astype(np.promote_types(weight.dtype, "int16")).reshape(-1, *[1] * (weight.ndim - 1))
    return (weight - by_unit).astype("int8"), added


def _offset(low: int, high: int) -> int | None:
    """Return the least number by which a range lies off int8; None where it is too wide for that."""
    offset = max(high - _HIGH, 0) or min(low - _LOW, 0)
    return offset if low - offset >= _LOW and high - offset <= _HIGH else None


def window_sums(call: Call, x: Expr, zero: Expr | None) -> Expr:
    """Return the sums of integers less a number, int32, over what each output of a product is computed from.

    Parameters
    ----------
    call : Call
        A dense layer, or a convolution in one group over channels-last data.
    x, zero
        Integers of 8 bits, and the int32 to be subtracted from each of them, None for 0; around them are zeros.

    Returns
    -------
    Expr
        Of the shape of the product, with one channel.
    """
    channels = type_of(x).shape[-1]
    sums = build("sum", build("cast", x, dtype="int32"), axis=[-1], keepdims=True)
    if zero is not None:
        sums = build("subtract", sums, build("multiply", zero, const(np.int32(channels))))
    attrs = call.attrs
    if call.op.name == "nn.dense":
        return sums
    # Calls need not say how large their windows are.
    sizes = [
        int(size)
        for letter, size in zip(attrs.kernel_layout, type_of(call.args[1]).shape, strict=True)
        if letter not in "OI"
    ]
    if prod(sizes) == 1 and not any(map(int, attrs.padding)) and prod(map(int, attrs.strides)) == 1:
        return sums
    kernel = iter(sizes)
    ones = np.ones([1 if letter in "OI" else next(kernel) for letter in attrs.kernel_layout], "int32")
    result = Call(call.op, [sums, const(ones)], with_attrs(call, channels=1), span=call.span)
    type_of(result)
    return result
