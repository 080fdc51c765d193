"""Variances of PyTorch, and what is normalised by them, over axes whose sizes only a run knows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from .arguments import Converter, Importing, arguments_of, refused
from .formulas import formula_of

if TYPE_CHECKING:
    from torch import fx

__all__ = ["STATISTICS"]


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
    """Return a batch normalised by its own means and variances of channels, these means, and what divides by them."""
    data, weight, bias, _, _, epsilon = arguments_of(node)
    value, emit, op = importer.env[data], importer.block_builder.emit, relax.op
    rank = value.ty.ndim
    others = [axis for axis in range(rank) if axis != 1]
    mean = emit(op.mean(value, axis=others, keepdims=True))
    apart = emit(op.subtract(value, mean))
    variance = emit(op.mean(emit(op.multiply(apart, apart)), axis=others, keepdims=True))
    inverse = emit(op.rsqrt(emit(op.add(variance, relax.const(epsilon, value.ty.dtype.dtype)))))
    made = emit(op.multiply(apart, inverse))
    for each, combine in ((weight, op.multiply), (bias, op.add)):
        if each is not None:
            made = emit(combine(made, emit(op.expand_dims(importer.env[each], [0, *range(2, rank)]))))
    flat = [emit(op.squeeze(each, others)) for each in (mean, inverse)]
    return emit(relax.Tuple([made, *flat]))


def _variance_and_mean(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return variances and the means that they are around."""
    data, axes, _, keepdims = arguments_of(node)
    chosen = list(axes or range(importer.env[data].ty.ndim))
    mean = importer.block_builder.emit(relax.op.mean(importer.env[data], axis=chosen, keepdims=keepdims))
    return importer.block_builder.emit(relax.Tuple([_variance(importer, node), mean]))


def _normalized_groups(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor normalised in groups of channels; weights and biases may be left out."""
    data, weight, bias, _, channels, _, groups, epsilon = arguments_of(node)
    value, dtype = importer.env[data], str(importer.env[data].ty.dtype)
    count = formula_of(importer, node, channels)

    def of_channels(given: fx.Node | None, number: int) -> relax.Expr:
        if given is not None:
            return importer.env[given]
        return importer.block_builder.emit(relax.op.full(relax.ShapeExpr([count]), relax.const(number, dtype)))

    axes = list(range(2, value.ty.ndim))
    made = relax.op.nn.group_norm(value, of_channels(weight, 1), of_channels(bias, 0), groups, 1, axes, epsilon)
    found = importer.block_builder.emit(made)
    if any(user.args[1] for user in node.users):
        raise refused(node, "gives the means and the roots of variances, which only training uses")
    return importer.block_builder.emit(relax.Tuple([found, found, found]))


STATISTICS: dict[str, Converter] = {
    "_native_batch_norm_legit.no_stats": _normalized,
    "native_group_norm.default": _normalized_groups,
    "var.correction": _variance,
    "var_mean.correction": _variance_and_mean,
}
"""The converters, by the names of PyTorch's operators."""
