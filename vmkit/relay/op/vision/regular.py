"""Non-maximum suppression over all classes, as TFLite has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Call
from ...ir.tuple_wrapper import TupleWrapper
from ...ir.types import TensorType, TupleType, Type
from ..attrs import Attrs, Float, Int, attrs_node
from ..kernel import Result, as_index, grid, loops
from ..registry import OpPattern, operator
from .boxes import descending, require_boxes, require_scores, same_dim

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

_F32 = "float32"


@attrs_node("relay.attrs.RegularNonMaximumSuppressionAttrs")
class RegularNonMaximumSuppressionAttrs(Attrs):
    """Attributes of vision.regular_non_max_suppression."""

    max_detections_per_class: Int
    max_detections: Int
    num_classes: Int
    iou_threshold: Float
    score_threshold: Float


@operator(
    "vision.regular_non_max_suppression",
    "boxes",
    "scores",
    attrs=RegularNonMaximumSuppressionAttrs,
    level=5,
    pattern=OpPattern.OPAQUE,
)
class RegularNonMaxSuppression:
    """The max_detections best boxes over all classes, after suppression in each, as TFLite's detection gives them.

    boxes holds (ymin, xmin, ymax, xmax), scores (batch, boxes, classes), where the classes before the last num_classes
    are background and left out. A box takes part whose score reaches score_threshold, and is dropped if it overlaps
    a better one by more than iou_threshold. Gives (boxes, classes, scores, how many there are); what is past them is 0.
    """

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        return TupleWrapper(call, 4)

    @staticmethod
    def relation(attrs: RegularNonMaximumSuppressionAttrs, boxes: Type, scores: Type) -> Type:
        corners, by_class = require_boxes(boxes, 3, "boxes", 4), require_boxes(scores, 3, "scores")
        for value, name in ((attrs.max_detections, "max_detections"), (attrs.num_classes, "num_classes")):
            if value < 0:
                raise TypeCheckError(f"{name} must not be negative, it is {value}")
        (batch, count, _), (images, scored, classes) = corners.shape, by_class.shape
        same_dim(images, batch, "the batches of scores and boxes differ")
        same_dim(scored, count, "the numbers of boxes of scores and boxes differ")
        if dims.at_least(classes, attrs.num_classes) is False:
            raise TypeCheckError(f"num_classes is {attrs.num_classes}, but there are scores of {classes} classes")
        most = attrs.max_detections
        fields = [([batch, most, 4], _F32), ([batch, most], _F32), ([batch, most], _F32), ([batch], "int32")]
        return TupleType([TensorType(shape, dtype) for shape, dtype in fields])

    @staticmethod
    def lower(
        context: LowerContext, attrs: RegularNonMaximumSuppressionAttrs, boxes: relax.Expr, scores: relax.Expr
    ) -> tuple[relax.Expr, ...]:
        batch, count, classes = context.shape(scores)
        require_scores(context, context.shape(boxes), context.shape(scores), 0, 1)
        if not isinstance(classes, int):
            message = f"vision.regular_non_max_suppression: num_classes is {attrs.num_classes}, there are fewer scores"
            context.require(classes >= attrs.num_classes, message)
        order = descending(context, scores, [batch, count, classes], lambda i, s: (s(*i), None), axis=1)
        most = attrs.max_detections
        # The boxes that are left of the class at hand, how many, whether the box at hand is one of them, and where it
        # goes; and the box that stands for each detection.
        scratch: list[Result] = [([count], "int32"), ([3], "int64"), ([max(most, 1)], "int32")]
        results: list[Result] = [
            ([batch, most, 4], _F32),
            ([batch, most], _F32),
            ([batch, most], _F32),
            ([batch], "int32"),
        ]
        made = loops(context, [*results, *scratch], lambda *a: _write_detections(attrs, *a), boxes, scores, order)
        return made[:4]


def _write_detections(
    attrs: RegularNonMaximumSuppressionAttrs,
    outputs: list[tirx.Buffer],
    boxes: tirx.Buffer,
    scores: tirx.Buffer,
    order: tirx.Buffer,
) -> None:
    found, classes, values, counts, left, state, box_of = outputs
    batch, count, all_classes = scores.shape
    zero, one, most = tirx.const(0, "int64"), tirx.const(1, "int64"), attrs.max_detections
    background = all_classes - attrs.num_classes

    def corners(b: tirx.Expr, box: tirx.Expr) -> list[tirx.Expr]:
        return [T.bind(boxes[b, box, k].astype(_F32)) for k in range(4)]

    def insert(b: tirx.Expr, c: tirx.Expr, box: tirx.Expr, score: tirx.Expr) -> None:
        """Put a box behind all detections that are no worse; the last one falls off the end."""
        T.buffer_store(state, zero, [2])
        with grid([counts[b].astype("int64")]) as (k,), T.If(values[b, k] >= score), T.Then():
            T.buffer_store(state, k + 1, [2])
        with T.If(state[2] < most), T.Then():
            T.buffer_store(counts, tirx.min(counts[b] + 1, tirx.const(most, "int32")), [b])
            with grid([counts[b].astype("int64") - 1 - state[2]]) as (k,):
                to = T.bind(counts[b].astype("int64") - 1 - k)
                T.buffer_store(values, values[b, to - 1], [b, to])
                T.buffer_store(classes, classes[b, to - 1], [b, to])
                T.buffer_store(box_of, box_of[to - 1], [to])
            T.buffer_store(values, score, [b, state[2]])
            T.buffer_store(classes, c.astype(_F32), [b, state[2]])
            T.buffer_store(box_of, box.astype("int32"), [state[2]])

    with grid([batch]) as (b,):
        T.buffer_store(counts, tirx.const(0, "int32"), [b])
        with grid([most]) as (i,):
            T.buffer_store(values, tirx.const(0, _F32), [b, i])
            T.buffer_store(classes, tirx.const(0, _F32), [b, i])
        with grid([attrs.num_classes]) as (c,):
            T.buffer_store(state, zero, [0])
            with grid([count]) as (j,):
                box = T.bind(as_index(order[b, j, c + background]))
                score = T.bind(scores[b, box, c + background].astype(_F32))
                has_room = state[0] < attrs.max_detections_per_class
                with T.If(tirx.all(has_room, score >= tirx.const(attrs.score_threshold, _F32))), T.Then():
                    T.buffer_store(state, one, [1])
                    with grid([state[0]]) as (k,), T.If(state[1] == 1), T.Then():
                        shared = _upright_overlap(corners(b, as_index(left[k])), corners(b, box))
                        with T.If(shared > tirx.const(attrs.iou_threshold, _F32)), T.Then():
                            T.buffer_store(state, zero, [1])
                    with T.If(state[1] == 1), T.Then():
                        T.buffer_store(left, box.astype("int32"), [state[0]])
                        T.buffer_store(state, state[0] + 1, [0])
                        insert(b, c, box, score)
        with grid([most]) as (i,), grid([4]) as (k,):
            is_found = i < counts[b].astype("int64")
            value = tirx.if_then_else(is_found, boxes[b, as_index(box_of[i]), k].astype(_F32), tirx.const(0, _F32))
            T.buffer_store(found, value, [b, i, k])


def _upright_overlap(a: list[tirx.Expr], b: list[tirx.Expr]) -> tirx.Expr:
    """Return the intersection over union of two boxes; 0 where one is empty or has its corners swapped."""
    zero = tirx.const(0, _F32)
    area_a, area_b = T.bind((a[2] - a[0]) * (a[3] - a[1])), T.bind((b[2] - b[0]) * (b[3] - b[1]))
    height = tirx.max(tirx.min(a[2], b[2]) - tirx.max(a[0], b[0]), zero)
    width = tirx.max(tirx.min(a[3], b[3]) - tirx.max(a[1], b[1]), zero)
    both = T.bind(height * width)
    return T.bind(tirx.Select(tirx.all(area_a > zero, area_b > zero), both / (area_a + area_b - both), zero))
