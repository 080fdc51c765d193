"""Operators that move elements, of whatever type."""

from __future__ import annotations

import math
from typing import Any

from tvm import ir, tirx

from ...relay.ir import Constant, Expr, Tuple, const
from ...relay.op.registry import build, entry
from .operands import Convert, Operands, ints, shape_of

__all__ = ["MOVES"]

_FEW = 1 << 12  # elements of a constant that is as well made here


def _concatenated(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    axis = call.attrs.axis
    return None if axis is None else build("concatenate", Tuple(args[0]), axis=int(axis))


def _stacked(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build("stack", Tuple(args[0]), axis=int(call.attrs.axis or 0))


def _transposed(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build("transpose", *args, axes=None if call.attrs.axes is None else ints(call.attrs.axes))


def _reshaped(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    data, shape = args
    is_known = isinstance(data, Constant) and all(isinstance(size, int) for size in shape)
    if is_known and math.prod(data.data.shape) <= _FEW:
        return const(data.data.numpy().reshape(shape))  # what passes look at, such as scales, is seen to be known
    return build("reshape", data, shape, allowzero=True)


def _flattened(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build("reshape", *args, [-1])


def _squeezed(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    axis = call.attrs.axis
    return None if axis is None else build("squeeze", *args, axis=ints(axis))


def _expanded(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    (data,) = args
    rank = len(shape_of(call.args[0])) + len(call.attrs.axis)
    for axis in sorted(a % rank for a in ints(call.attrs.axis)):
        data = build("expand_dims", data, axis)
    return data


def _sliced(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    data, axes, begin, end = args[:4]
    strides = args[4] if len(args) > 4 else [1] * len(axes)
    numbers = [*axes, *begin, *end, *strides]
    if not all(isinstance(each, int) for each in numbers) or min(strides, default=1) < 1:
        return None
    return build("strided_slice", data, begin, end, strides=strides, axes=axes)


def _split(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    parts, axis = call.attrs.indices_or_sections, int(call.attrs.axis)
    extent = shape_of(call.args[0])[axis]
    if not isinstance(extent, tirx.IntImm):
        return None
    if isinstance(parts, tirx.IntImm | int):
        asked: Any = int(parts)
        is_same = int(extent) % asked == 0  # the last part is smaller in Relax
    else:
        asked = ints(parts)
        is_same = asked == sorted(asked) and all(0 <= cut <= int(extent) for cut in asked)  # or refused, by Relax
    return entry("split").call(*args, indices_or_sections=asked, axis=axis) if is_same else None


def _broadcast(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    data, shape = args
    return build("broadcast_to", data, shape)


def _tiled(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build("tile", *args, ints(call.attrs.repeats))


def _padded(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    a = call.attrs
    if a.pad_mode != "constant":
        return None
    width = ints(a.pad_width)
    pairs = [width[at : at + 2] for at in range(0, len(width), 2)]
    return build("nn.pad", *args, pad_width=pairs, pad_value=float(a.pad_value))


MOVES: dict[str, Convert] = {
    "relax.broadcast_to": _broadcast,
    "relax.concat": _concatenated,
    "relax.expand_dims": _expanded,
    "relax.flatten": _flattened,
    "relax.nn.pad": _padded,
    "relax.permute_dims": _transposed,
    "relax.reshape": _reshaped,
    "relax.split": _split,
    "relax.squeeze": _squeezed,
    "relax.stack": _stacked,
    "relax.strided_slice": _sliced,
    "relax.tile": _tiled,
}
