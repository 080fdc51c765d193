"""Elements of tensors of PyTorch that are read and written where other tensors say: ``x[:, i, j]``, ``x[i] = y``.

PyTorch joins the shapes of all indices. Where the axes that they index stand side by side, what they have in common
takes the place of these axes, else it comes first. TVM's importer knows neither where some axes are taken whole. Here
the axes that are indexed are put first, and those of the result in their order afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tvm import relax, te, tirx

from ..._dataclasses import dataclass
from ...relax.guards import ASKED
from ...relax.positions import joined_shape
from ...relay.ir import dims
from ...relay.op.kernel import from_either_end
from .arguments import Importing, refused
from .effects import read_number
from .formulas import known_sizes

if TYPE_CHECKING:
    from torch import fx

__all__ = ["read_at", "written_at"]


@dataclass(frozen=True)
class _Axes:
    """Which axes of a tensor are indexed, `given`, by tensors that have `common` axes between them."""

    rank: int
    given: Sequence[int]
    common: int

    @property
    def first(self) -> list[int]:
        """The axes of the tensor, the indexed ones first."""
        return [*self.given, *(a for a in range(self.rank) if a not in self.given)]

    @property
    def of_result(self) -> list[int]:
        """The axes that are indexed first, in the order of PyTorch's result."""
        begin, end = self.given[0], self.given[-1]
        before = begin if end - begin + 1 == len(self.given) else 0
        whole = range(self.common, self.common + self.rank - len(self.given))
        return [*whole[:before], *range(self.common), *whole[before:]]


