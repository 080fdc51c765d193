"""Non-maximum suppression of each class by itself, with as many rows as there are boxes left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Any as AnyDim
from ...ir.types import TensorType, Type
from ..create import require_scalar
from ..index import require_integers
from ..kernel import as_index, const, grid, loops
from ..registry import OpPattern, operator
from .boxes import descending, overlap, require_boxes, require_scores, same_dim, scalar

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

_F32 = "float32"


@operator(
    "vision.contrib_class_non_max_suppression",
    "boxes", "scores", "limit", "iou_threshold", "score_threshold",
    level=10,
    pattern=OpPattern.OPAQUE,
)  # fmt: skip
class ClassNonMaxSuppression:
    """The (batch, class, box) of the boxes (batch, boxes, 4) that are left for each class by its scores, best first.

    scores is (batch, classes, boxes). A box takes part whose score is above score_threshold; it is dropped if it
    overlaps a better one by more than iou_threshold. At most limit boxes are left for a class; none for one below
    1.
    """

    @staticmethod
    def relation(
        attrs: None, boxes: Type, scores: Type, limit: Type, iou_threshold: Type, score_threshold: Type
    ) -> Type:
        corners, by_class = require_boxes(boxes, 3, "boxes", 4), require_boxes(scores, 3, "scores")
        require_integers(require_scalar(limit, "limit"), "limit")
        for ty, name in ((iou_threshold, "iou_threshold"), (score_threshold, "score_threshold")):
            if require_scalar(ty, name).dtype != _F32:
                raise TypeCheckError(f"{name} must be {_F32}, not {ty}")
        (batch, count, _), (images, _, scored) = corners.shape, by_class.shape
        same_dim(images, batch, "the batches of scores and boxes differ")
        same_dim(scored, count, "the numbers of boxes of scores and boxes differ")
        return TensorType([AnyDim(), 3], "int64")

    @staticmethod
    def lower(
        context: LowerContext, attrs: None, boxes: relax.Expr, scores: relax.Expr, *more: relax.Expr
    ) -> relax.Expr:
        require_scores(context, context.shape(boxes), context.shape(scores), 0, 2)
        batch, classes, count = context.shape(scores)
        order = descending(context, scores, [batch, classes, count], lambda i, s: (s(*i), None))
        whole = dims.product([batch, classes, count])
        results: list[Any] = [([whole, 3], "int64"), ([1], "int64"), ([2], "int64")]
        rows, total, _ = loops(context, results, _suppress, boxes, scores, order, *more)
        (found,) = context.read_dims(total)

        def shorten(outputs: list[tirx.Buffer], rows: tirx.Buffer) -> None:
            (out,) = outputs
            with grid(list(out.shape)) as i:
                T.buffer_store(out, rows[tuple(i)], i)

        return loops(context, [([found, 3], "int64")], shorten, rows, name="boxes_left")


def _suppress(
    outputs: list[tirx.Buffer], boxes: tirx.Buffer, scores: tirx.Buffer, order: tirx.Buffer, *more: tirx.Buffer
) -> None:
    rows, total, state = outputs
    most, most_overlap, least = scalar(more[0], "int64"), scalar(more[1], _F32), scalar(more[2], _F32)

    def corners(batch: tirx.Expr, box: tirx.Expr) -> list[tirx.Expr]:
        return [T.bind(boxes[batch, box, k].astype(_F32)) for k in range(4)]

    T.buffer_store(total, const(0), [0])
    with grid(list(scores.shape[:2])) as (b, c):
        T.buffer_store(state, const(0), [0])
        with grid([scores.shape[2]]) as (j,):
            box = T.bind(as_index(order[b, c, j]))
            with T.If(tirx.all(state[0] < most, scores[b, c, box].astype(_F32) > least)), T.Then():
                T.buffer_store(state, const(1), [1])
                with grid([state[0]]) as (k,), T.If(state[1] == 1), T.Then():
                    shared = overlap(corners(b, rows[total[0] - 1 - k, 2]), corners(b, box))
                    with T.If(shared > most_overlap), T.Then():
                        T.buffer_store(state, const(0), [1])
                with T.If(state[1] == 1), T.Then():
                    for place, value in enumerate((b, c, box)):
                        T.buffer_store(rows, value, [total[0], place])
                    T.buffer_store(total, total[0] + 1, [0])
                    T.buffer_store(state, state[0] + 1, [0])
