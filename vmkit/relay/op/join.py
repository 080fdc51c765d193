"""Operators that join tensors and take them apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Call, Expr, Tuple
from ..ir.tuple_wrapper import TupleWrapper
from ..ir.types import Dim, TensorType, TupleType, Type, brief_type_text
from .attrs import Attrs, Int, Nested, Str, attrs_node, field
from .axis import resolve_axis
from .elementwise import require_tensor
from .kernel import indexed
from .registry import OpPattern, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext, Value

__all__ = ["TupleLike", "as_tuple", "require_tensors"]

# That one kernel joins: LLVM takes more than twice as long for twice as many. More are joined in parts, and the parts
# again, by kernels that are opaque, so that they are not fused into one.
_MOST_TENSORS = 64
# Where the places of the tensors are sums of unknown sizes, which TVM's passes compare with each other.
_MOST_UNKNOWN = 16

TupleLike: TypeAlias = list[Expr] | tuple[Expr, ...] | Expr | TupleWrapper
"""The tensors of a tuple: several expressions, or one whose value is a tuple."""


def as_tuple(data: TupleLike) -> Expr | TupleWrapper:
    """Return a Python sequence of expressions as a Relay tuple; an expression as it is."""
    return Tuple(list(data)) if isinstance(data, list | tuple) else data


def require_tensors(ty: Type) -> list[TensorType]:
    """Return the fields of a tuple type that must be one or more tensors of one data type."""
    if not isinstance(ty, TupleType) or len(ty.fields) == 0:
        raise TypeCheckError(f"the input must be a tuple of tensors, not {brief_type_text(ty)}")
    fields = [require_tensor(f, f"field {i}") for i, f in enumerate(ty.fields)]
    dtypes = sorted({f.dtype for f in fields})
    if len(dtypes) > 1:
        raise TypeCheckError(f"the tensors' data types differ: {', '.join(dtypes)}; cast them to one")
    return fields


def _same_rank(fields: Sequence[TensorType]) -> int:
    ranks = sorted({len(f.shape) for f in fields})
    if len(ranks) > 1:
        raise TypeCheckError(f"the tensors have {' and '.join(str(r) for r in ranks)} dimensions; all need the same")
    return ranks[0]


def _agreed(shapes: Sequence[Sequence[Dim]], skipped: int | None) -> list[Dim]:
    """Return the shape that several shapes must share, outside one axis; the most that is known of each dimension."""
    agreed = list(shapes[0])
    for position in range(len(agreed)):
        if position == skipped:
            continue
        for shape in shapes[1:]:
            if dims.equal(agreed[position], shape[position]) is False:
                raise TypeCheckError(
                    f"dimension {position} is {agreed[position]} in one tensor and {shape[position]} in another"
                )
            if not isinstance(agreed[position], int) and isinstance(shape[position], int):
                agreed[position] = shape[position]
    return agreed


def _require_agreed(
    context: LowerContext, shapes: Sequence[Sequence[Dim]], agreed: Sequence[Dim], skipped: int | None
) -> None:
    for shape in shapes:
        for position, (have, want) in enumerate(zip(shape, agreed, strict=True)):
            if position != skipped:
                context.require_equal(
                    have,
                    want,
                    f"{context.operator}: dimension {position} is {{actual}} in one tensor and {{expected}} in another",
                )


@attrs_node("relay.attrs.ConcatenateAttrs")
class ConcatenateAttrs(Attrs):
    """Attributes of concatenate."""

    axis: Int = field(0, doc="The axis along which the tensors are joined.")


@operator(
    "concatenate",
    "data",
    attrs=ConcatenateAttrs,
    level=1,
    pattern=OpPattern.INJECTIVE,
    mixed="follow",
    layout="concatenate",
)
class Concatenate:
    """The tensors of a tuple one after the other along axis; the other dimensions must agree."""

    @staticmethod
    def make(data: TupleLike, axis: int) -> Expr:
        # As in Relay, a pattern finds the tensors of another operator's results as fields of a tuple.
        fields = Tuple(list(data)) if isinstance(data, TupleWrapper) else as_tuple(data)
        return entry("concatenate").call(fields, axis=axis)

    @staticmethod
    def relation(attrs: ConcatenateAttrs, data: Type) -> Type:
        fields = require_tensors(data)
        axis = resolve_axis(attrs.axis, _same_rank(fields))
        shapes = [list(f.shape) for f in fields]
        shape = _agreed(shapes, axis)
        shape[axis] = _sum(s[axis] for s in shapes)
        return TensorType(shape, fields[0].dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ConcatenateAttrs, data: Value) -> relax.Expr:
        values = context.fields(data)
        shapes = [context.shape(v) for v in values]
        axis = resolve_axis(attrs.axis, len(shapes[0]))
        shape = _agreed(shapes, axis)
        _require_agreed(context, shapes, shape, axis)
        return _joined(context, values, shape, axis)

    @staticmethod
    def on_arrays(attrs: ConcatenateAttrs, data: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(data, attrs.axis)


def _joined(context: LowerContext, values: Sequence[relax.Expr], agreed: Sequence[Dim], axis: int) -> relax.Expr:
    """Return tensors one after the other; `agreed` is their shape outside the axis."""
    known = all(isinstance(context.shape(v)[axis], int) for v in values)
    most = _MOST_TENSORS if known else _MOST_UNKNOWN
    while len(values) > most:
        joined = [_concatenated(context, part, agreed, axis, OpPattern.OPAQUE) for part in _parts(values, most)]
        values = [context.short_tensor(v) for v in joined]
    return _concatenated(context, values, agreed, axis)


def _parts(values: Sequence[relax.Expr], most: int) -> list[Sequence[relax.Expr]]:
    """Return tensors in groups of as many as one kernel joins."""
    return [values[k : k + most] for k in range(0, len(values), most)]


def _concatenated(
    context: LowerContext,
    values: Sequence[relax.Expr],
    agreed: Sequence[Dim],
    axis: int,
    pattern: OpPattern | None = None,
) -> relax.Expr:
    """Return what :func:`_joined` does, by one kernel."""
    extents: list[Dim] = [0, *(context.shape(v)[axis] for v in values)]
    *starts, end = accumulate(extents, dims.add)

    def element(i: tuple[tirx.Expr, ...], tensors: list[te.Tensor], starts: list[tirx.Expr]) -> tirx.Expr:
        def read(k: int) -> tirx.Expr:
            return tensors[k](*i[:axis], i[axis] - starts[k], *i[axis + 1 :])

        result = read(0)
        for k in range(1, len(tensors)):
            result = tirx.if_then_else(i[axis] >= starts[k], read(k), result)
        return result

    # An empty tensor takes no part: its range would begin where the next one's does.
    return indexed(context, [*agreed[:axis], end, *agreed[axis + 1 :]], element, list(values), starts, pattern=pattern)


def _sum(values: Iterable[Dim]) -> Dim:
    total: Dim = 0
    for value in values:
        total = dims.add(total, value)
    # What is cut in two and joined again, as by a roll, has the size that it had.
    return dims.by_cases(total)


@attrs_node("relay.attrs.StackAttrs")
class StackAttrs(Attrs):
    """Attributes of stack."""

    axis: Int = field(0, doc="Where the new axis is put in.")


@operator("stack", "data", attrs=StackAttrs, level=3, pattern=OpPattern.INJECTIVE)
class Stack:
    """The tensors of a tuple, all of one shape, along a new axis."""

    @staticmethod
    def make(data: TupleLike, axis: int) -> Expr:
        return entry("stack").call(as_tuple(data), axis=axis)

    @staticmethod
    def relation(attrs: StackAttrs, data: Type) -> Type:
        fields = require_tensors(data)
        axis = resolve_axis(attrs.axis, _same_rank(fields) + 1)
        shape = _agreed([list(f.shape) for f in fields], None)
        return TensorType([*shape[:axis], len(fields), *shape[axis:]], fields[0].dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: StackAttrs, data: Value) -> relax.Expr:
        values = context.fields(data)
        shapes = [context.shape(v) for v in values]
        axis = resolve_axis(attrs.axis, len(shapes[0]) + 1)
        shape = _agreed(shapes, None)
        _require_agreed(context, shapes, shape, None)

        def stacked(values: Sequence[relax.Expr], pattern: OpPattern | None = None) -> relax.Expr:
            whole = [*shape[:axis], len(values), *shape[axis:]]
            return indexed(context, whole, element, list(values), pattern=pattern)

        def element(i: tuple[tirx.Expr, ...], tensors: list[te.Tensor]) -> tirx.Expr:
            rest = [*i[:axis], *i[axis + 1 :]]
            result = tensors[0](*rest)
            for k in range(1, len(tensors)):
                result = tirx.if_then_else(i[axis] == k, tensors[k](*rest), result)
            return result

        if len(values) <= _MOST_TENSORS:
            return stacked(values)
        parts = [stacked(part, OpPattern.OPAQUE) for part in _parts(values, _MOST_TENSORS)]
        return _joined(context, parts, [*shape[:axis], len(values), *shape[axis:]], axis)


@attrs_node("relay.attrs.SplitAttrs")
class SplitAttrs(Attrs):
    """Attributes of split."""

    indices_or_sections: Nested = field(doc="How many equal sections there are, or where the cuts are.")
    axis: Int = field(0, doc="The axis that is cut.")


@operator("split", "data", attrs=SplitAttrs, level=3, pattern=OpPattern.INJECTIVE, mixed="follow", layout="split")
class Split:
    """The input cut along axis: into a number of equal sections, or at a list of ascending positions."""

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        asked = call.attrs.indices_or_sections
        return TupleWrapper(call, asked if isinstance(asked, int) else len(asked) + 1)

    @staticmethod
    def ranges(attrs: SplitAttrs, extent: Dim) -> list[tuple[Dim, Dim]]:
        """Return begin and end of every section."""
        asked = attrs.indices_or_sections
        if isinstance(asked, int):
            if asked < 1:
                raise TypeCheckError(f"indices_or_sections is {asked}; at least one section is needed")
            if isinstance(extent, int) and extent % asked:
                raise TypeCheckError(f"the extent {extent} of the axis cannot be divided into {asked} equal sections")
            part = dims.floordiv(extent, asked)
            return [(dims.mul(part, k), dims.mul(part, k + 1)) for k in range(asked)]
        cuts = list(asked) if isinstance(asked, Sequence) else [asked]
        if not all(isinstance(c, int) for c in cuts):
            raise TypeCheckError(f"indices_or_sections is {asked}; it is a number of sections or a list of positions")
        if any(b < a for a, b in zip([0, *cuts], cuts, strict=False)):
            raise TypeCheckError(f"the positions {cuts} do not ascend from 0")
        if isinstance(extent, int) and cuts and cuts[-1] > extent:
            raise TypeCheckError(f"the position {cuts[-1]} is past the extent {extent} of the axis")
        return list(zip([0, *cuts], [*cuts, extent], strict=True))

    @staticmethod
    def relation(attrs: SplitAttrs, data: Type) -> Type:
        source = require_tensor(data)
        shape = list(source.shape)
        axis = resolve_axis(attrs.axis, len(shape))
        ranges = Split.ranges(attrs, shape[axis])
        parts = [dims.floordiv(shape[axis], len(ranges))] * len(ranges)
        if not isinstance(attrs.indices_or_sections, int):
            parts = [dims.sub(end, begin) for begin, end in ranges]
        return TupleType([TensorType([*shape[:axis], p, *shape[axis + 1 :]], source.dtype) for p in parts])

    @staticmethod
    def lower(context: LowerContext, attrs: SplitAttrs, data: relax.Expr) -> tuple[relax.Expr, ...]:
        shape = context.shape(data)
        axis = resolve_axis(attrs.axis, len(shape))
        ranges = Split.ranges(attrs, shape[axis])
        begin, end = ranges[-1]
        if isinstance(attrs.indices_or_sections, int):
            message = (
                f"split: the extent {{expected}} of axis {axis} cannot be divided into {len(ranges)} equal sections"
            )
            context.require_equal(end, shape[axis], message)
        elif not isinstance(end, int):
            # A section cannot have a negative extent: the last cut is checked before any section is taken.
            message = f"split: the position {begin} is past the end of axis {axis}"
            context.require(end >= begin, message)

        def section(i: tuple[tirx.Expr, ...], data: te.Tensor, begin: list[tirx.Expr]) -> tirx.Expr:
            return data(*i[:axis], i[axis] + begin[0], *i[axis + 1 :])

        return tuple(
            indexed(context, [*shape[:axis], dims.sub(e, b), *shape[axis + 1 :]], section, data, [b]) for b, e in ranges
        )


@attrs_node("relay.attrs.MeshgridAttrs")
class MeshgridAttrs(Attrs):
    """Attributes of meshgrid."""

    indexing: Str = field("ij", doc="Whether the first vector counts rows, ij, or columns, xy.")


@operator("meshgrid", "data", attrs=MeshgridAttrs, level=3, pattern=OpPattern.INJECTIVE)
class Meshgrid:
    """Coordinate matrices of coordinate vectors (or scalars), as numpy.meshgrid gives them."""

    @staticmethod
    def make(data: TupleLike, indexing: str) -> TupleWrapper:
        data = as_tuple(data)
        size = len(data) if isinstance(data, Tuple | TupleWrapper) else len(data.checked_type.fields)
        return TupleWrapper(entry("meshgrid").call(data, indexing=indexing), size)

    @staticmethod
    def shape(attrs: MeshgridAttrs, shapes: Sequence[Sequence[Dim]]) -> list[Dim]:
        if attrs.indexing not in ("ij", "xy"):
            raise TypeCheckError(f"indexing is {attrs.indexing!r}; it is 'ij' or 'xy'")
        if any(len(s) > 1 for s in shapes):
            raise TypeCheckError("every input must be a vector or a scalar")
        extents = [s[0] if len(s) else 1 for s in shapes]
        if attrs.indexing == "xy" and len(extents) > 1:
            extents[:2] = extents[1], extents[0]
        return extents

    @staticmethod
    def relation(attrs: MeshgridAttrs, data: Type) -> Type:
        fields = require_tensors(data)
        shape = Meshgrid.shape(attrs, [list(f.shape) for f in fields])
        return TupleType([TensorType(shape, f.dtype) for f in fields])

    @staticmethod
    def lower(context: LowerContext, attrs: MeshgridAttrs, data: Value) -> tuple[relax.Expr, ...]:
        values = context.fields(data)
        shape = Meshgrid.shape(attrs, [context.shape(v) for v in values])
        places = list(range(len(values)))
        if attrs.indexing == "xy" and len(places) > 1:
            places[:2] = 1, 0

        def grid(value: relax.Expr, place: int) -> relax.Expr:
            return indexed(context, shape, lambda i, t: t(i[place]) if len(t.shape) else t(), value)

        return tuple(grid(v, p) for v, p in zip(values, places, strict=True))
