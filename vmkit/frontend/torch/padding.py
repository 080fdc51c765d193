"""Padding of tensors of PyTorch: by reflection at the edges, by the edges, around, or with a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...relay.op.kernel import inside
from .arguments import Converter, Importing, arguments_of
from .formulas import formula_of

if TYPE_CHECKING:
    from torch import fx

__all__ = ["PADDING", "padded_with"]

_Place = Callable[[tirx.Expr, tirx.Expr], tirx.Expr]


def _reflected(index: tirx.Expr, size: tirx.Expr) -> tirx.Expr:
    return size - 1 - tirx.abs(size - 1 - tirx.abs(index))


def _nearest(index: tirx.Expr, size: tirx.Expr) -> tirx.Expr:
    return index


def _repeated(index: tirx.Expr, size: tirx.Expr) -> tirx.Expr:
    return tirx.floormod(index, tirx.max(size, 1))


def _padded(importer: Importing, node: fx.Node, *, place: _Place) -> relax.Expr:
    data, given = arguments_of(node)
    pads = [formula_of(importer, node, each) for each in given]
    tensor = importer.env[data]
    # The pads of the last axis come first, of each axis the one before it.
    before = {tensor.ty.ndim - 1 - at // 2: pad for at, pad in enumerate(pads) if at % 2 == 0}
    behind = {tensor.ty.ndim - 1 - at // 2: pad for at, pad in enumerate(pads) if at % 2}

    def kernel(x: te.Tensor, before: Sequence[tirx.Expr], behind: Sequence[tirx.Expr]) -> te.Tensor:
        first = x.ndim - len(before)
        shape = [
            d if axis < first else d + before[axis - first] + behind[axis - first] for axis, d in enumerate(x.shape)
        ]
        unknown = [x.shape[axis] > 0 for axis in range(first, x.ndim) if not isinstance(x.shape[axis], tirx.IntImm)]

        def element(*index: tirx.Expr) -> tirx.Expr:
            at = list(index)
            for axis in range(first, x.ndim):
                size = x.shape[axis]
                at[axis] = inside(place(index[axis] - before[axis - first], size), size)
            return tirx.if_then_else(tirx.all(*unknown), x(*at), tirx.const(0, x.dtype)) if unknown else x(*at)

        return te.compute(shape, element, name="pad", tag="injective")

    axes = sorted(before)
    return importer.block_builder.emit_te(
        kernel, tensor, [before[a] for a in axes], [behind[a] for a in axes], primfunc_name_hint="pad"
    )


def padded_with(importer: Importing, own: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return a tensor with a number around it, at widths of which one below 0 takes elements away."""
    data, given, value = arguments_of(node)
    if all(isinstance(each, int) and each >= 0 for each in given) and str(node.meta["val"].dtype) == "torch.float32":
        return own(node)
    pads = [formula_of(importer, node, each) for each in given]
    tensor = importer.env[data]
    first = tensor.ty.ndim - len(pads) // 2
    # The pads of the last axis come first.
    before, behind = pads[::2][::-1], pads[1::2][::-1]

    def kernel(x: te.Tensor, before: Sequence[tirx.Expr], behind: Sequence[tirx.Expr]) -> te.Tensor:
        shape = [
            d if axis < first else d + before[axis - first] + behind[axis - first] for axis, d in enumerate(x.shape)
        ]

        def element(*index: tirx.Expr) -> tirx.Expr:
            at = [i if axis < first else i - before[axis - first] for axis, i in enumerate(index)]
            is_in = [tirx.all(at[axis] >= 0, at[axis] < x.shape[axis]) for axis in range(first, x.ndim)]
            return tirx.if_then_else(tirx.all(*is_in), x(*at), tirx.const(value, x.dtype)) if is_in else x(*at)

        return te.compute(shape, element, name="pad", tag="injective")

    return importer.block_builder.emit_te(kernel, tensor, before, behind, primfunc_name_hint="pad")


PADDING: dict[str, Converter] = {
    **{f"reflection_pad{n}d.default": partial(_padded, place=_reflected) for n in (1, 2, 3)},
    "_pad_circular.default": partial(_padded, place=_repeated),
    **{f"replication_pad{n}d.default": partial(_padded, place=_nearest) for n in (1, 2, 3)},
}
"""The converters, by the names of PyTorch's operators."""
