"""Sums over segments, built from other operators."""

from __future__ import annotations

from ..ir.expr import Expr, const
from .registry import build

__all__ = ["segment_sum"]


def segment_sum(data: Expr, segment_ids: Expr, num_segments: int | Expr | None = None) -> Expr:
    """Return the sums of the rows of each segment.

    Parameters
    ----------
    data : Expr
        The rows, along the first dimension.
    segment_ids : Expr
        Integers of shape (n,): which segment each of the first n rows belongs to. A row of a segment that is not
        there, and rows after the first n, are in no sum.
    num_segments : int or Expr, optional
        How many segments there are, as a number or a tensor of shape (1,); by default the largest id and one more.
    """
    if num_segments is None:
        count = build("add", build("max", segment_ids, [0], True), build("cast_like", const([1]), segment_ids))
    else:
        count = const([num_segments]) if isinstance(num_segments, int) else num_segments
    count = build("cast", count, "int64")
    row = build("strided_slice", build("shape_of", data, "int64"), [1], [-1], slice_mode="size")
    sums = build("broadcast_to", build("cast_like", const(0), data), build("concatenate", [count, row], 0))
    # One id a row becomes one an element: (n,) to (n, 1, ...), and that is spread over the rows.
    column = build("concatenate", [const([-1], "int64"), build("ones_like", row)], 0)
    elements = build("concatenate", [build("shape_of", segment_ids, "int64"), row], 0)
    ids = build("broadcast_to", build("reshape", segment_ids, column), elements)
    return build("scatter_elements", sums, ids, data, 0, "add")
