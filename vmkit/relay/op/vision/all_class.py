"""Non-maximum suppression of each class by itself, as ONNX and TensorFlow have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.tuple_wrapper import TupleWrapper
from ...ir.types import Any as AnyDim
from ...ir.types import TensorType, TupleType, Type
from ..attrs import Attrs, Str, attrs_node, field
from ..create import require_scalar
from ..index import require_integers
from ..kernel import Result, as_index, grid, loops
from ..registry import OpPattern, Parameters, entry, operator
from .boxes import descending, number, overlap, require_boxes, require_scores, same_dim, scalar

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

_F32 = "float32"


@attrs_node("relay.attrs.AllClassNonMaximumSuppressionAttrs")
class AllClassNonMaximumSuppressionAttrs(Attrs):
    """Attributes of vision.all_class_non_max_suppression."""

    output_format: Str = field("onnx", doc="What the result is like, onnx or tensorflow.")


@operator(
    "vision.all_class_non_max_suppression",
    "boxes",
    "scores",
    "max_output_boxes_per_class",
    "iou_threshold",
    "score_threshold",
    attrs=AllClassNonMaximumSuppressionAttrs,
    level=5,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters(
        given={"max_output_boxes_per_class": -1, "iou_threshold": -1.0, "score_threshold": -1.0},
    ),
)
class AllClassNonMaxSuppression:
    """The boxes (batch, boxes, 4) that are left for each class by its scores (batch, classes, boxes), best first.

    A box takes part whose score is above score_threshold and above -1; it is dropped if its score is positive and it
    overlaps a better box by iou_threshold or more. No more than max_output_boxes_per_class are left, where that is
    positive; none at all where iou_threshold is not positive.

    For "onnx", gives the (batch, class, box) of each box that is left, -1 past them, and how many there are in all. For
    "tensorflow", gives the (class, box) of each and its score, by image, 0 past them, and how many each image has.
    """

    @staticmethod
    def make(
        boxes: Expr,
        scores: Expr,
        max_output_boxes_per_class: int | Expr,
        iou_threshold: float | Expr,
        score_threshold: float | Expr,
        output_format: str,
    ) -> TupleWrapper:
        made = entry("vision.all_class_non_max_suppression").call(
            boxes,
            scores,
            number(max_output_boxes_per_class, "int32"),
            number(iou_threshold, _F32),
            number(score_threshold, _F32),
            output_format=output_format,
        )
        return TupleWrapper(made, 2 if output_format == "onnx" else 3)

    @staticmethod
    def relation(
        attrs: AllClassNonMaximumSuppressionAttrs,
        boxes: Type,
        scores: Type,
        max_output_boxes_per_class: Type,
        iou_threshold: Type,
        score_threshold: Type,
    ) -> Type:
        corners, by_class = require_boxes(boxes, 3, "boxes", 4), require_boxes(scores, 3, "scores")
        require_integers(
            require_scalar(max_output_boxes_per_class, "max_output_boxes_per_class"), "max_output_boxes_per_class"
        )
        require_scalar(iou_threshold, "iou_threshold")
        require_scalar(score_threshold, "score_threshold")
        if attrs.output_format not in ("onnx", "tensorflow"):
            raise TypeCheckError(f"output_format must be onnx or tensorflow, not {attrs.output_format!r}")
        (batch, count, _), (images, classes, scored) = corners.shape, by_class.shape
        same_dim(images, batch, "the batches of scores and boxes differ")
        same_dim(scored, count, "the numbers of boxes of scores and boxes differ")
        most = dims.mul(classes, count)
        if attrs.output_format == "onnx":
            # Relay took nothing from the scores, and left the number unknown wherever that of the boxes is.
            rows = AnyDim() if dims.is_any(batch) or dims.is_any(count) else dims.mul(batch, most)
            return TupleType([TensorType([rows, 3], "int64"), TensorType([1], "int64")])
        indices, values = TensorType([batch, most, 2], "int64"), TensorType([batch, most], _F32)
        return TupleType([indices, values, TensorType([batch], "int64")])

    @staticmethod
    def lower(
        context: LowerContext,
        attrs: AllClassNonMaximumSuppressionAttrs,
        boxes: relax.Expr,
        scores: relax.Expr,
        max_output_boxes_per_class: relax.Expr,
        iou_threshold: relax.Expr,
        score_threshold: relax.Expr,
    ) -> tuple[relax.Expr, ...]:
        require_scores(context, context.shape(boxes), context.shape(scores), 0, 2)
        batch, classes, count = context.shape(scores)
        order = descending(context, scores, [batch, classes, count], lambda i, s: (s(*i), None))
        operands = (boxes, scores, order, max_output_boxes_per_class, iou_threshold, score_threshold)
        most = dims.mul(classes, count)
        if attrs.output_format == "onnx":
            results: list[Result] = [([dims.mul(batch, most), 3], "int64"), ([1], "int64")]
            return loops(context, [*results, *_SCRATCH], _write_onnx, *operands)[:2]
        tensorflow: list[Result] = [([batch, most, 2], "int64"), ([batch, most], _F32), ([batch], "int64")]
        return loops(context, [*tensorflow, *_SCRATCH], _write_tensorflow, *operands)[:3]


# Of the class at hand, how many boxes are left; and whether the box at hand is one of them.
_SCRATCH: list[Result] = [([2], "int64")]


def _write_onnx(outputs: list[tirx.Buffer], boxes: tirx.Buffer, scores: tirx.Buffer, *more: tirx.Buffer) -> None:
    rows, total, state = outputs
    with grid([rows.shape[0], 3]) as (i, k):
        T.buffer_store(rows, tirx.const(-1, "int64"), [i, k])
    T.buffer_store(total, tirx.const(0, "int64"), [0])

    def append(b: tirx.Expr, c: tirx.Expr, box: tirx.Expr, score: tirx.Expr) -> None:
        for k, value in enumerate((b, c, box)):
            T.buffer_store(rows, value, [total[0], k])
        T.buffer_store(total, total[0] + 1, [0])

    with grid(list(scores.shape[:2])) as (b, c):
        _each_left(state, b, c, boxes, scores, more, append, lambda k: rows[total[0] - 1 - k, 2])


def _write_tensorflow(outputs: list[tirx.Buffer], boxes: tirx.Buffer, scores: tirx.Buffer, *more: tirx.Buffer) -> None:
    indices, values, totals, state = outputs
    with grid(list(indices.shape[:2])) as (b, i):
        T.buffer_store(values, tirx.const(0, _F32), [b, i])
        for k in range(2):
            T.buffer_store(indices, tirx.const(0, "int64"), [b, i, k])

    def append(b: tirx.Expr, c: tirx.Expr, box: tirx.Expr, score: tirx.Expr) -> None:
        T.buffer_store(indices, c, [b, totals[b], 0])
        T.buffer_store(indices, box, [b, totals[b], 1])
        T.buffer_store(values, score, [b, totals[b]])
        T.buffer_store(totals, totals[b] + 1, [b])

    with grid([scores.shape[0]]) as (b,):
        T.buffer_store(totals, tirx.const(0, "int64"), [b])
        with grid([scores.shape[1]]) as (c,):
            _each_left(state, b, c, boxes, scores, more, append, lambda k, b=b: indices[b, totals[b] - 1 - k, 1])


def _each_left(
    state: tirx.Buffer,
    b: tirx.Expr,
    c: tirx.Expr,
    boxes: tirx.Buffer,
    scores: tirx.Buffer,
    more: tuple[tirx.Buffer, ...],
    append: Callable[..., None],
    last: Callable[..., tirx.Expr],
) -> None:
    """Hand each box that is left of a class to `append`; `last(k)` reads back the k-th last of them."""
    order, limit, iou_threshold, score_threshold = more
    most, least_overlap, least = scalar(limit, "int64"), scalar(iou_threshold, _F32), scalar(score_threshold, _F32)
    zero, one = tirx.const(0, "int64"), tirx.const(1, "int64")

    def corners(box: tirx.Expr) -> list[tirx.Expr]:
        return [T.bind(boxes[b, box, k].astype(_F32)) for k in range(4)]

    T.buffer_store(state, zero, [0])
    with T.If(least_overlap > tirx.const(0, _F32)), T.Then(), grid([scores.shape[2]]) as (j,):
        box = T.bind(as_index(order[b, c, j]))
        score = T.bind(scores[b, c, box].astype(_F32))
        has_room = tirx.any(most <= 0, state[0] < most)
        with T.If(tirx.all(has_room, score > least, score > tirx.const(-1, _F32))), T.Then():
            T.buffer_store(state, one, [1])
            with T.If(score > tirx.const(0, _F32)), T.Then(), grid([state[0]]) as (k,), T.If(state[1] == 1), T.Then():
                shared = overlap(corners(last(k)), corners(box))
                with T.If(shared >= least_overlap), T.Then():
                    T.buffer_store(state, zero, [1])
            with T.If(state[1] == 1), T.Then():
                append(b, c, box, score)
                T.buffer_store(state, state[0] + 1, [0])
