"""Reductions over axes, and sums along one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..outcome import Outcome
from ..ranks import by_length
from ..registry import converter
from ..run_time_axes import along_last, over_last
from .elementwise import binary

Reduction = Callable[[Context, Expr, list[int], bool], Expr]


def _reduction(op_type: str, function: Reduction, axes_are_input_since: int = 18) -> None:
    @converter(op_type)
    def by_attribute(ctx: Context, x: Expr, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Expr:
        return _over(ctx, x, axes, bool(keepdims), function)

    @converter(op_type, since=axes_are_input_since)
    def by_input(
        ctx: Context, x: Expr, axes: Expr | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Expr | Outcome:
        chosen = _known_axes(ctx, x, axes)
        if chosen is None:
            assert axes is not None
            rows: Callable[[Expr], Expr] = lambda matrix: function(ctx, matrix, [1], False)  # noqa: E731

            def over(given: Expr) -> Expr:
                return over_last(ctx, x, given, bool(keepdims), bool(noop_with_empty_axes), rows)

            return over(axes) if keepdims else by_length(ctx, axes, range(ctx.rank(x) + 1), "the number of axes", over)
        if not chosen and noop_with_empty_axes:
            return function(ctx, x, [], True)
        return _over(ctx, x, chosen, bool(keepdims), function)


def _known_axes(ctx: Context, x: Expr, axes: Expr | None) -> list[int] | None:
    """Return the axes, none for all of them; None if they are not known at import."""
    if axes is None or ctx.shape(axes) == [0] or ctx.rank(x) == 0:
        return []
    value = ctx.static(axes)
    if value is not None:
        return [int(a) for a in value.ravel()]
    # As many axes as there are dimensions are all of them.
    return list(range(ctx.rank(x))) if ctx.shape(axes) == [ctx.rank(x)] else None


def _over(ctx: Context, x: Expr, axes: Sequence[int] | None, keepdims: bool, function: Reduction) -> Expr:
    rank = ctx.rank(x)
    chosen = [ctx.axis(a, rank) for a in axes] if axes else list(range(rank))
    return function(ctx, x, chosen, keepdims)


def _log_sum_exp(ctx: Context, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    """Return log(sum(exp(x))), with the largest element taken out so that nothing overflows."""
    if not axes:
        return x
    largest = relay.max(x, axes, True)
    finite = relay.where(relay.isfinite(largest), largest, ctx.constant(0, ctx.dtype(x)))
    total = relay.sum(relay.exp(relay.subtract(x, finite)), axes, True)
    result = relay.add(relay.log(total), finite)
    return result if keepdims else relay.squeeze(result, axes)


_reduction("ReduceSum", lambda ctx, x, axes, keep: relay.sum(x, axes, keep) if axes else x, axes_are_input_since=13)
_reduction("ReduceMean", lambda ctx, x, axes, keep: relay.mean(x, axes, keep) if axes else x)
_reduction("ReduceMax", lambda ctx, x, axes, keep: relay.max(x, axes, keep) if axes else x)
_reduction("ReduceMin", lambda ctx, x, axes, keep: relay.min(x, axes, keep) if axes else x)
_reduction("ReduceProd", lambda ctx, x, axes, keep: relay.prod(x, axes, keep) if axes else x)
_reduction("ReduceL1", lambda ctx, x, axes, keep: _sum(relay.abs(x), axes, keep))
_reduction("ReduceL2", lambda ctx, x, axes, keep: _root(ctx, _sum(relay.multiply(x, x), axes, keep)))
_reduction("ReduceSumSquare", lambda ctx, x, axes, keep: _sum(relay.multiply(x, x), axes, keep))
_reduction("ReduceLogSum", lambda ctx, x, axes, keep: relay.log(_sum(x, axes, keep)))
_reduction("ReduceLogSumExp", _log_sum_exp)


def _root(ctx: Context, x: Expr) -> Expr:
    """Return the square root; of integers, without its fraction."""
    dtype = ctx.dtype(x)
    if dtype.startswith(("float", "bfloat")):
        return relay.sqrt(x)
    return relay.cast(relay.sqrt(relay.cast(x, "float64")), dtype)


def _sum(x: Expr, axes: list[int], keepdims: bool) -> Expr:
    return relay.sum(x, axes, keepdims) if axes else x


def _arg_reduction(op_type: str, name: str) -> None:
    @converter(op_type)
    def convert(ctx: Context, x: Expr, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Expr:
        at = ctx.axis(axis, ctx.rank(x))
        function = relay.argmax if name == "argmax" else relay.argmin
        found = function(x, axis=[at], keepdims=bool(keepdims), select_last_index=bool(select_last_index))
        return relay.cast(found, "int64")


_arg_reduction("ArgMax", "argmax")
_arg_reduction("ArgMin", "argmin")


def _running(op_type: str, since: int, scan: Callable[..., Expr]) -> None:
    @converter(op_type, since=since)
    def convert(ctx: Context, x: Expr, axis: Expr, *, exclusive: int = 0, reverse: int = 0) -> Expr:
        def along(at: int, values: Expr) -> Expr:
            if reverse:
                values = relay.reverse(values, at)
            total = scan(values, axis=at, dtype=ctx.dtype(x), exclusive=bool(exclusive))
            return relay.reverse(total, at) if reverse else total

        rank, known = ctx.rank(x), ctx.scalar(axis)
        if known is None and rank > 1:
            return along_last(ctx, x, axis, lambda values: along(rank - 1, values))
        return along(ctx.axis(int(known or 0), rank), x)


_running("CumSum", 11, relay.cumsum)
_running("CumProd", 26, relay.cumprod)


@converter("LpNormalization")
def lp_normalization(ctx: Context, x: Expr, *, axis: int = -1, p: int = 2) -> Expr:
    axes = [ctx.axis(axis, ctx.rank(x))]
    powers = relay.abs(x) if p == 1 else relay.multiply(x, x)
    norm = relay.sum(powers, axes, True) if p == 1 else relay.sqrt(relay.sum(powers, axes, True))
    zero = ctx.constant(0, ctx.dtype(x))
    return relay.where(relay.equal(norm, zero), zero, relay.divide(x, norm))


@converter("MeanVarianceNormalization")
def mean_variance_normalization_of_images(
    ctx: Context, x: Expr, *, across_channels: int = 0, normalize_variance: int = 1
) -> Expr:
    """Until opset 8 the axes are those of all images and, if it is asked for, of all channels."""
    axes = [0, *([1] if across_channels else []), *range(2, ctx.rank(x))]
    if normalize_variance:
        return mean_variance_normalization(ctx, x, axes=axes)
    return relay.subtract(x, relay.mean(x, axes, True))


@converter("MeanVarianceNormalization", since=9)
def mean_variance_normalization(ctx: Context, x: Expr, *, axes: Sequence[int] = (0, 2, 3)) -> Expr:
    centred = relay.subtract(x, relay.mean(x, list(axes), True))
    deviation = relay.sqrt(relay.mean(relay.multiply(centred, centred), list(axes), True))
    return relay.divide(centred, binary(ctx, "add", deviation, 1e-9))
