"""Distances of rows, and products of three tensors, for which Relax has no operators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ...relax.positions import joined_shape
from ...relay.ir import dims
from ...relay.op.kernel import grid
from .arguments import Converter, Importing, arguments_of
from .formulas import known_sizes
from .matrix_kernels import at
from .relay_operators import looped

if TYPE_CHECKING:
    from torch import fx

__all__ = ["DISTANCES"]


def _step(total: tirx.Expr, apart: tirx.Expr, order: float) -> tirx.Expr:
    """Return what a distance of an order is so far, before its root, with one more difference."""
    zero, one = (tirx.const(value, total.ty.dtype) for value in (0, 1))
    size = tirx.abs(apart)
    if order == 0:
        return total + tirx.Select(tirx.EQ(apart, zero), zero, one)
    if math.isinf(order):
        return tirx.Select(tirx.any(size > total, tirx.isnan(size)), size, total)
    if order == 1:
        return total + size
    return total + (apart * apart if order == 2 else tirx.pow(size, tirx.const(order, total.ty.dtype)))


def _root(total: tirx.Expr, order: float) -> tirx.Expr:
    if order in (0, 1) or math.isinf(order):
        return total
    return tirx.sqrt(total) if order == 2 else tirx.pow(total, tirx.const(1 / order, total.ty.dtype))


def _between(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the distances of all rows of one tensor from all rows of another."""
    first, second, order, _ = arguments_of(node)
    a, b = (importer.env[each] for each in (first, second))
    order, dtype = float(order), str(a.ty.dtype)
    stack = joined_shape([list(each.ty.shape)[:-2] for each in (a, b)])
    emit, op = importer.block_builder.emit, relax.op
    a, b = (emit(op.broadcast_to(each, relax.ShapeExpr([*stack, *list(each.ty.shape)[-2:]]))) for each in (a, b))

    def body(outputs: list[tirx.Buffer], a: tirx.Buffer, b: tirx.Buffer) -> None:
        (out,) = outputs
        with grid(list(out.shape)) as place:
            *lead, i, j = place
            T.buffer_store(out, tirx.const(0, dtype), place)
            with grid([a.shape[-1]]) as (k,):
                T.buffer_store(out, _step(out[tuple(place)], a[at(lead, i, k)] - b[at(lead, j, k)], order), place)
            T.buffer_store(out, _root(out[tuple(place)], order), place)

    shape = [*stack, a.ty.shape[-2], b.ty.shape[-2]]
    return cast("relax.Expr", looped(importer, [(shape, dtype)], body, a, b, name="cdist"))


def _within(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the distances of all rows of a matrix from those behind them, one after the other."""
    data, order = arguments_of(node)
    order, value = float(order), importer.env[data]
    dtype = str(value.ty.dtype)

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        out, place = outputs
        T.buffer_store(place, tirx.const(0, "int64"), [0])
        with grid([x.shape[0]]) as (i,), grid([x.shape[0] - i - 1]) as (behind,):
            here = [place[0]]
            T.buffer_store(out, tirx.const(0, dtype), here)
            with grid([x.shape[1]]) as (k,):
                T.buffer_store(out, _step(out[place[0]], x[i, k] - x[i + 1 + behind, k], order), here)
            T.buffer_store(out, _root(out[place[0]], order), here)
            T.buffer_store(place, place[0] + 1, [0])

    results: list[Any] = [(known_sizes(importer, node), dtype), ([1], "int64")]
    return cast("relax.Expr", looped(importer, results, body, value, name="pdist")[0])


def _of_three(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the sums, along some axes, of products of three tensors, each with axes of one element more."""
    *given, first, second, third, axes = arguments_of(node)[:7]
    emit = importer.block_builder.emit
    wide = [
        emit(relax.op.expand_dims(importer.env[each], list(more))) if more else importer.env[each]
        for each, more in zip(given, (first, second, third), strict=True)
    ]
    shape = joined_shape([list(each.ty.shape) for each in wide])

    def kernel(tensors: list[te.Tensor], shape: list[tirx.Expr]) -> te.Tensor:
        summed = {axis: te.reduce_axis((0, shape[axis]), f"k{axis}") for axis in axes}

        def element(*at: tirx.Expr) -> tirx.Expr:
            rest = iter(at)
            place = [summed[axis] if axis in summed else next(rest) for axis in range(len(shape))]
            product: Any = 1
            for x in tensors:
                own = [0 if dims.equal(size, 1) else p for size, p in zip(x.shape, place, strict=True)]
                product = x(*own) * product
            return te.sum(product, axis=list(summed.values()))

        return te.compute([d for axis, d in enumerate(shape) if axis not in summed], element, name="trilinear")

    return importer.block_builder.emit_te(kernel, wide, shape, primfunc_name_hint="trilinear")


DISTANCES: dict[str, Converter] = {
    "_cdist_forward.default": _between,
    "_pdist_forward.default": _within,
    "_trilinear.default": _of_three,
}
"""The converters, by the names of PyTorch's operators."""
