"""Sums over segments, built from other operators."""

from __future__ import annotations

from ..ir.expr import Call, Expr, const
from .registry import build

__all__ = ["segment_sum"]


def segment_sum(data: Expr, segment_ids: Expr, num_segments: int | Expr | None = None) -> Call:
    """Return the sums of the rows of a tensor that have the same number: ``out[ids[i]] += data[i]``.

    Parameters
    ----------
    data : Expr
        The rows, of any rank from 1 on.
    segment_ids : Expr
        A vector of integers, one a row; they need not be in order.
    num_segments : int or Expr, optional
        How many rows the result has: a number, or a vector of one; by default one more than the largest of the
        numbers. Rows that get nothing are 0.
    """
    if num_segments is None:
        count = build("reshape", build("max", segment_ids), [1]) + build("cast_like", const(1), segment_ids)
    else:
        count = const([num_segments]) if isinstance(num_segments, int) else num_segments
    row = build("strided_slice", build("shape_of", data, "int64"), begin=[1], end=[-1], slice_mode="size")
    shape = build("concatenate", [build("cast", count, dtype="int64"), row], axis=0)
    empty = build("zeros", shape, "float32")
    return build("scatter_nd", build("cast_like", empty, data), build("expand_dims", segment_ids, axis=0), data, "add")
