"""Operators whose results depend on the values of the data: where something is, and the distinct elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir.expr import Call
from ..ir.tuple_wrapper import TupleWrapper
from ..ir.types import Any as AnyDim
from ..ir.types import TensorType, TupleType, Type
from .attrs import Attrs, Bool, attrs_node, field
from .elementwise import require_tensor
from .kernel import Result, as_index, const, grid, loops
from .ordering import is_nan
from .registry import OpPattern, Parameters, operator
from .sort import sorted_positions

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["Argwhere"]


@operator("argwhere", "condition", level=10, pattern=OpPattern.OPAQUE, mixed="follow")
class Argwhere:
    """The positions of the elements that are not zero, one row each, in order."""

    @staticmethod
    def relation(attrs: None, condition: Type) -> Type:
        return TensorType([AnyDim(), len(require_tensor(condition, "condition").shape)], "int32")

    @staticmethod
    def lower(context: LowerContext, attrs: None, condition: relax.Expr) -> relax.Expr:
        rank = len(context.shape(condition))

        def holds(value: tirx.Expr) -> tirx.Expr:
            return (
                value
                if str(value.ty.dtype) == "bool"
                else tirx.any(value != tirx.const(0, value.ty.dtype), is_nan(value))
            )

        def each(condition: tirx.Buffer, then: Callable[[list[tirx.Var], tirx.Buffer], None]) -> tirx.Buffer:
            """Write a loop over all positions, and return how many hold; within it, before this one.

            It is added without a branch: one that holds as it happens is foretold wrongly, which takes as long as ten
            elements.
            """
            before = T.alloc_buffer((1,), "int64", scope="local", layout=None)
            T.buffer_store(before, const(0), [0])
            with grid(list(condition.shape)) as i:
                then(i, before)
                T.buffer_store(before, before[0] + holds(condition[tuple(i)]).astype("int64"), [0])
            return before

        def count(outputs: list[tirx.Buffer], condition: tirx.Buffer) -> None:
            T.buffer_store(outputs[0], each(condition, lambda *_: None)[0], [0])

        def fill(outputs: list[tirx.Buffer], condition: tirx.Buffer) -> None:
            (rows,) = outputs

            def note(i: list[tirx.Var], before: tirx.Buffer) -> None:
                # Also of one that does not hold: the next that does takes its place.
                with T.If(before[0] < rows.shape[0]), T.Then():
                    for k in range(rank):
                        T.buffer_store(rows, i[k].astype("int32"), [before[0], k])

            each(condition, note)

        (found,) = context.read_dims(loops(context, [([1], "int64")], count, condition, name="argwhere_count"))
        return loops(context, [([found, rank], "int32")], fill, condition)


@attrs_node("relay.attrs.UniqueAttrs")
class UniqueAttrs(Attrs):
    """Attributes of unique."""

    sorted: Bool = field(True, doc="Whether the elements are in order; as they first appear otherwise.")
    return_counts: Bool = field(False, doc="Whether how often each element occurs is given too.")


@operator(
    "unique",
    "data",
    attrs=UniqueAttrs,
    level=3,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("data is_sorted return_counts", renamed={"is_sorted": "sorted"}),
)
class Unique:
    """The distinct elements of a vector, in order or as they first appear.

    Gives (elements, position of the first of each, which of them each input is, how many there are, and counts when
    asked for). All but the last but one are as long as the input; what is past the number of elements is 0.
    """

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        return TupleWrapper(call, 5 if call.attrs.return_counts else 4)

    @staticmethod
    def relation(attrs: UniqueAttrs, data: Type) -> Type:
        source = require_tensor(data)
        if len(source.shape) != 1:
            raise TypeCheckError(f"the input must be a vector, not {source}")
        (length,) = source.shape
        whole = TensorType([length], "int32")
        fields = [source, whole, whole, TensorType([1], "int32")]
        return TupleType([*fields, whole] if attrs.return_counts else fields)

    @staticmethod
    def lower(context: LowerContext, attrs: UniqueAttrs, data: relax.Expr) -> tuple[relax.Expr, ...]:
        shape = context.shape(data)
        order = sorted_positions(context, data, 0, True, "int32")
        vector = (shape, "int32")
        results: list[Result] = [(shape, str(data.ty.dtype)), vector, vector, ([1], "int32"), vector, vector]

        def body(outputs: list[tirx.Buffer], data: tirx.Buffer, order: tirx.Buffer) -> None:
            (length,) = data.shape
            elements, first, inverse, total, counts, name = outputs
            zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
            T.buffer_store(total, zero, [0])
            with grid([length]) as (i,):
                T.buffer_store(elements, tirx.const(0, str(data.dtype)), [i])
                T.buffer_store(first, zero, [i])
                T.buffer_store(counts, zero, [i])
            # Equal elements are neighbours in sorted order, the first of them first: it stands for its group.
            with grid([length]) as (i,):
                at = as_index(order[i])
                before = as_index(order[tirx.max(i - 1, const(0))])
                fresh = tirx.any(i == 0, data[at] != data[before])
                T.buffer_store(inverse, tirx.if_then_else(fresh, order[i], inverse[before]), [at])
            walk = [lambda i: as_index(order[i]), lambda i: i][0 if attrs.sorted else 1]
            with grid([length]) as (i,):
                at = walk(i)
                with T.If(as_index(inverse[at]) == at), T.Then():
                    T.buffer_store(name, total[0], [at])
                    T.buffer_store(elements, data[at], [as_index(total[0])])
                    T.buffer_store(first, at.astype("int32"), [as_index(total[0])])
                    T.buffer_store(total, total[0] + one, [0])
            with grid([length]) as (i,):
                group = name[as_index(inverse[i])]
                T.buffer_store(counts, counts[as_index(group)] + one, [as_index(group)])
                T.buffer_store(inverse, group, [i])

        made = loops(context, results, body, data, order)
        return made[:5] if attrs.return_counts else made[:4]
