"""Parts of tensors of PyTorch along an axis, and tensors of which a part is another one, or that repeat others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...relax.guards import ASKED
from ...relay.op.kernel import inside
from .arguments import Converter, Importing, arguments_of
from .formulas import formula_of, known_sizes

if TYPE_CHECKING:
    from torch import fx

__all__ = ["PARTS", "split"]


def _place(importer: Importing, node: fx.Node, index: int | fx.Node, size: tirx.Expr) -> tirx.Expr:
    """Return a position on an axis, from 0 on; PyTorch's may count from the end."""
    at = formula_of(importer, node, index)
    return size + at if isinstance(index, int) and index < 0 else at


def _selected(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return what stands at one position of an axis."""
    data, axis, index = arguments_of(node)
    tensor = importer.env[data]
    axis %= tensor.ty.ndim
    place = _place(importer, node, index, tensor.ty.shape[axis])

    def kernel(x: te.Tensor, place: tirx.Expr) -> te.Tensor:
        shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
        return te.compute(shape, lambda *at: x(*at[:axis], place, *at[axis:]), name="select", tag="injective")

    return importer.block_builder.emit_te(kernel, tensor, place, primfunc_name_hint="select", primfunc_attrs={ASKED: 1})


def _with_part(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor with another one in the place of what stands at one position of an axis."""
    data, part, axis, index = arguments_of(node)
    tensor = importer.env[data]
    axis %= tensor.ty.ndim
    place = _place(importer, node, index, tensor.ty.shape[axis])

    def kernel(x: te.Tensor, part: te.Tensor, place: tirx.Expr) -> te.Tensor:
        def element(*at: tirx.Expr) -> tirx.Expr:
            return tirx.Select(tirx.EQ(at[axis], place), part(*at[:axis], *at[axis + 1 :]), x(*at))

        return te.compute(x.shape, element, name="select_scatter", tag="injective")

    return importer.block_builder.emit_te(
        kernel, tensor, importer.env[part], place, primfunc_name_hint="select_scatter"
    )


def _with_slice(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor with another one in the place of a slice of an axis."""
    data, part, axis, start, _, step = arguments_of(node)
    tensor, axis = importer.env[data], axis % importer.env[data].ty.ndim
    size = tensor.ty.shape[axis]
    first = _place(importer, node, 0 if start is None else start, size)
    first = tirx.max(tirx.min(first, size), 0)

    def kernel(x: te.Tensor, part: te.Tensor, first: tirx.Expr) -> te.Tensor:
        count = part.shape[axis]

        def element(*at: tirx.Expr) -> tirx.Expr:
            away = at[axis] - first
            index = tirx.floordiv(away, step)
            is_in = tirx.all(away >= 0, tirx.floormod(away, step) == 0, index < count)
            return tirx.if_then_else(is_in, part(*at[:axis], index, *at[axis + 1 :]), x(*at))

        return te.compute(x.shape, element, name="slice_scatter", tag="injective")

    return importer.block_builder.emit_te(kernel, tensor, importer.env[part], first, primfunc_name_hint="slice_scatter")


def _windows(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the windows along an axis, each along a new last one; one element is a window by itself."""
    data, axis, width, step = arguments_of(node)
    tensor = importer.env[data]
    if tensor.ty.ndim == 0:
        return importer.block_builder.emit(relax.op.reshape(tensor, relax.ShapeExpr([width])))
    axis %= tensor.ty.ndim
    count = known_sizes(importer, node)[axis]

    def kernel(x: te.Tensor, count: tirx.Expr) -> te.Tensor:
        shape = [*x.shape[:axis], count, *x.shape[axis + 1 :], width]

        def element(*at: tirx.Expr) -> tirx.Expr:
            return x(*at[:axis], at[axis] * step + at[-1], *at[axis + 1 : -1])

        return te.compute(shape, element, name="unfold", tag="injective")

    return importer.block_builder.emit_te(kernel, tensor, count, primfunc_name_hint="unfold")


def split(importer: Importing, own: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return the parts of a tensor along an axis, of so many places each; the numbers may be read when it runs."""
    data, sizes, axis = arguments_of(node)
    if all(isinstance(size, int) for size in sizes):
        return own(node)
    tensor, parts = importer.env[data], list[relax.Expr]()
    axis %= tensor.ty.ndim
    begin: tirx.Expr = tirx.const(0, "int64")

    def kernel(x: te.Tensor, begin: tirx.Expr, size: tirx.Expr) -> te.Tensor:
        shape = [*x.shape[:axis], size, *x.shape[axis + 1 :]]

        def element(*at: tirx.Expr) -> tirx.Expr:
            return x(*at[:axis], inside(begin + at[axis], x.shape[axis]), *at[axis + 1 :])

        return te.compute(shape, element, name="split", tag="injective")

    for each in sizes:
        size = formula_of(importer, node, each)
        parts.append(importer.block_builder.emit_te(kernel, tensor, begin, size, primfunc_name_hint="split"))
        begin = begin + size
    return importer.block_builder.emit(relax.Tuple(parts))


def _repeated(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor so many times along each axis, of which there may be more in front."""
    data, counts = arguments_of(node)
    times = [formula_of(importer, node, each) for each in counts]

    def kernel(x: te.Tensor, times: Sequence[tirx.Expr]) -> te.Tensor:
        first = len(times) - x.ndim
        shape = [t if axis < first else t * x.shape[axis - first] for axis, t in enumerate(times)]

        def element(*at: tirx.Expr) -> tirx.Expr:
            return x(*(tirx.floormod(i, tirx.max(d, 1)) for i, d in zip(at[first:], x.shape, strict=True)))

        return te.compute(shape, element, name="repeat", tag="injective")

    return importer.block_builder.emit_te(kernel, importer.env[data], times, primfunc_name_hint="repeat")


PARTS: dict[str, Converter] = {
    "repeat.default": _repeated,
    "select.int": _selected,
    "select_scatter.default": _with_part,
    "slice_scatter.default": _with_slice,
    "unfold.default": _windows,
}
"""The converters, by the names of PyTorch's operators."""
