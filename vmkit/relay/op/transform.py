"""Operators that move and repeat elements: transpose, reverse, tile, repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, te, tirx, topi

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Int, Ints, attrs_node
from .axis import checked_rank, resolve_axes, resolve_axis
from .elementwise import require_tensor
from .kernel import as_index, const, indexed
from .rank import constant_list
from .registry import OpPattern, entry, operator
from .shape import reshape_value

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["Transpose"]


@attrs_node("relay.attrs.TransposeAttrs")
class TransposeAttrs(Attrs):
    """Attributes of transpose."""

    axes: Ints | None = None


@operator(
    "transpose",
    "data",
    attrs=TransposeAttrs,
    level=3,
    pattern=OpPattern.INJECTIVE,
    mixed="follow",
    layout="transpose",
    moves=True,
)
class Transpose:
    """The input with its dimensions in the order of axes; reversed without."""

    @staticmethod
    def order(attrs: TransposeAttrs, rank: int) -> list[int]:
        if attrs.axes is None:
            return list(range(rank))[::-1]
        order = resolve_axes(attrs.axes, rank, "axes")
        if len(order) != rank:
            raise TypeCheckError(f"axes {list(attrs.axes)} must name each of the {rank} dimensions once")
        return order

    @staticmethod
    def relation(attrs: TransposeAttrs, data: Type) -> Type:
        source = require_tensor(data)
        return TensorType([source.shape[a] for a in Transpose.order(attrs, len(source.shape))], source.dtype)

    @staticmethod
    def compute(attrs: TransposeAttrs, data: te.Tensor) -> te.Tensor:
        if len(data.shape) == 0:
            return topi.identity(data)
        return topi.transpose(data, Transpose.order(attrs, len(data.shape)))

    @staticmethod
    def on_arrays(attrs: TransposeAttrs, data: np.ndarray) -> np.ndarray:
        return data.transpose(Transpose.order(attrs, data.ndim))


@attrs_node("relay.attrs.ReverseAttrs")
class ReverseAttrs(Attrs):
    """Attributes of reverse."""

    axis: Int


@operator("reverse", "data", attrs=ReverseAttrs, level=3, pattern=OpPattern.INJECTIVE, layout="axis")
class Reverse:
    """The input with the order of the elements along axis reversed."""

    @staticmethod
    def relation(attrs: ReverseAttrs, data: Type) -> Type:
        resolve_axis(attrs.axis, len(require_tensor(data).shape))
        return data

    @staticmethod
    def compute(attrs: ReverseAttrs, data: te.Tensor) -> te.Tensor:
        return topi.flip(data, attrs.axis)


@attrs_node("relay.attrs.ReverseSequenceAttrs")
class ReverseSequenceAttrs(Attrs):
    """Attributes of reverse_sequence."""

    seq_axis: Int = 1
    batch_axis: Int = 0


@operator("reverse_sequence", "data", "seq_lengths", attrs=ReverseSequenceAttrs, level=3, pattern=OpPattern.INJECTIVE)
class ReverseSequence:
    """The input with, for every batch, the first seq_lengths[batch] elements along seq_axis reversed."""

    @staticmethod
    def relation(attrs: ReverseSequenceAttrs, data: Type, seq_lengths: Type) -> Type:
        source, lengths = require_tensor(data), require_tensor(seq_lengths, "seq_lengths")
        rank = len(source.shape)
        resolve_axis(attrs.seq_axis, rank, "seq_axis")
        batch = source.shape[resolve_axis(attrs.batch_axis, rank, "batch_axis")]
        if len(lengths.shape) != 1 or not lengths.dtype.startswith("int"):
            raise TypeCheckError(f"seq_lengths must be a vector of integers, not {lengths}")
        if dims.equal(lengths.shape[0], batch) is False:
            # The spelling is Relay's, which scripts compare with.
            raise TypeCheckError(
                "For reverse_sequnece seq_lengths size should match with dimension of batch axis, but got dimension of "
                f"batch_axis = {batch}, and seq_length size = {lengths.shape[0]}"
            )
        return source

    @staticmethod
    def lower(
        context: LowerContext, attrs: ReverseSequenceAttrs, data: relax.Expr, seq_lengths: relax.Expr
    ) -> relax.Expr:
        shape = context.shape(data)
        seq, batch = resolve_axis(attrs.seq_axis, len(shape)), resolve_axis(attrs.batch_axis, len(shape))
        context.require_equal(
            context.shape(seq_lengths)[0],
            shape[batch],
            "reverse_sequence: seq_lengths has {actual} elements; the batch dimension is {expected}",
        )

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, lengths: te.Tensor) -> tirx.Expr:
            # A length outside the sequence stops at its end, so that nothing outside is read.
            length = tirx.min(as_index(lengths(i[batch])), data.shape[seq])
            at = tirx.Select(i[seq] < length, length - 1 - i[seq], i[seq])
            return data(*i[:seq], at, *i[seq + 1 :])

        return indexed(context, shape, element, data, seq_lengths)


@attrs_node("relay.attrs.TileAttrs")
class TileAttrs(Attrs):
    """Attributes of tile."""

    reps: Ints


@operator("tile", "data", attrs=TileAttrs, level=3, pattern=OpPattern.BROADCAST, mixed="follow")
class Tile:
    """The whole input repeated reps times along each dimension, as numpy.tile does.

    Where reps is an expression, it is read at run time.
    """

    @staticmethod
    def build(data: Expr, reps: Ints | Expr) -> Expr:
        reps = constant_list(reps)
        if isinstance(reps, Expr):
            return entry("dyn.tile").call(data, reps, reps=[])
        return entry("tile").call(data, reps=reps)

    @staticmethod
    def relation(attrs: TileAttrs, data: Type) -> Type:
        source = require_tensor(data)
        if any(r < 0 for r in attrs.reps):
            raise TypeCheckError(f"reps {list(attrs.reps)} has a negative number")
        shape, reps = _padded(list(source.shape), list(attrs.reps))
        return TensorType([dims.mul(d, r) for d, r in zip(shape, reps, strict=True)], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: TileAttrs, data: relax.Expr) -> relax.Expr:
        return _tiled(context, data, list(attrs.reps))


def _padded(shape: list[Dim], reps: list[Dim]) -> tuple[list[Dim], list[Dim]]:
    """Return a shape and repetitions with as many ones in front as make them equally long."""
    rank = max(len(shape), len(reps))
    return [1] * (rank - len(shape)) + shape, [1] * (rank - len(reps)) + reps


def _tiled(context: LowerContext, data: relax.Expr, reps: list[Dim]) -> relax.Expr:
    """Return a lowered tensor repeated as a whole: with the repetitions as axes of their own, of which none divides."""
    shape, reps = _padded(context.shape(data), reps)
    skip = len(shape) - len(context.shape(data))
    whole: list[Dim] = []
    own: list[int | None] = []  # which axis of the result each of the input goes along; None where it has one element
    for dim, times in zip(shape, reps, strict=True):
        is_one, is_once = (isinstance(d, int) and d == 1 for d in (dim, times))
        whole += [dim] if is_once else [times] if is_one else [times, dim]
        own.append(None if is_one else len(whole) - 1)

    def element(i: tuple[tirx.Expr, ...], data: te.Tensor) -> tirx.Expr:
        return data(*[const(0) if at is None else i[at] for at in own[skip:]])

    if len(whole) == len(shape):
        return indexed(context, whole, element, data)
    # What is fused with a reshape counts elements, by a division for each.
    made = indexed(context, whole, element, data, pattern=OpPattern.OPAQUE)
    return reshape_value(context, made, [dims.mul(d, r) for d, r in zip(shape, reps, strict=True)])


@operator("dyn.tile", "data", "reps", attrs=TileAttrs, level=3, pattern=OpPattern.BROADCAST, mixed="follow")
class DynTile:
    """The whole input repeated along each dimension as often as a vector says at run time."""

    build = staticmethod(Tile.build)

    @staticmethod
    def relation(attrs: TileAttrs, data: Type, reps: Type) -> Type:
        source, times = require_tensor(data), require_tensor(reps, "reps")
        if len(times.shape) != 1 or not isinstance(times.shape[0], int):
            raise TypeCheckError(f"reps must be a vector of known length, not {times}: it gives the rank")
        rank = checked_rank(max(len(source.shape), times.shape[0]))
        return TensorType([AnyDim()] * rank, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: TileAttrs, data: relax.Expr, reps: relax.Expr) -> relax.Expr:
        if context.shape(reps)[0] == 0:
            return data
        sizes = indexed(
            context, context.shape(reps), lambda i, reps: tirx.max(as_index(reps(i[0])), const(0)), reps, name="reps"
        )
        return _tiled(context, data, context.read_dims(sizes))


@attrs_node("relay.attrs.RepeatAttrs")
class RepeatAttrs(Attrs):
    """Attributes of repeat."""

    repeats: Int
    axis: Int | None = None


@operator("repeat", "data", attrs=RepeatAttrs, level=3, pattern=OpPattern.BROADCAST, layout="axis")
class Repeat:
    """The input with every element repeated along axis."""

    @staticmethod
    def shape(attrs: RepeatAttrs, shape: list[Dim]) -> list[Dim]:
        if attrs.repeats < 1:
            raise TypeCheckError(f"repeats is {attrs.repeats}; it must be at least 1")
        if attrs.axis is None:
            return [dims.mul(dims.product(shape), attrs.repeats)]
        axis = resolve_axis(attrs.axis, len(shape))
        return [*shape[:axis], dims.mul(shape[axis], attrs.repeats), *shape[axis + 1 :]]

    @staticmethod
    def relation(attrs: RepeatAttrs, data: Type) -> Type:
        source = require_tensor(data)
        return TensorType(Repeat.shape(attrs, list(source.shape)), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: RepeatAttrs, data: relax.Expr) -> relax.Expr:
        if attrs.axis is None:
            data = reshape_value(context, data, [dims.product(context.shape(data))])
        shape = context.shape(data)
        axis = resolve_axis(attrs.axis or 0, len(shape))

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor) -> tirx.Expr:
            return data(*i[:axis], tirx.floordiv(i[axis], attrs.repeats), *i[axis + 1 :])

        whole = [*shape[:axis], dims.mul(shape[axis], attrs.repeats), *shape[axis + 1 :]]
        return indexed(context, whole, element, data)
