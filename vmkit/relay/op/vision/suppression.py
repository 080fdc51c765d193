"""Non-maximum suppression of boxes that carry their score and class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir.expr import Expr
from ...ir.tuple_wrapper import TupleWrapper
from ...ir.types import TensorType, TupleType, Type
from ..agreement import may_agree
from ..attrs import Attrs, Bool, Int, attrs_node, field
from ..create import require_scalar
from ..index import require_integers
from ..kernel import Result, as_index, const, grid, inside, loops
from ..nn.layout import require_rank
from ..registry import OpPattern, Parameters, entry, operator
from .boxes import (
    copy_row,
    count_of,
    descending,
    fill_row,
    number,
    overlap,
    require_boxes,
    require_column,
    require_columns,
    same_dim,
    scalar,
    wider,
)

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.NonMaximumSuppressionAttrs")
class NonMaximumSuppressionAttrs(Attrs):
    """Attributes of vision.non_max_suppression."""

    force_suppress: Bool = field(False, doc="Whether boxes suppress those of other classes, too.")
    top_k: Int = field(-1, doc="How many of the best boxes are looked at; all where it is not positive.")
    coord_start: Int = field(2, doc="Where in a row the corners begin.")
    score_index: Int = field(1, doc="Where in a row the score is.")
    id_index: Int = field(0, doc="Where in a row the class is; nowhere where it is negative.")
    return_indices: Bool = field(True, doc="Whether the result is which boxes are left, not the boxes.")
    invalid_to_bottom: Bool = field(False, doc="Whether the boxes that are left come first.")


@operator(
    "vision.non_max_suppression",
    "data",
    "valid_count",
    "indices",
    "max_output_size",
    "iou_threshold",
    attrs=NonMaximumSuppressionAttrs,
    level=5,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters(given={"max_output_size": -1, "iou_threshold": 0.5}),
)
class NonMaxSuppression:
    """Boxes from the highest score down, without those that overlap a better one of their class too much.

    A box of data is a row with a class, a score and two corners; only the first valid_count of an image are looked at,
    and of them the top_k best where top_k is positive. Dropped boxes become -1. A score that is not positive neither
    counts towards max_output_size, nor suppresses, nor is suppressed. An iou_threshold that is not positive leaves
    the boxes as they are.

    Gives the boxes, with the dropped ones in between unless invalid_to_bottom is set; or, with return_indices, the
    element of indices that stands for each box that is left, -1 past them, and how many there are.
    """

    @staticmethod
    def make(
        data: Expr,
        valid_count: Expr,
        indices: Expr,
        max_output_size: int | Expr,
        iou_threshold: float | Expr,
        return_indices: bool,
        **values: Any,
    ) -> Expr | TupleWrapper:
        limits = number(max_output_size, "int32"), number(iou_threshold, "float32")
        given = data, valid_count, indices, *limits
        made = entry("vision.non_max_suppression").call(*given, return_indices=return_indices, **values)
        return TupleWrapper(made, 2) if return_indices else made

    @staticmethod
    def relation(
        attrs: NonMaximumSuppressionAttrs,
        data: Type,
        valid_count: Type,
        indices: Type,
        max_output_size: Type,
        iou_threshold: Type,
    ) -> Type:
        boxes, counts = require_boxes(data, 3, "data"), require_integers(valid_count, "valid_count")
        batch, count, width = boxes.shape
        require_rank(counts, 1, "valid_count")
        same_dim(counts.shape[0], batch, "the batches of valid_count and data differ")
        require_integers(require_scalar(max_output_size, "max_output_size"), "max_output_size")
        require_scalar(iou_threshold, "iou_threshold")
        require_column(attrs.coord_start, attrs.coord_start + 3, width, "coord_start")
        require_column(attrs.score_index, attrs.score_index, width, "score_index")
        require_column(max(attrs.id_index, 0), attrs.id_index, width, "id_index")
        if not attrs.return_indices:
            return boxes
        rows = require_integers(indices, "indices")
        if not may_agree(rows.shape, (batch, count)):
            raise TypeCheckError(f"indices must have shape ({batch}, {count}), an element for each box, not {rows}")
        return TupleType([TensorType([batch, count], "int32"), TensorType([batch, 1], "int32")])

    @staticmethod
    def lower(
        context: LowerContext,
        attrs: NonMaximumSuppressionAttrs,
        data: relax.Expr,
        valid_count: relax.Expr,
        indices: relax.Expr,
        max_output_size: relax.Expr,
        iou_threshold: relax.Expr,
    ) -> relax.Expr | tuple[relax.Expr, ...]:
        name = context.operator
        batch, count, width = context.shape(data)
        require_columns(context, width, attrs.coord_start + 3, attrs.score_index, attrs.id_index)
        context.require_equal(
            context.shape(valid_count)[0], batch, f"{name}: {{actual}} valid counts for a batch of {{expected}}"
        )
        order = descending(
            context,
            data,
            [batch, count],
            lambda i, x, valid: (x(*i, attrs.score_index), i[1] < as_index(valid(i[0]))),
            valid_count,
        )
        boxes, picked = _suppressed(context, attrs, data, order, valid_count, max_output_size, iou_threshold)
        if attrs.return_indices:
            message = f"{name}: indices must have an element for each of {{expected}} boxes, not {{actual}}"
            for have, want in zip(context.shape(indices), (batch, count), strict=True):
                context.require_equal(have, want, message)
            return _picked_indices(context, picked, indices)
        return _valid_first(context, boxes) if attrs.invalid_to_bottom else boxes


def _suppressed(
    context: LowerContext, attrs: NonMaximumSuppressionAttrs, data: relax.Expr, *more: relax.Expr
) -> tuple[relax.Expr, ...]:
    """Return the boxes in order with the dropped ones -1, and the position in data of each, or -1."""
    dtype = str(data.ty.dtype)
    batch, count, width = context.shape(data)
    wide = wider(dtype, str(more[-1].ty.dtype))

    def body(
        outputs: list[tirx.Buffer],
        data: tirx.Buffer,
        order: tirx.Buffer,
        valid: tirx.Buffer,
        limit: tirx.Buffer,
        threshold: tirx.Buffer,
    ) -> None:
        boxes, picked, kept, state = outputs
        batch, count, width = data.shape
        most, least_overlap = scalar(limit, "int64"), scalar(threshold, wide)

        def may_suppress(i: tirx.Expr, k: tirx.Expr, j: tirx.Expr) -> tirx.Expr:
            """Return whether the classes let the box in row k suppress that in row j."""
            if attrs.id_index < 0:
                return tirx.const(True)
            suppressor = boxes[i, k, attrs.id_index]
            is_same = tirx.const(True) if attrs.force_suppress else suppressor == boxes[i, j, attrs.id_index]
            return tirx.all(suppressor >= tirx.const(0, dtype), is_same)

        def corners(i: tirx.Expr, j: tirx.Expr) -> list[tirx.Expr]:
            return [boxes[i, j, attrs.coord_start + c].astype(wide) for c in range(4)]

        def decide(i: tirx.Expr, j: tirx.Expr) -> None:
            """Keep or drop the box that stands in row j."""
            with T.If(as_index(state[0]) == most):
                with T.Then():
                    T.buffer_store(picked, tirx.const(-1, "int32"), [i, j])
                    fill_row(boxes, i, j, width)
                with T.Else(), T.If(boxes[i, j, attrs.score_index] > tirx.const(0, dtype)), T.Then():
                    T.buffer_store(state, tirx.const(1, "int32"), [1])
                    with grid([as_index(state[0])]) as (at,):
                        k = as_index(kept[at])
                        with T.If(tirx.all(state[1] == 1, may_suppress(i, k, j))), T.Then():
                            shared = overlap(corners(i, j), corners(i, k))
                            with T.If(shared >= least_overlap), T.Then():
                                T.buffer_store(state, tirx.const(0, "int32"), [1])
                    with T.If(state[1] == 1):
                        with T.Then():
                            T.buffer_store(kept, j.astype("int32"), [as_index(state[0])])
                            T.buffer_store(state, state[0] + 1, [0])
                        with T.Else():
                            T.buffer_store(picked, tirx.const(-1, "int32"), [i, j])
                            fill_row(boxes, i, j, width)

        with grid([batch]) as (i,):
            with grid([count]) as (j,):
                T.buffer_store(picked, tirx.const(-1, "int32"), [i, j])
                fill_row(boxes, i, j, width)
            total = T.bind(count_of(valid[i], count))
            with T.If(least_overlap > tirx.const(0, wide)):
                with T.Then():
                    best = T.bind(tirx.min(total, const(attrs.top_k)) if attrs.top_k > 0 else total)
                    with grid([best]) as (j,):
                        T.buffer_store(picked, order[i, j], [i, j])
                        copy_row(boxes, (i, j), data, (i, as_index(order[i, j])), width)
                    T.buffer_store(state, tirx.const(0, "int32"), [0])
                    with grid([best]) as (j,):
                        decide(i, j)
                with T.Else(), grid([total]) as (j,):
                    T.buffer_store(picked, j.astype("int32"), [i, j])
                    copy_row(boxes, (i, j), data, (i, j), width)

    # The rows that are kept so far, how many they are, and whether the box at hand is one of them.
    scratch: list[Result] = [([count], "int32"), ([2], "int32")]
    results: list[Result] = [([batch, count, width], dtype), ([batch, count], "int32"), *scratch]
    return loops(context, results, body, data, *more)[:2]


def _picked_indices(context: LowerContext, picked: relax.Expr, indices: relax.Expr) -> tuple[relax.Expr, ...]:
    """Return the elements of indices at the positions that are not negative, to the front, and their number."""
    batch, count = context.shape(picked)

    def body(outputs: list[tirx.Buffer], picked: tirx.Buffer, indices: tirx.Buffer) -> None:
        result, counts = outputs
        batch, count = picked.shape
        with grid([batch]) as (i,):
            T.buffer_store(counts, tirx.const(0, "int32"), [i, 0])
            with grid([count]) as (j,):
                T.buffer_store(result, tirx.const(-1, "int32"), [i, j])
            with grid([count]) as (j,), T.If(picked[i, j] >= 0), T.Then():
                index = T.bind(indices[i, inside(as_index(picked[i, j]), count)].astype("int32"))
                with T.If(index >= 0), T.Then():
                    T.buffer_store(result, index, [i, as_index(counts[i, 0])])
                    T.buffer_store(counts, counts[i, 0] + 1, [i, 0])

    return loops(context, [([batch, count], "int32"), ([batch, 1], "int32")], body, picked, indices, name="nms_indices")


def _valid_first(context: LowerContext, boxes: relax.Expr) -> relax.Expr:
    """Return the boxes whose first number is not negative at the front; -1 past them."""
    shape, dtype = context.shape(boxes), str(boxes.ty.dtype)

    def body(outputs: list[tirx.Buffer], boxes: tirx.Buffer) -> None:
        result, counts = outputs
        batch, count, width = boxes.shape
        with grid([batch]) as (i,):
            T.buffer_store(counts, const(0), [0])
            with grid([count]) as (j,):
                fill_row(result, i, j, width)
            with grid([count]) as (j,), T.If(boxes[i, j, 0] >= tirx.const(0, dtype)), T.Then():
                copy_row(result, (i, counts[0]), boxes, (i, j), width)
                T.buffer_store(counts, counts[0] + 1, [0])

    return loops(context, [(shape, dtype), ([1], "int64")], body, boxes, name="nms_valid_first")[0]
