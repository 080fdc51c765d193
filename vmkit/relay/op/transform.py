"""Operators that move and repeat elements: transpose, reverse, tile, repeat, layouts."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx, topi

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Int, Ints, Str, attrs_node
from .axis import checked_rank, resolve_axes, resolve_axis
from .elementwise import require_tensor
from .kernel import as_index, const, indexed
from .rank import constant_list
from .registry import OpPattern, entry, operator
from .shape import reshape_value

__all__ = ["Transpose"]


@attrs_node("relay.attrs.TransposeAttrs")
class TransposeAttrs(Attrs):
    """Attributes of transpose."""

    axes: Ints | None = None


@operator("transpose", "data", attrs=TransposeAttrs, level=3, pattern=OpPattern.INJECTIVE)
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


@attrs_node("relay.attrs.ReverseAttrs")
class ReverseAttrs(Attrs):
    """Attributes of reverse."""

    axis: Int


@operator("reverse", "data", attrs=ReverseAttrs, level=3, pattern=OpPattern.INJECTIVE)
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
            raise TypeCheckError(f"seq_lengths has {lengths.shape[0]} elements; the batch dimension is {batch}")
        return source

    @staticmethod
    def lower(context: Any, attrs: ReverseSequenceAttrs, data: relax.Expr, seq_lengths: relax.Expr) -> Any:
        shape = context.shape(data)
        seq, batch = resolve_axis(attrs.seq_axis, len(shape)), resolve_axis(attrs.batch_axis, len(shape))
        context.require_equal(
            context.shape(seq_lengths)[0],
            shape[batch],
            "reverse_sequence: seq_lengths has {actual} elements; the batch dimension is {expected}",
        )

        def element(i: Any, data: te.Tensor, lengths: te.Tensor) -> Any:
            # A length outside the sequence stops at its end, so that nothing outside is read.
            length = tirx.min(as_index(lengths(i[batch])), data.shape[seq])
            at = tirx.Select(i[seq] < length, length - 1 - i[seq], i[seq])
            return data(*i[:seq], at, *i[seq + 1 :])

        return indexed(context, shape, element, data, seq_lengths)


@attrs_node("relay.attrs.TileAttrs")
class TileAttrs(Attrs):
    """Attributes of tile."""

    reps: Ints


@operator("tile", "data", attrs=TileAttrs, level=3, pattern=OpPattern.BROADCAST)
class Tile:
    """The whole input repeated reps times along each dimension, as numpy.tile does.

    Where reps is an expression, it is read at run time.
    """

    @staticmethod
    def build(data: Expr, reps: Any) -> Expr:
        reps = constant_list(reps)
        if isinstance(reps, Expr):
            return entry("dyn.tile").call(data, reps, reps=[])
        return entry("tile").call(data, reps=reps)

    @staticmethod
    def relation(attrs: TileAttrs, data: Type) -> Type:
        source, reps = require_tensor(data), list(attrs.reps)
        if any(r < 0 for r in reps):
            raise TypeCheckError(f"reps {reps} has a negative number")
        shape, reps = _padded(list(source.shape), reps)
        return TensorType([dims.mul(d, r) for d, r in zip(shape, reps, strict=True)], source.dtype)

    @staticmethod
    def lower(context: Any, attrs: TileAttrs, data: relax.Expr) -> Any:
        return _tiled(context, data, list(attrs.reps))


def _padded(shape: list[Dim], reps: list[Dim]) -> tuple[list[Dim], list[Dim]]:
    """Return a shape and repetitions with as many ones in front as make them equally long."""
    rank = max(len(shape), len(reps))
    return [1] * (rank - len(shape)) + shape, [1] * (rank - len(reps)) + reps


def _tiled(context: Any, data: relax.Expr, reps: list[Dim]) -> Any:
    shape, reps = _padded(context.shape(data), reps)

    def element(i: Any, data: te.Tensor) -> Any:
        own = i[len(i) - len(data.shape) :]
        return data(*[tirx.floormod(k, extent) for k, extent in zip(own, data.shape, strict=True)])

    return indexed(context, [dims.mul(d, r) for d, r in zip(shape, reps, strict=True)], element, data)


@operator("dyn.tile", "data", "reps", attrs=TileAttrs, level=3, pattern=OpPattern.BROADCAST)
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
    def lower(context: Any, attrs: TileAttrs, data: relax.Expr, reps: relax.Expr) -> Any:
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


@operator("repeat", "data", attrs=RepeatAttrs, level=3, pattern=OpPattern.BROADCAST)
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
    def lower(context: Any, attrs: RepeatAttrs, data: relax.Expr) -> Any:
        if attrs.axis is None:
            data = reshape_value(context, data, [dims.product(context.shape(data))])
        shape = context.shape(data)
        axis = resolve_axis(attrs.axis or 0, len(shape))

        def element(i: Any, data: te.Tensor) -> Any:
            return data(*i[:axis], tirx.floordiv(i[axis], attrs.repeats), *i[axis + 1 :])

        whole = [*shape[:axis], dims.mul(shape[axis], attrs.repeats), *shape[axis + 1 :]]
        return indexed(context, whole, element, data)


@attrs_node("relay.attrs.LayoutTransformAttrs")
class LayoutTransformAttrs(Attrs):
    """Attributes of layout_transform."""

    src_layout: Str
    dst_layout: Str


@operator("layout_transform", "data", attrs=LayoutTransformAttrs, level=5, pattern=OpPattern.INJECTIVE)
class LayoutTransform:
    """The input rearranged from one layout to another, such as NCHW to NCHW16c."""

    @staticmethod
    def relation(attrs: LayoutTransformAttrs, data: Type) -> Type:
        source = require_tensor(data)
        return TensorType(_relaid(attrs, list(source.shape)), source.dtype)

    @staticmethod
    def lower(context: Any, attrs: LayoutTransformAttrs, data: relax.Expr) -> Any:
        shape = context.shape(data)
        whole = _relaid(attrs, shape)
        source, target = _letters(attrs.src_layout), _letters(attrs.dst_layout)

        def element(i: Any, data: te.Tensor) -> Any:
            index = []
            for letter, factor in source:
                flat, below = _flat(letter.upper(), target, i), _inner(letter, source)
                if letter.isupper():
                    index.append(tirx.floordiv(flat, below))
                else:
                    index.append(tirx.floormod(tirx.floordiv(flat, below), factor))
            # Where the blocks of the target reach past the source, they hold zeros.
            bounds = [k < e for (c, _), k, e in zip(source, index, data.shape, strict=True) if c.isupper()]
            zero = tirx.const(0, str(data.dtype))
            return tirx.if_then_else(tirx.all(*bounds), data(*index), zero) if pads else data(*index)

        pads = not all(
            dims.equal(_extent(c, source, shape), _extent(c, target, whole)) for c, _ in source if c.isupper()
        )
        return indexed(context, whole, element, data)


def _letters(layout: str) -> list[tuple[str, int]]:
    """Return the axes of a layout: an upper-case letter, or a lower-case one with its block size."""
    axes: list[tuple[str, int]] = []
    number = ""
    for char in layout:
        if char.isdigit():
            number += char
            continue
        if not char.isalpha() or char.isupper() == bool(number):
            raise TypeCheckError(f"{layout!r} is no layout: letters, lower-case ones after their block size")
        axes.append((char, int(number or 1)))
        number = ""
    upper = [c for c, _ in axes if c.isupper()]
    if number or len({c for c, _ in axes}) != len(axes) or any(c.upper() not in upper for c, _ in axes):
        raise TypeCheckError(f"{layout!r} is no layout: every letter once, every block with its whole axis")
    return axes


def _inner(letter: str, axes: list[tuple[str, int]]) -> int:
    """Return how many elements of its axis one step along `letter` covers."""
    return next((f for c, f in axes if letter.isupper() and c == letter.lower()), 1)


def _flat(letter: str, axes: list[tuple[str, int]], index: Any) -> Any:
    """Return the position along a whole axis that an index in a layout stands for."""
    parts = [k * _inner(c, axes) for (c, _), k in zip(axes, index, strict=True) if c.upper() == letter]
    return sum(parts[1:], parts[0])


def _extent(letter: str, axes: list[tuple[str, int]], shape: list[Dim]) -> Dim:
    """Return the extent of a whole axis of a tensor in a layout."""
    outer = next(d for (c, _), d in zip(axes, shape, strict=True) if c == letter)
    return dims.mul(outer, _inner(letter, axes))


def _relaid(attrs: LayoutTransformAttrs, shape: list[Dim]) -> list[Dim]:
    source, target = _letters(attrs.src_layout), _letters(attrs.dst_layout)
    if len(source) != len(shape):
        raise TypeCheckError(f"src_layout {attrs.src_layout!r} has {len(source)} axes, the input {len(shape)}")
    if {c for c, _ in source if c.isupper()} != {c for c, _ in target if c.isupper()}:
        raise TypeCheckError(f"{attrs.src_layout!r} cannot become {attrs.dst_layout!r}: their axes differ")
    for (letter, factor), dim in zip(source, shape, strict=True):
        if letter.islower() and dims.equal(dim, factor) is False:
            raise TypeCheckError(f"the block {letter} of {attrs.src_layout!r} is {factor}, but the dimension is {dim}")
    result: list[Dim] = []
    for letter, factor in target:
        if letter.islower():
            result.append(factor)
        else:
            result.append(dims.ceildiv(_extent(letter, source, shape), _inner(letter, target)))
    return result
