"""Transposed convolutions cut to sizes that are known at run time only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..run_time_axes import as_vector, pinned, shape_vector
from ..typing import typed
from ..window import Window

__all__ = ["cut_to_size", "pads_of_same_size", "without_pads"]


def cut_to_size(ctx: Context, whole: Expr, wanted: Sequence[int], is_upper: bool) -> Expr:
    """Return a transposed convolution without padding, cut to sizes of its spatial axes, or with zeros behind.

    Of an odd number of elements that are cut off, one more goes in front; behind where `is_upper`.
    """
    typed(whole)
    rank, have = len(wanted), ctx.shape(whole)[2:]
    zero, odd = ctx.constant(0, ctx.dtype(whole)), 0 if is_upper else 1
    pairs: Any = [[0, 0], [0, 0]]
    if any(dims.is_any(d) for d in have):
        nothing = ctx.constant([0] * (2 + rank), "int64")
        missing = relay.subtract(ctx.constant([0, 0, *wanted], "int64"), shape_vector(ctx, whole))
        pairs = relay.stack([nothing, relay.maximum(missing, nothing)], 1)
    else:
        pairs += [[0, dims.maximum(dims.sub(w, d), 0)] for d, w in zip(have, wanted, strict=True)]
    # Positions are read at run time: as expressions over sizes, those of the kernel would take long to simplify.
    padded = typed(relay.nn.pad(whole, pairs, zero))
    sizes = relay.strided_slice(shape_vector(ctx, padded), [2], [2 + rank], [1])
    target = ctx.constant(list(wanted), "int64")
    cut = relay.add(relay.subtract(sizes, target), ctx.constant(odd, "int64"))
    begin = relay.floor_divide(cut, ctx.constant(2, "int64"))
    part = typed(_sliced(ctx, padded, begin, relay.add(begin, target)))
    return pinned(ctx, part, [*ctx.shape(whole)[:2], *wanted])


def pads_of_same_size(ctx: Context, weight: Expr, window: Window, extra: Sequence[int]) -> Expr:
    """Return the pads, all in front, then behind, by which a result is as long as the data times the stride.

    For a kernel whose size is known at run time only; `extra` is what is added behind each axis.
    """
    rank, zero, one = len(extra), ctx.constant(0, "int64"), ctx.constant(1, "int64")
    kernel = relay.strided_slice(shape_vector(ctx, weight), [2], [2 + rank], [1])
    reach = relay.multiply(relay.subtract(kernel, one), ctx.constant(window.spread(rank), "int64"))
    more = [1 + e - step for e, step in zip(extra, window.steps(rank), strict=True)]
    total = relay.maximum(relay.add(reach, ctx.constant(more, "int64")), zero)
    return relay.concatenate(window.halves_at_run_time(ctx, total), 0)


def without_pads(ctx: Context, whole: Expr, pads: Expr) -> Expr:
    """Return a transposed convolution without padding, less the pads that a tensor says: all in front, then behind."""
    typed(whole)
    rank, values = ctx.rank(whole) - 2, as_vector(ctx, pads)
    sizes = relay.strided_slice(shape_vector(ctx, whole), [2], [2 + rank], [1])
    before, after = (relay.strided_slice(values, [i * rank], [(i + 1) * rank], [1]) for i in (0, 1))
    end = relay.subtract(sizes, after)
    is_within = relay.all(relay.greater_equal(values, ctx.constant(0, "int64")))
    fits = relay.logical_and(is_within, relay.all(relay.less_equal(before, end)))
    message = f"{ctx.node.op_type}: Pads are negative, or cut off more than the whole result"
    begin = build("dyn.require", before, fits, message=message)
    part = typed(_sliced(ctx, whole, begin, end))
    return pinned(ctx, part, [*ctx.shape(whole)[:2], *[AnyDim()] * rank])


def _sliced(ctx: Context, x: Expr, begin: Expr, end: Expr) -> Expr:
    """Return a part of the spatial axes between positions read at run time."""
    first, last = ctx.constant([0, 0], "int64"), relay.strided_slice(shape_vector(ctx, x), [0], [2], [1])
    begins, ends = relay.concatenate([first, begin], 0), relay.concatenate([last, end], 0)
    return relay.strided_slice(x, begins, ends, ctx.constant([1] * ctx.rank(x), "int64"))
