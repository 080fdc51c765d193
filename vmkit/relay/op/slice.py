"""Slices of a tensor between positions, fixed or read at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.expr import const as relay_const
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Dims, Ints, Str, attrs_node, field
from .axis import resolve_axes
from .elementwise import require_tensor
from .fields import REQUIRED
from .kernel import as_index, chosen, const, indexed
from .rank import constant_list
from .registry import OpPattern, Parameters, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["StridedSlice", "clamped_position"]

Positions: TypeAlias = Ints | Expr
"""Positions on axes: numbers, or an expression that is read at run time."""

_WHOLE = 2**31 - 1  # what programs write for "to the end"


@attrs_node("relay.attrs.StridedSliceAttrs")
class StridedSliceAttrs(Attrs):
    """Attributes of strided_slice."""

    begin: Dims | None = field(None, script=REQUIRED, doc="The first positions.")
    end: Dims | None = field(None, script=REQUIRED, doc="The positions behind the last, or sizes.")
    strides: Ints | None = field(None, doc="Steps between the positions; 1 where it is left open.")
    slice_mode: Str = field("end", doc="What end holds: positions in mode end, sizes in mode size.")
    axes: Ints | None = field(None, doc="The axes to slice; the first ones where it is left open.")


@operator(
    "strided_slice",
    "data",
    attrs=StridedSliceAttrs,
    level=4,
    pattern=OpPattern.INJECTIVE,
    parameters=Parameters("data begin end strides axes slice_mode"),
    mixed="follow",
    layout="slice",
)
class StridedSlice:
    """The part of the input from begin to end with strides, along axes (or the first dimensions).

    Negative positions count from the end, and positions outside are moved to the edge, as in Python. In slice_mode
    "size", end holds sizes (-1: all that is left) and strides are 1. Where begin, end or strides is an expression, all
    of them are read at run time.
    """

    @staticmethod
    def make(
        data: Expr,
        begin: Positions,
        end: Positions,
        strides: Positions | None,
        axes: Ints | None,
        slice_mode: str,
    ) -> Expr:
        begin, end, strides = constant_list(begin), constant_list(end), constant_list(strides)
        if not any(isinstance(v, Expr) for v in (begin, end, strides)):
            strides = [1] if strides is None else strides
            values = {"begin": begin, "end": end, "strides": strides, "axes": axes}
            return entry("strided_slice").call(data, slice_mode=slice_mode, **values)
        if axes is not None:
            raise TypeCheckError("strided_slice with positions read at run time slices the first dimensions; no axes")
        length = _length(begin) or _length(end)
        strides = [1] * (length or 1) if strides is None else strides
        given = [v if isinstance(v, Expr) else relay_const(list(v), "int64") for v in (begin, end, strides)]
        return entry("dyn.strided_slice").call(data, *given, slice_mode=slice_mode)

    @staticmethod
    def ranges(
        attrs: StridedSliceAttrs, shape: list[Dim], rename: Callable[[list[Dim]], list[Dim]] = list
    ) -> list[tuple[int, Dim, Dim, int]]:
        """Return (axis, first position, size, stride) of every sliced axis.

        `rename` gives the attributes' positions in the symbols of `shape`.
        """
        if attrs.begin is None or attrs.end is None:
            raise TypeCheckError("begin and end are needed")
        if attrs.slice_mode not in ("end", "size"):
            raise TypeCheckError(f"slice_mode is {attrs.slice_mode!r}; it is 'end' or 'size'")
        if any(dims.is_any(d) for d in (*attrs.begin, *attrs.end)):
            raise TypeCheckError("a position in begin or end is '?'; give a number, or the positions as an argument")
        begin, end = rename(list(attrs.begin)), rename(list(attrs.end))
        count = max(len(begin), len(end))
        axes = resolve_axes(attrs.axes, len(shape), "axes") if attrs.axes is not None else list(range(count))
        strides = list(attrs.strides or []) if attrs.slice_mode == "end" else []
        strides = (strides + [1] * len(axes))[: len(axes)]
        # The last positions may be left out: they are the edges.
        begin = begin + [0 if s > 0 else _WHOLE for s in strides[len(begin) :]]
        end = end + [_WHOLE if s > 0 else -_WHOLE for s in strides[len(end) :]]
        if not len(begin) == len(end) == len(axes) or len(axes) > len(shape):
            raise TypeCheckError(
                f"begin, end and axes have {len(begin)}, {len(end)} and {len(axes)} elements "
                f"for {len(shape)} dimensions"
            )
        if 0 in strides:
            raise TypeCheckError(f"strides {strides} holds 0")
        sized = attrs.slice_mode == "size"
        return [
            (axis, *_range(b, _size_end(b, e) if sized else e, s, shape[axis]), s)
            for axis, b, e, s in zip(axes, begin, end, strides, strict=True)
        ]

    @staticmethod
    def relation(attrs: StridedSliceAttrs, data: Type) -> Type:
        source = require_tensor(data)
        shape = list(source.shape)
        for axis, _, size, _ in StridedSlice.ranges(attrs, list(shape)):
            shape[axis] = size
        return TensorType(shape, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: StridedSliceAttrs, data: relax.Expr) -> relax.Expr:
        shape = context.shape(data)
        whole = list(shape)
        starts: list[Dim] = [0] * len(shape)
        steps: list[Dim] = [1] * len(shape)
        for axis, first, size, stride in StridedSlice.ranges(attrs, shape, context.dims):
            whole[axis], starts[axis], steps[axis] = size, first, stride

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, starts: list[tirx.Expr]) -> tirx.Expr:
            return data(*[k * step + first for k, step, first in zip(i, steps, starts, strict=True)])

        return indexed(context, whole, element, data, starts)


def _length(value: Positions | None) -> int | None:
    """Return the length of a list or of a typed vector, where it is known."""
    if value is None:
        return None
    if not isinstance(value, Expr):
        return len(value)
    ty = getattr(value, "type_annotation", None) or value.checked_type_
    known = isinstance(ty, TensorType) and len(ty.shape) == 1 and isinstance(ty.shape[0], int)
    return int(ty.shape[0]) if known else None


def _size_end(begin: Dim, size: Dim) -> Dim:
    """Return the end of a slice given by its size."""
    if not isinstance(begin, int) or not isinstance(size, int):
        return dims.add(begin, size)
    if size < 0:
        return _WHOLE
    # A negative begin counts from the end: its slice must not wrap around to the front.
    return begin + size if begin >= 0 or begin + size < 0 else _WHOLE


def _range(begin: Dim, end: Dim, stride: int, dim: Dim) -> tuple[Dim, Dim]:
    """Return the first position and the size of a slice of a dimension."""
    if dims.is_any(dim):
        return AnyDim(), AnyDim()
    first, last = _clamped(begin, stride, dim), _clamped(end, stride, dim)
    length = dims.sub(last, first) if stride > 0 else dims.sub(first, last)
    size = dims.ceildiv(length, abs(stride))
    return first, dims.by_cases(size if dims.at_least(size, 0) else dims.maximum(size, 0))


def _clamped(position: Dim, stride: int, dim: Dim) -> Dim:
    """Return a position counted from the front, moved to the edge when it is outside."""
    low, high = (0, dim) if stride > 0 else (-1, dims.sub(dim, 1))
    if isinstance(position, int):
        if position >= _WHOLE or (stride < 0 and position == -1 and isinstance(dim, int) and dim == 0):
            return high
        if position <= -_WHOLE or position == low == 0:
            return low
    if isinstance(position, tirx.Select):  # A limit of what is chosen is a choice between limits, which may be one.
        one, other = (_clamped(dims.simplify(v), stride, dim) for v in (position.true_value, position.false_value))
        return dims.select(position.condition, one, other)
    is_from_front = dims.at_least(position, 0)
    if is_from_front is None and dims.at_least(0, position):
        from_end = _clamped(dims.add(dim, position), stride, dim)
        return dims.select(dims.as_expr(position) == 0, _clamped(0, stride, dim), from_end)
    if is_from_front is None:
        position = dims.select(dims.as_expr(position) < 0, dims.add(dim, position), position)
    elif not is_from_front:
        position = dims.add(dim, position)
    position = position if dims.at_least(high, position) else dims.minimum(position, high)
    return position if dims.at_least(position, low) else dims.maximum(position, low)


@operator(
    "dyn.strided_slice",
    "data",
    "begin",
    "end",
    "strides",
    attrs=StridedSliceAttrs,
    level=4,
    pattern=OpPattern.INJECTIVE,
    parameters=Parameters("data begin end strides slice_mode"),
    mixed="follow",
)
class DynStridedSlice:
    """The part of the input between positions that are read at run time, along the first dimensions."""

    @staticmethod
    def relation(attrs: StridedSliceAttrs, data: Type, begin: Type, end: Type, strides: Type) -> Type:
        source = require_tensor(data)
        vectors = [require_tensor(t, n) for t, n in ((begin, "begin"), (end, "end"), (strides, "strides"))]
        for vector, name in zip(vectors, ("begin", "end", "strides"), strict=True):
            if len(vector.shape) != 1 or not vector.dtype.startswith("int"):
                raise TypeCheckError(f"{name} must be a vector of integers, not {vector}")
        rank = len(source.shape)
        lengths = [n if isinstance(n, int) else None for n in (v.shape[0] for v in vectors)]
        known = {n for n in lengths[:2] if n is not None}
        # Vectors of unknown length may slice every dimension.
        count = min(known, default=rank)
        if len(known) > 1 or count > rank or (known and (lengths[2] or 0) > count):
            shown = ", ".join("?" if n is None else str(n) for n in lengths)
            raise TypeCheckError(f"begin, end and strides have {shown} elements for {rank} dimensions")
        return TensorType([AnyDim()] * count + list(source.shape)[count:], source.dtype)

    @staticmethod
    def lower(
        context: LowerContext,
        attrs: StridedSliceAttrs,
        data: relax.Expr,
        begin: relax.Expr,
        end: relax.Expr,
        strides: relax.Expr,
    ) -> relax.Expr:
        shape = context.shape(data)
        sized = attrs.slice_mode == "size"
        if not all(isinstance(context.shape(v)[0], int) for v in (begin, end, strides)):
            begin, end, strides = _whole_vectors(context, len(shape), sized, begin, end, strides)
        (count,), (given,) = context.shape(begin), context.shape(strides)
        if count == 0:
            return data

        def resolve(k: int, sizes: list[tirx.Expr], *vectors: te.Tensor) -> tuple[tirx.Expr, tirx.Expr]:
            """Return the first position and the size along one dimension."""
            dim = dims.as_expr(sizes[k])
            step = const(1) if sized or k >= given else as_index(vectors[2](k))
            first, last = as_index(vectors[0](k)), as_index(vectors[1](k))
            first = clamped_position(first, step, dim)
            last = (
                tirx.Select(last < 0, dim, tirx.min(first + last, dim)) if sized else clamped_position(last, step, dim)
            )
            length = tirx.Select(step > 0, last - first, first - last)
            width = tirx.max(tirx.abs(step), const(1))
            return first, tirx.max(tirx.floordiv(length + width - 1, width), const(0))

        def size(i: tuple[tirx.Expr, ...], sizes: list[tirx.Expr], *vectors: te.Tensor) -> tirx.Expr:
            found = [resolve(k, sizes, *vectors)[1] for k in range(count)]
            zero = [vectors[2](k) == 0 for k in range(0 if sized else given)]
            return chosen(i[0], [*found, tirx.Select(tirx.any(tirx.const(False), *zero), const(0), const(1))])

        def start(i: tuple[tirx.Expr, ...], sizes: list[tirx.Expr], *vectors: te.Tensor) -> tirx.Expr:
            return chosen(i[0], [resolve(k, sizes, *vectors)[0] for k in range(count)])

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, starts: te.Tensor, strides: te.Tensor) -> tirx.Expr:
            steps = [const(1) if sized or k >= given else as_index(strides(k)) for k in range(count)]
            return data(*[starts(k) + i[k] * steps[k] for k in range(count)], *i[count:])

        known = shape[:count]
        *sizes, valid = context.read_dims(indexed(context, [count + 1], size, known, begin, end, strides))
        context.require_equal(valid, 1, "strided_slice: a stride is 0")
        starts = indexed(context, [count], start, known, begin, end, strides)
        return indexed(context, [*sizes, *shape[count:]], element, data, starts, strides)


def _whole_vectors(
    context: LowerContext, rank: int, sized: bool, begin: relax.Expr, end: relax.Expr, strides: relax.Expr
) -> list[relax.Expr]:
    """Return begin, end and strides with a position for every dimension: behind their lengths, all of a dimension."""
    (count,), (last,), (given,) = context.shape(begin), context.shape(end), context.shape(strides)
    context.require_equal(last, count, "strided_slice: begin has {expected} elements, end {actual}")
    if not dims.at_least(rank, count):
        message = f"strided_slice: begin has {{actual}} elements for {rank} dimensions"
        context.require_equal(count, dims.minimum(count, rank), message)

    def filled(default: int) -> Callable[..., tirx.Expr]:
        def element(i: tuple[tirx.Expr, ...], ends: list[tirx.Expr], vector: te.Tensor) -> tirx.Expr:
            given = [dims.as_expr(n) > i[0] for n in ends]
            return tirx.if_then_else(tirx.all(*given), as_index(vector(i[0])), const(default))

        return element

    # A stride without a position means nothing, and steps behind the given ones are forward.
    defaults = ((begin, 0, [count]), (end, -1 if sized else _WHOLE, [count]), (strides, 1, [count, given]))
    return [indexed(context, [rank], filled(default), ends, vector) for vector, default, ends in defaults]


def clamped_position(position: tirx.Expr, step: tirx.Expr, dim: tirx.Expr) -> tirx.Expr:
    """Return a position in a kernel, moved to the edge when it is outside."""
    position = tirx.Select(position < 0, position + dim, position)
    forward = tirx.max(tirx.min(position, dim), const(0))
    return tirx.Select(step > 0, forward, tirx.max(tirx.min(position, dim - 1), const(-1)))
