"""Tensors of PyTorch of which elements are others, or reduced with others, where positions or a mask say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...relay.ir import dims
from .arguments import Converter, Importing, arguments_of

if TYPE_CHECKING:
    from torch import fx

__all__ = ["SCATTERS"]


def _scattered(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor of which elements are reduced with others where a tensor of positions says."""
    data, axis, index, source, reduction, includes = [*arguments_of(node), "sum", True][:6]
    at = importer.env[index]
    updates = _begin_of(importer, importer.env[source], list(at.ty.shape))
    return _reduced_at(importer, importer.env[data], at, updates, axis, reduction, includes)


def _reduced_along(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor of which slices along an axis are reduced with others where a vector of positions says."""
    data, axis, index, source, reduction, includes = arguments_of(node)
    emit, op, updates, at = importer.block_builder.emit, relax.op, importer.env[source], importer.env[index]
    axis %= max(updates.ty.ndim, 1)
    others = [each for each in range(updates.ty.ndim) if each != axis]
    row = emit(op.reshape(at, relax.ShapeExpr([dims.as_expr(dims.product(list(at.ty.shape)))])))
    wide = emit(op.expand_dims(row, others)) if others else row
    places = emit(op.broadcast_to(wide, updates.ty.shape))
    return _reduced_at(importer, importer.env[data], places, updates, axis, reduction, includes)


def _reduced_at(
    importer: Importing,
    value: relax.Expr,
    at: relax.Expr,
    updates: relax.Expr,
    axis: int,
    reduction: str,
    includes: bool,
) -> relax.Expr:
    emit, dtype = importer.block_builder.emit, str(value.ty.dtype)

    def reduced(start: relax.Expr, more: relax.Expr, kind: str) -> relax.Expr:
        if not includes:
            fresh = emit(relax.op.full(at.ty.shape, relax.const(_neutral(kind, dtype), dtype)))
            start = emit(relax.op.scatter_elements(start, at, fresh, axis=axis))
        return emit(relax.op.scatter_elements(start, at, more, axis=axis, reduction=_REDUCTIONS[kind]))

    if reduction != "mean":
        return reduced(value, updates, reduction)
    one = relax.const(1, dtype)
    counts = reduced(emit(relax.op.full(value.ty.shape, one)), emit(relax.op.full(at.ty.shape, one)), "sum")
    divide = relax.op.divide if dtype.startswith("float") else relax.op.floor_divide
    return emit(divide(reduced(value, updates, "sum"), counts))


def _neutral(reduction: str, dtype: str) -> float:
    if reduction in ("sum", "prod"):
        return float(reduction == "prod")
    least, most = (tirx.min_value(dtype), tirx.max_value(dtype))
    return (least if reduction == "amax" else most).value


def _begin_of(importer: Importing, source: relax.Expr, shape: Sequence[tirx.Expr]) -> relax.Expr:
    """Return the first elements of a tensor along each axis, as many as the positions that they are for."""
    axes = [axis for axis, (d, s) in enumerate(zip(source.ty.shape, shape, strict=True)) if not dims.equal(d, s)]
    if not axes:
        return source
    part = relax.op.strided_slice(source, axes, [0] * len(axes), [shape[a] for a in axes])
    return importer.block_builder.emit(part)


def _masked_scatter(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor with the first elements of another, in their order, where a mask is true."""
    data, mask, source = (importer.env[each] for each in arguments_of(node))
    emit, op = importer.block_builder.emit, relax.op
    wide = emit(op.broadcast_to(mask, data.ty.shape))
    seen = emit(op.cumsum(emit(op.astype(emit(op.flatten(wide)), "int64")), axis=0))
    place = emit(op.subtract(seen, relax.const(1, "int64")))
    found = emit(op.take(emit(op.flatten(source)), place, axis=0, mode="clip"))
    return emit(op.where(wide, emit(op.reshape(found, data.ty.shape)), data))


def _put(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor with elements written, or added, at positions among all of its elements."""
    data, index, source, is_added = arguments_of(node)
    emit, op, value = importer.block_builder.emit, relax.op, importer.env[data]
    flat, at, updates = (emit(op.flatten(each)) for each in (value, importer.env[index], importer.env[source]))
    made = op.scatter_elements(flat, at, updates, axis=0, reduction="add" if is_added else "update")
    return emit(op.reshape(emit(made), value.ty.shape))


def _with_diagonal(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor with another one in the place of a diagonal of two of its axes."""
    data, part, offset, first, second = arguments_of(node)
    tensor = importer.env[data]
    first, second = first % tensor.ty.ndim, second % tensor.ty.ndim

    def kernel(x: te.Tensor, part: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Expr) -> tirx.Expr:
            rest = [i for axis, i in enumerate(at) if axis not in (first, second)]
            along = at[first] if offset >= 0 else at[second]
            is_on = tirx.all(tirx.EQ(at[second] - at[first], tirx.const(offset, "int64")), along < part.shape[-1])
            return tirx.if_then_else(is_on, part(*rest, along), x(*at))

        return te.compute(x.shape, element, name="diagonal_scatter", tag="injective")

    return importer.block_builder.emit_te(kernel, tensor, importer.env[part], primfunc_name_hint="diagonal_scatter")


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}

SCATTERS: dict[str, Converter] = {
    "diagonal_scatter.default": _with_diagonal,
    "index_reduce.default": _reduced_along,
    "masked_scatter.default": _masked_scatter,
    "put.default": _put,
    "scatter_add.default": _scattered,
    "scatter_reduce.two": _scattered,
}
"""The converters, by the names of PyTorch's operators."""