def read_at(importer: Importing, convert: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return elements at positions, of which one that is outside reads the nearest, or where a mask is true.

    TVM's own kernels read whatever memory a position outside is in, and know no negative ones.
    """
    data, indices = cast("tuple[Any, ...]", node.args)
    given = [axis for axis, index in enumerate(indices) if index is not None]
    tensors = [importer.env[indices[axis]] for axis in given]
    if not tensors:
        return convert(node)
    if any(str(t.ty.dtype) == "bool" for t in tensors):
        if len(tensors) > 1:
            raise refused(node, "reads where a mask is true and where other indices say at once")
        mask = _as_wide(importer, tensors[0], importer.env[data], given[0])
        return _read_where(importer, node, importer.env[data], mask, given[0])
    common = joined_shape([list(t.ty.shape) for t in tensors])
    axes = _Axes(importer.env[data].ty.ndim, given, len(common))
    order = axes.of_result

    def kernel(data: te.Tensor, positions: Sequence[te.Tensor], common: Sequence[tirx.Expr]) -> te.Tensor:
        whole = [*common, *(data.shape[a] for a in axes.first[len(given) :])]

        def element(*index: tirx.Expr) -> tirx.Expr:
            at = [index[order.index(a)] for a in range(len(order))]
            place = dict(zip(axes.first[len(given) :], at[len(common) :], strict=True))
            for axis, tensor in zip(given, positions, strict=True):
                shared = at[len(common) - len(tensor.shape) : len(common)]
                own = [0 if dims.equal(size, 1) else i for size, i in zip(tensor.shape, shared, strict=True)]
                place[axis] = from_either_end(tensor(*own), data.shape[axis])
            return data(*(place[a] for a in range(axes.rank)))

        return te.compute([whole[a] for a in order], element, name="index", tag="injective")

    return importer.block_builder.emit_te(
        kernel, importer.env[data], tensors, common, primfunc_name_hint="index", primfunc_attrs={ASKED: 1}
    )


def _read_where(importer: Importing, node: fx.Node, tensor: relax.Expr, mask: relax.Expr, axis: int) -> relax.Expr:
    """Return elements where a mask over axes from one on is true, one after the other along an axis."""
    emit, op, sizes = importer.block_builder.emit, relax.op, list(tensor.ty.shape)
    count = known_sizes(importer, node)[axis]
    behind = axis + mask.ty.ndim
    masked = dims.as_expr(dims.product(sizes[axis:behind]))
    found = emit(op.nonzero(emit(op.reshape(mask, relax.ShapeExpr([masked])))))
    places = importer.block_builder.match_cast(found, relax.TensorType([1, count], "int64"))
    flat = emit(op.reshape(tensor, relax.ShapeExpr([*sizes[:axis], masked, *sizes[behind:]])))
    return emit(op.take(flat, emit(op.squeeze(places, [0])), axis=axis))


def written_at(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor with values written, or added, at positions, one after the other; at none that is outside."""
    data, indices, values, *accumulate = cast("tuple[Any, ...]", node.args)
    is_added = bool(accumulate[0] if accumulate else node.kwargs.get("accumulate", False))
    given = [axis for axis, index in enumerate(indices) if index is not None]
    tensor, value, emit = importer.env[data], importer.env[values], importer.block_builder.emit
    tensors = [importer.env[indices[axis]] for axis in given]
    if any(str(t.ty.dtype) == "bool" for t in tensors):
        if len(tensors) > 1:
            raise refused(node, "writes where a mask is true and where other indices say at once")
        mask = _as_wide(importer, tensors[0], tensor, given[0])
        if any(not isinstance(size, int) or size != 1 for size in values.meta["val"].shape):
            return _written_in_turn(importer, node, tensor, mask, value, given[0], is_added)
        return _written_where(importer, tensor, mask, value, given[0], is_added)
    shapes = [list(t.ty.shape) for t in tensors]
    common = joined_shape(shapes)
    axes = _Axes(tensor.ty.ndim, given, len(common))
    moved = emit(relax.op.permute_dims(tensor, axes.first))
    wide = [relax.op.broadcast_to(relax.op.astype(t, "int64"), relax.ShapeExpr(common)) for t in tensors]
    positions = emit(relax.op.stack([emit(each) for each in wide], axis=-1))
    whole = [*common, *list(moved.ty.shape)[len(given) :]]
    seen = relax.op.broadcast_to(value, relax.ShapeExpr([whole[a] for a in axes.of_result]))
    updates = emit(relax.op.permute_dims(emit(seen), _inverse(axes.of_result)))
    made = emit(relax.op.scatter_nd(moved, positions, updates, "add" if is_added else "update"))
    return emit(relax.op.permute_dims(made, _inverse(axes.first)))


def _as_wide(importer: Importing, mask: relax.Expr, tensor: relax.Expr, axis: int) -> relax.Expr:
    """Return a mask in the sizes of what it is a mask of."""
    sizes = list(tensor.ty.shape)[axis : axis + mask.ty.ndim]
    if all(dims.equal(own, size) for own, size in zip(mask.ty.shape, sizes, strict=True)):
        return mask
    # No bare symbol, which the cast would define anew.
    wanted = [tirx.Max(size, tirx.const(0, "int64")) for size in sizes]
    return importer.block_builder.match_cast(mask, relax.TensorType(wanted, "bool"))


def _written_in_turn(
    importer: Importing,
    node: fx.Node,
    tensor: relax.Expr,
    mask: relax.Expr,
    values: relax.Expr,
    axis: int,
    is_added: bool,
) -> relax.Expr:
    """Return a tensor with values, one after the other, written or added where a mask over its first axes is true."""
    emit, op = importer.block_builder.emit, relax.op
    rest = list(tensor.ty.shape)[mask.ty.ndim :]
    if axis:
        raise refused(node, "writes different values where a mask over other axes than the first is true")
    if values.ty.ndim <= len(rest):  # one for all places
        found = emit(op.broadcast_to(values, tensor.ty.shape))
    else:
        places = emit(op.astype(emit(op.flatten(mask)), "int64"))
        count = read_number(importer, emit(op.sum(places)), f"{node.name}_places")
        size = values.ty.shape[0]
        message = f"{node.name}: one value is needed for each place where the mask is true, or one for all"
        importer.checks.emit(importer.block_builder, count, dims.select(dims.as_expr(size) == 1, count, size), message)
        seen = emit(op.cumsum(places, axis=0))
        place = emit(op.subtract(seen, relax.const(1, "int64")))
        found = emit(op.reshape(emit(op.take(values, place, axis=0, mode="clip")), tensor.ty.shape))
    wide = emit(op.expand_dims(mask, [*range(mask.ty.ndim, tensor.ty.ndim)])) if rest else mask
    return emit(op.where(wide, emit(op.add(tensor, found)) if is_added else found, tensor))


def _written_where(
    importer: Importing, tensor: relax.Expr, mask: relax.Expr, value: relax.Expr, axis: int, is_added: bool
) -> relax.Expr:
    """Return a tensor with one value written, or added, where a mask over axes from one on is true."""
    emit = importer.block_builder.emit
    behind = tensor.ty.ndim - axis - mask.ty.ndim
    wide = emit(relax.op.expand_dims(mask, [*range(mask.ty.ndim, mask.ty.ndim + behind)])) if behind else mask
    one = emit(relax.op.reshape(value, relax.ShapeExpr([])))
    return emit(relax.op.where(wide, emit(relax.op.add(tensor, one)) if is_added else one, tensor))


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)
