"""Distinct elements, determinants, and caches that are written to."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Dim, Expr, TupleGetItem, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..run_time_axes import shape_vector
from .layout import to_shape


@converter("Unique", since=11)
def unique(ctx: Context, x: Expr, *, axis: int | None = None, sorted: int = 1) -> list[Expr]:
    """Rows of a matrix are compared: the elements, or the slices along the axis."""
    if axis is None:
        x = relay.reshape(x, [-1]) if ctx.rank(x) != 1 else x
        axis = 0
    at, rank = ctx.axis(axis, ctx.rank(x)), ctx.rank(x)
    # Texts are ordered by their places in the alphabet.
    keys = build("contrib_string_order", x) if ctx.dtype(x) == "string" else x
    first = keys if at == 0 else relay.transpose(keys, [at, *(k for k in range(rank) if k != at)])
    found = build("contrib.unique_rows", _rows(ctx, x, first, at), bool(sorted)).astuple()
    positions, inverse, counts = (TupleGetItem(found, k) for k in range(3))
    return [relay.take(x, positions, axis=at), positions, inverse, counts]


def _rows(ctx: Context, x: Expr, first: Expr, axis: int) -> Expr:
    """Return a tensor as a matrix that has a row for each slice along its first dimension."""
    shape = ctx.shape(x)
    rest: list[Dim] = [d for k, d in enumerate(shape) if k != axis]
    if not any(dims.is_any(d) for d in shape):
        return to_shape(first, [shape[axis], dims.product(rest)])
    vector = shape_vector(ctx, x)
    count = relay.strided_slice(vector, [axis], [axis + 1], [1])
    others = ctx.constant([k for k in range(len(shape)) if k != axis], "int64")
    columns = relay.reshape(relay.prod(relay.take(vector, others, axis=0)), [1])
    return relay.reshape(first, relay.concatenate([count, columns], 0), allowzero=True)


@converter("Det", since=11)
def determinant(ctx: Context, x: Expr) -> Expr:
    return build("contrib.det", x)
