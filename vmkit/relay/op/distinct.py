"""The distinct rows of a matrix, in order or as they first appear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir.expr import Call
from ..ir.tuple_wrapper import TupleWrapper
from ..ir.types import Any as AnyDim
from ..ir.types import TensorType, TupleType, Type
from .attrs import Attrs, Bool, attrs_node, field
from .elementwise import require_tensor
from .kernel import const, grid, loops
from .registry import OpPattern, Parameters, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.ContribUniqueRowsAttrs")
class UniqueRowsAttrs(Attrs):
    """Attributes of contrib.unique_rows."""

    sorted: Bool = field(True, doc="Whether the rows are in order; as they first appear otherwise.")


@operator(
    "contrib.unique_rows",
    "data",
    attrs=UniqueRowsAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("data is_sorted", renamed={"is_sorted": "sorted"}),
)
class UniqueRows:
    """The distinct rows of a matrix: the first position of each, which of them each row is, and how often each occurs.

    All are int64 vectors; the first and the last are as long as there are distinct rows.
    """

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        return TupleWrapper(call, 3)

    @staticmethod
    def relation(attrs: UniqueRowsAttrs, data: Type) -> Type:
        source = require_tensor(data)
        if len(source.shape) != 2:
            raise TypeCheckError(f"the input must be a matrix, not {source}")
        some = TensorType([AnyDim()], "int64")
        return TupleType([some, TensorType([source.shape[0]], "int64"), some])

    @staticmethod
    def lower(context: LowerContext, attrs: UniqueRowsAttrs, data: relax.Expr) -> tuple[relax.Expr, ...]:
        rows, _ = context.shape(data)
        vector: Any = ([rows], "int64")
        pair: Any = ([2], "int64")
        order = loops(context, [vector, vector, pair, pair], _sort, data, name="unique_rows_order")[0]

        def group(outputs: list[tirx.Buffer], x: tirx.Buffer, order: tirx.Buffer) -> None:
            _group(outputs, x, order, attrs.sorted)

        first, inverse, counts, total, *_ = loops(
            context, [vector, vector, vector, ([1], "int64"), vector, vector, pair], group, data, order
        )
        (found,) = context.read_dims(total)

        def shorten(outputs: list[tirx.Buffer], first: tirx.Buffer, counts: tirx.Buffer) -> None:
            for out, whole in zip(outputs, (first, counts), strict=True):
                with grid(list(out.shape)) as i:
                    T.buffer_store(out, whole[tuple(i)], i)

        results = [([found], "int64"), ([found], "int64")]
        positions, numbers = loops(context, results, shorten, first, counts, name="unique_rows_found")
        return positions, inverse, numbers


def _compare(state: tirx.Buffer, x: tirx.Buffer, a: tirx.Expr, b: tirx.Expr) -> None:
    """Write whether a row comes before (-1), equals (0) or comes behind (1) another one."""
    T.buffer_store(state, const(0), [0])
    with grid([x.shape[1]]) as (c,), T.If(state[0] == 0), T.Then():
        left, right = _comparable(x[a, c]), _comparable(x[b, c])
        sign = tirx.Select(_less(left, right), const(-1), tirx.Select(_less(right, left), const(1), const(0)))
        T.buffer_store(state, sign, [0])


def _comparable(value: tirx.Expr) -> tirx.Expr:
    dtype = str(value.ty.dtype)
    return value.astype({"bool": "int8", "float16": "float32", "bfloat16": "float32"}.get(dtype, dtype))


def _less(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Say whether a number comes before another one; NaN comes last, and all of them are one."""
    if not str(a.ty.dtype).startswith("float"):
        return a < b
    return tirx.all(tirx.Not(tirx.isnan(a)), tirx.any(tirx.isnan(b), a < b))


def _sort(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
    """Write the positions that sort the rows, equal ones in their order, by merging runs of doubled lengths."""
    order, spare, state, places = outputs
    rows = x.shape[0]
    with grid([rows]) as (i,):
        T.buffer_store(order, i, [i])
    T.buffer_store(state, const(1), [1])
    # 63 doublings are more than any number of rows takes.
    with grid([const(63)]) as (_,), T.If(state[1] < rows), T.Then():
        width = state[1]
        with grid([tirx.floordiv(rows + 2 * width - 1, 2 * width)]) as (run,):
            begin = T.bind(run * 2 * state[1])
            middle = T.bind(tirx.min(begin + state[1], rows))
            end = T.bind(tirx.min(middle + state[1], rows))
            _merge((order, spare, state, places), x, begin, middle, end)
        with grid([rows]) as (i,):
            T.buffer_store(order, spare[i], [i])
        T.buffer_store(state, state[1] * 2, [1])


def _merge(
    buffers: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer, tirx.Buffer],
    x: tirx.Buffer,
    begin: tirx.Expr,
    middle: tirx.Expr,
    end: tirx.Expr,
) -> None:
    """Merge two neighbouring sorted runs; of equal rows that of the first run comes first."""
    order, spare, state, places = buffers

    T.buffer_store(places, begin, [0])
    T.buffer_store(places, middle, [1])
    with grid([end - begin]) as (k,):
        T.buffer_store(state, const(0), [0])
        with T.If(places[0] >= middle), T.Then():
            T.buffer_store(state, const(1), [0])
        with T.If(tirx.all(places[0] < middle, places[1] < end)), T.Then():
            _compare(state, x, order[places[0]], order[places[1]])
        with T.If(state[0] > 0):
            with T.Then():
                T.buffer_store(spare, order[places[1]], [begin + k])
                T.buffer_store(places, places[1] + 1, [1])
            with T.Else():
                T.buffer_store(spare, order[places[0]], [begin + k])
                T.buffer_store(places, places[0] + 1, [0])


def _group(outputs: list[tirx.Buffer], x: tirx.Buffer, order: tirx.Buffer, is_sorted: bool) -> None:
    """Write the first position and the number of each distinct row, and which one each row is."""
    first, inverse, counts, total, leader, name, state = outputs
    rows = x.shape[0]
    T.buffer_store(total, const(0), [0])
    # Equal rows are neighbours in sorted order, the first of them first: it leads them.
    with grid([rows]) as (i,):
        T.buffer_store(counts, const(0), [i])
        T.buffer_store(state, const(1), [0])
        with T.If(i > 0), T.Then():
            _compare(state, x, order[i - 1], order[i])
        with T.If(state[0] == 0):
            with T.Then():
                T.buffer_store(leader, leader[order[i - 1]], [order[i]])
            with T.Else():
                T.buffer_store(leader, order[i], [order[i]])
    with grid([rows]) as (i,):
        at = T.bind(order[i] if is_sorted else i)
        with T.If(leader[at] == at), T.Then():
            T.buffer_store(name, total[0], [at])
            T.buffer_store(first, at, [total[0]])
            T.buffer_store(total, total[0] + 1, [0])
    with grid([rows]) as (i,):
        at = T.bind(name[leader[i]])
        T.buffer_store(inverse, at, [i])
        T.buffer_store(counts, counts[at] + 1, [at])
