"""Boxes in kernels: how much two of them overlap, in which order scores put them, and checks of their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr, const
from ...ir.types import Dim, TensorType, Type
from ..elementwise import require_tensor
from ..kernel import grid, indexed
from ..nn.layout import require_rank
from ..sort import sorted_positions

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = [
    "area",
    "copy_row",
    "count_of",
    "descending",
    "fill_row",
    "number",
    "overlap",
    "overlap_of_sides",
    "require_boxes",
    "require_column",
    "require_columns",
    "require_scores",
    "same_dim",
    "scalar",
    "sides",
    "wider",
]


def number(value: float | Expr, dtype: str) -> Expr:
    """Return an argument that may be a number or an expression as an expression."""
    return value if isinstance(value, Expr) else const(value, dtype)


def scalar(buffer: tirx.Buffer, dtype: str) -> tirx.Expr:
    """Return the only element of a buffer of a kernel."""
    value = buffer[tuple([0] * len(buffer.shape))]
    return value if str(value.ty.dtype) == dtype else value.astype(dtype)


def require_boxes(ty: Type, rank: int, name: str, width: int | None = None) -> TensorType:
    """Return the type of a float tensor of a rank whose last dimension is `width`; TypeCheckError otherwise."""
    tensor = require_tensor(ty, name)
    require_rank(tensor, rank, name)
    if not tensor.dtype.startswith(("float", "bfloat")):
        raise TypeCheckError(f"{name} must be floats, not {tensor}")
    if width is not None and dims.equal(tensor.shape[-1], width) is False:
        raise TypeCheckError(f"the last dimension of {name} must be {width}, not {tensor.shape[-1]}: {tensor}")
    return tensor


def require_column(value: int, last: int, width: Dim, name: str) -> None:
    """Check that the columns from `value` to `last` exist in rows of a width, as far as the width is known."""
    if value < 0:
        raise TypeCheckError(f"{name} must not be negative, it is {value}")
    if dims.at_least(width, last + 1) is False:
        raise TypeCheckError(f"{name} is {value}, but a box has only {width} numbers")


def same_dim(actual: Dim, expected: Dim, what: str) -> None:
    """Check that two dimensions of inputs do not differ for certain."""
    if dims.equal(actual, expected) is False:
        raise TypeCheckError(f"{what}: {actual} and {expected}")


def count_of(value: tirx.Expr, limit: tirx.Expr) -> tirx.Expr:
    """Return a count that a tensor gives as one from 0 to `limit`: what lies outside would be read past the end."""
    return tirx.max(tirx.min(value.astype("int64"), limit), tirx.const(0, "int64"))


def overlap(a: Sequence[tirx.Expr], b: Sequence[tirx.Expr]) -> tirx.Expr:
    """Return the intersection over union of two boxes of a kernel, each given by two opposite corners.

    It is 0 where the union has no area.
    """
    a, b = sides(a), sides(b)
    return T.bind(overlap_of_sides(a, b, area(a), area(b)))


def overlap_of_sides(a: Sequence[tirx.Expr], b: Sequence[tirx.Expr], area_a: tirx.Expr, area_b: tirx.Expr) -> tirx.Expr:
    """Return what `overlap` does of boxes whose `sides` and areas are known."""
    zero = tirx.const(0, str(a[0].ty.dtype))
    (al, at, ar, ab), (bl, bt, br, bb) = a, b
    width = tirx.max(zero, tirx.min(ar, br) - tirx.max(al, bl))
    height = tirx.max(zero, tirx.min(ab, bb) - tirx.max(at, bt))
    both = T.bind(height * width)
    union = T.bind(area_a + area_b - both)
    return tirx.Select(union <= zero, zero, both / union)


def area(box: Sequence[tirx.Expr]) -> tirx.Expr:
    """Return the area of a box given by its `sides`."""
    left, top, right, bottom = box
    return (right - left) * (bottom - top)


def sides(box: Sequence[tirx.Expr]) -> list[tirx.Expr]:
    """Return the lower and the higher coordinates of a box given by two opposite corners."""
    x0, y0, x1, y1 = box
    return [T.bind(v) for v in (tirx.min(x0, x1), tirx.min(y0, y1), tirx.max(x0, x1), tirx.max(y0, y1))]


def descending(
    context: LowerContext,
    scores: relax.Expr,
    shape: Sequence[Dim],
    read: Callable[..., tuple[tirx.Expr, tirx.Expr | None]],
    *more: relax.Expr,
    axis: int = -1,
) -> relax.Expr:
    """Return the positions that order scores from the highest; equal ones keep their order, NaN comes last.

    Parameters
    ----------
    context : LowerContext
        Where the kernel goes.
    scores : relax.Expr
        The tensor that holds the scores.
    shape : sequence of dimensions
        The shape of the scores that are ordered.
    read : callable
        ``read(index, scores, *more)`` gives the score at an index, and whether it counts (None: always); what does
        not count comes last.
    *more : relax.Expr
        What `read` needs beside the scores.
    axis : int
        The axis to order along.
    """
    dtype = str(scores.ty.dtype)
    wide = "float64" if dtype == "float64" else "float32"

    def element(index: tuple[tirx.Expr, ...], *tensors: te.Tensor) -> tirx.Expr:
        score, counts = read(index, *tensors)
        score = score.astype(wide)
        keeps = tirx.Not(tirx.isnan(score))
        if counts is not None:
            keeps = tirx.all(keeps, counts)
        return tirx.Select(keeps, score, tirx.const(float(-np.inf), wide))

    keys = indexed(context, shape, element, scores, *more, name="scores")
    return sorted_positions(context, keys, axis, False, "int32")


def wider(a: str, b: str) -> str:
    """Return the data type in which numbers of two data types are compared."""
    return "float64" if "float64" in (a, b) else "float32"


def require_columns(context: LowerContext, width: tirx.Expr | int, *last: int) -> None:
    """Check at run time that boxes have the columns that are read."""
    if not isinstance(width, int):
        name, needed = context.operator, max(last) + 1
        context.require(width >= needed, f"{name}: the attributes name {needed} numbers of a box, which has fewer")


def fill_row(boxes: tirx.Buffer, i: tirx.Expr, j: tirx.Expr, width: tirx.Expr | int) -> None:
    """Write -1 to every number of a box of a kernel."""
    with grid([width]) as (k,):
        T.buffer_store(boxes, tirx.const(-1, str(boxes.dtype)), [i, j, k])


def copy_row(
    target: tirx.Buffer,
    to: Sequence[tirx.Expr],
    source: tirx.Buffer,
    at: Sequence[tirx.Expr],
    width: tirx.Expr,
) -> None:
    """Copy every number of the box at `at` (image, row) of a source to the box at `to` of a target."""
    (i, j), (image, row) = to, at
    with grid([width]) as (k,):
        T.buffer_store(target, source[image, row, k], [i, j, k])


def require_scores(context: LowerContext, boxes: list[Dim], scores: list[Dim], batch: int, count: int) -> None:
    """Check at run time that boxes and scores belong together; `batch`, `count`: where the scores have these sizes."""
    name = context.operator
    context.require_equal(boxes[2], 4, f"{name}: a box has {{expected}} numbers, not {{actual}}")
    context.require_equal(
        scores[batch], boxes[0], f"{name}: the batches differ: {{actual}} of scores and {{expected}} of boxes"
    )
    context.require_equal(
        scores[count], boxes[1], f"{name}: there are scores of {{actual}} boxes and {{expected}} boxes"
    )
