"""Variances of PyTorch, and what is normalised by them, over axes whose sizes only a run knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...relay.ir import dims
from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of, refused
from .formulas import formula_of
from .products import summed_in, widened

if TYPE_CHECKING:
    from torch import fx

__all__ = ["STATISTICS", "layered"]


def _variance(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return sums of squared distances from the mean, by their number less a correction, which by default is 1."""
    data, axes, correction, keepdims = arguments_of(node)
    value, emit = importer.env[data], importer.block_builder.emit
    chosen = [a % value.ty.ndim for a in axes or range(value.ty.ndim)]
    apart = emit(relax.op.subtract(value, emit(relax.op.mean(value, axis=chosen, keepdims=True))))
    squares = emit(relax.op.sum(emit(relax.op.multiply(apart, apart)), axis=chosen, keepdims=keepdims))
    less = 1.0 if correction is None else float(correction)

    def kernel(total: te.Tensor, sizes: Sequence[tirx.Expr]) -> te.Tensor:
        zero = tirx.const(0, total.dtype)
        count = reduce(mul, sizes).astype(total.dtype) - tirx.const(less, total.dtype)
        return te.compute(total.shape, lambda *i: total(*i) / tirx.max(count, zero), name="variance", tag="injective")

    sizes = [value.ty.shape[a] for a in chosen]
    return importer.block_builder.emit_te(kernel, squares, sizes, primfunc_name_hint="variance")


def _normalized(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a batch that is normalised by channel, its statistics, and the running ones if it moves those."""
    data, scale, shift, *running, is_training, momentum, eps = arguments_of(node)
    emit, op, x = importer.block_builder.emit, relax.op, importer.env[data]
    dtype = str(x.ty.dtype)
    wide = summed_in(dtype)
    value = cast_to(importer, x, wide)
    axes, by_channel = [0, *range(2, x.ty.ndim)], (1, -1, *[1] * (x.ty.ndim - 2))

    def number(value: float) -> relax.Expr:
        return relax.const(value, wide)

    def spread(each: relax.Expr) -> relax.Expr:
        return emit(op.reshape(cast_to(importer, each, wide), by_channel))

    if is_training:
        mean = emit(op.mean(value, axis=axes))
        away = emit(op.subtract(value, spread(mean)))
        variance = emit(op.mean(emit(op.multiply(away, away)), axis=axes))
    else:
        mean, variance = (cast_to(importer, importer.env[each], wide) for each in running)
        away = emit(op.subtract(value, spread(mean)))
    inverse = emit(op.rsqrt(emit(op.add(variance, number(eps)))))
    made = emit(op.multiply(away, spread(inverse)))
    if scale is not None:
        made = emit(op.multiply(made, spread(importer.env[scale])))
    if shift is not None:
        made = emit(op.add(made, spread(importer.env[shift])))
    results = [cast_to(importer, made, dtype), mean, inverse]
    for each, new in zip(running, (mean, _of_sample(importer, variance, value)), strict=False):
        kept = importer.env[each]
        moved = emit(op.multiply(cast_to(importer, kept, wide), number(1 - momentum)))
        moved = emit(op.add(moved, emit(op.multiply(new, number(momentum)))))
        results.append(cast_to(importer, moved, str(kept.ty.dtype)) if is_training else kept)
    return emit(relax.Tuple(results))


def _of_sample(importer: Importing, variance: relax.Expr, value: relax.Expr) -> relax.Expr:
    """Return the variance of what a sample is of, of which one element less than there are tells."""
    sizes = [size for axis, size in enumerate(value.ty.shape) if axis != 1]
    count = dims.as_expr(dims.product(sizes))

    def kernel(variance: te.Tensor, count: tirx.Expr) -> te.Tensor:
        share = count.astype(variance.dtype) / (count - 1).astype(variance.dtype)
        return te.compute(variance.shape, lambda i: variance(i) * share, name="of_sample", tag="injective")

    return importer.block_builder.emit_te(kernel, variance, count, primfunc_name_hint="of_sample")


def _variance_and_mean(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return variances and the means that they are around."""
    data, axes, _, keepdims = arguments_of(node)
    chosen = list(axes or range(importer.env[data].ty.ndim))
    mean = importer.block_builder.emit(relax.op.mean(importer.env[data], axis=chosen, keepdims=keepdims))
    return importer.block_builder.emit(relax.Tuple([_variance(importer, node), mean]))


def layered(importer: Importing, own: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return rows that are normalised, in float64, which Relax's operator does not take, by the steps of it."""
    data, sizes, scale, shift, eps = arguments_of(node)
    dtype, emit, op = dtype_of(data), importer.block_builder.emit, relax.op
    if dtype != "float64":
        return widened(importer, own, node)
    x, axes = importer.env[data], [*range(-len(sizes), 0)]
    away = emit(op.subtract(x, emit(op.mean(x, axis=axes, keepdims=True))))
    variance = emit(op.mean(emit(op.multiply(away, away)), axis=axes, keepdims=True))
    made = emit(op.multiply(away, emit(op.rsqrt(emit(op.add(variance, relax.const(eps, dtype)))))))
    made = made if scale is None else emit(op.multiply(made, cast_to(importer, importer.env[scale], dtype)))
    made = made if shift is None else emit(op.add(made, cast_to(importer, importer.env[shift], dtype)))
    return emit(relax.Tuple([made]))


def _normalized_groups(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor normalised in groups of channels; weights and biases may be left out."""
    data, weight, bias, _, channels, _, groups, epsilon = arguments_of(node)
    dtype = summed_in(dtype_of(data))
    value, count = cast_to(importer, importer.env[data], dtype), formula_of(importer, node, channels)

    def of_channels(given: fx.Node | None, number: int) -> relax.Expr:
        if given is not None:
            return cast_to(importer, importer.env[given], dtype)
        return importer.block_builder.emit(relax.op.full(relax.ShapeExpr([count]), relax.const(number, dtype)))

    axes = list(range(2, value.ty.ndim))
    made = relax.op.nn.group_norm(value, of_channels(weight, 1), of_channels(bias, 0), groups, 1, axes, epsilon)
    found = cast_to(importer, importer.block_builder.emit(made), dtype_of(data))
    if any(user.args[1] for user in node.users):
        raise refused(node, "gives the means and the roots of variances, which only training uses")
    return importer.block_builder.emit(relax.Tuple([found, found, found]))


STATISTICS: dict[str, Converter] = {
    "_native_batch_norm_legit.no_stats": _normalized,
    "_native_batch_norm_legit_functional.default": _normalized,
    "native_group_norm.default": _normalized_groups,
    "var.correction": _variance,
    "var_mean.correction": _variance_and_mean,
}
"""The converters, by the names of PyTorch's operators."""
