"""Constants of a few bits stay so where they are multiplied with, or looked up in."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._dataclasses import dataclass
from ..ir import Call, Constant, Expr, Function, RelayExpr, is_call
from ..op.nn.block_quantized import packed_codes, unpacked_codes
from ..op.registry import build
from .known_type import rewrite_typed, type_of
from .registry import ModuleTransform, per_function, relay_pass
from .share_constants import SharedConstants

__all__ = ["KeepBlockQuantized"]

_DEQUANTIZE, _DENSE = "nn.contrib_block_dequantize", "nn.contrib_block_quantized_dense"
# Of the inputs of an output that all share one scale: blocks that kernels read well.
_BLOCKS = (128, 64, 32, 16)
Array = np.ndarray[Any, Any]


@relay_pass(opt_level=1)
def KeepBlockQuantized() -> ModuleTransform:
    """Return the pass by which dense layers, and look-ups of rows, read constants of a few bits as they are.

    A dense layer with such a weight, transposed or not, becomes nn.contrib_block_quantized_dense, if the blocks along
    its inputs are of a multiple of 8. What is looked up in such a table is bytes, made floats then.
    """

    def on_function(function: Function) -> Function:
        shared = SharedConstants()

        def kept(node: RelayExpr) -> RelayExpr:
            if is_call(node, "nn.dense"):
                return _multiplied(node, shared)
            return _looked_up(node) if is_call(node, "take") else node

        return rewrite_typed(function, kept)

    return per_function(on_function)


@dataclass(frozen=True)
class _Weight:
    """A matrix of codes: of each output and input, and what they share.

    Attributes
    ----------
    codes : array
        (units, channels), uint8.
    scales, zeros : array
        Both broadcast to (units, blocks of channels); no zeros where all are the middle of the codes.
    bits, block : int
        Of a code; how many inputs share a scale.
    """

    codes: Array
    scales: Array
    zeros: Array | None
    bits: int
    block: int


def _weight(expr: Expr) -> _Weight | None:
    """Return the constant that an expression makes of codes, of two axes, and in floats; None for any other."""
    is_turned = False
    while is_call(expr, "transpose") or (is_call(expr, "cast") and _is_float(type_of(expr).dtype)):
        is_turned ^= expr.op.name == "transpose" and [int(a) % 2 for a in expr.attrs.axes or (1, 0)] == [1, 0]
        expr = expr.args[0]
    if not _is_dequantized(expr) or len(type_of(expr).shape) != 2:
        return None
    attrs, axis = expr.attrs, expr.attrs.axis % 2
    packed, *once = (arg.data.numpy() for arg in expr.args)
    arrays = [unpacked_codes(packed, attrs.bits), *once]
    if is_turned:
        arrays, axis = [array.T for array in arrays], 1 - axis
    codes, *once = arrays
    units, channels = codes.shape
    block = attrs.block_size
    if axis == 0:  # outputs share what they do: each is given its own
        once = [each if each.shape[0] == 1 else each.repeat(block, 0)[:units] for each in once]
    if axis == 0 or all(each.shape[1] == 1 for each in once):
        # One scale is that of blocks of any size: the largest of those that fill up least.
        block = min(_BLOCKS, key=lambda size: (-(-channels // size) * size, -size))
        if any(each.shape[1] != 1 for each in once):
            return None
    scales, *zeros = once
    if block % 8:
        return None
    # Rows of a table may have been too short for more than a code in a byte.
    bits = next(n for n in (2, 4, 8) if n == attrs.bits or codes.max(initial=0) < 1 << n)
    zero = zeros[0] if zeros else np.full((1, 1), 1 << (attrs.bits - 1), "uint8")
    return _Weight(codes, scales, None if np.all(zero == 1 << (bits - 1)) else zero, bits, block)


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def _is_dequantized(expr: RelayExpr) -> bool:
    return is_call(expr, _DEQUANTIZE) and all(isinstance(arg, Constant) for arg in expr.args)


def _multiplied(node: Call, shared: SharedConstants) -> RelayExpr:
    """Return a dense layer that reads its weight as it is; others as they are."""
    data, weight = node.args
    dtype, found = type_of(node).dtype, _weight(weight)
    if found is None or not _is_float(dtype):
        return node
    units, channels = found.codes.shape
    blocks = -(-channels // found.block)
    filled = np.zeros((units, blocks * found.block), "uint8")
    filled[:, :channels] = found.codes
    arrays = [packed_codes(filled.reshape(units, blocks, found.block), found.bits), found.scales]
    arrays += [] if found.zeros is None else [found.zeros]
    once = [np.ascontiguousarray(np.broadcast_to(each, (units, blocks))) for each in arrays[1:]]
    sizes = {"channels": channels, "units": units, "bits": found.bits, "block_size": found.block}
    x = data if type_of(data).dtype == "float32" else build("cast", data, dtype="float32")
    made = build(_DENSE, x, *(shared.const(each) for each in (arrays[0], *once)), **sizes)
    return made if dtype == "float32" else build("cast", made, dtype=dtype)


def _looked_up(node: Call) -> RelayExpr:
    """Return rows of a table of codes, which become floats when they are there; other look-ups as they are."""
    table, index = node.args
    if is_call(table, "cast"):
        moved = _looked_up(_with_types(Call(node.op, [table.args[0], index], node.attrs, span=node.span)))
        is_kept = is_call(moved, _DEQUANTIZE, "cast")
        return build("cast", moved, dtype=type_of(table).dtype) if is_kept else node
    attrs = node.attrs
    if not _is_dequantized(table) or attrs.axis is None or attrs.batch_dims:
        return node
    rank, of_index = len(type_of(table).shape), len(type_of(index).shape)
    at, along, block = attrs.axis % rank, table.attrs.axis % rank, table.attrs.block_size
    data, *once = table.args
    if at == along and all(type_of(each).shape[at] == 1 for each in once):
        along, block = rank - 1, 1  # no axis has blocks
    if at in (along, rank - 1):
        return node

    def rows(values: Expr) -> Expr:
        shape = [int(d) for d in type_of(values).shape]
        if shape[at] == 1 and not values.same_as(data):  # the one of all rows
            return build("reshape", values, newshape=[*shape[:at], *[1] * of_index, *shape[at + 1 :]])
        return _with_types(Call(node.op, [values, index], attrs, span=node.span))

    axis = along + (of_index - 1 if along > at else 0)
    return build(_DEQUANTIZE, *map(rows, table.args), bits=table.attrs.bits, axis=axis, block_size=block)


def _with_types(call: Call) -> Call:
    type_of(call)
    return call
