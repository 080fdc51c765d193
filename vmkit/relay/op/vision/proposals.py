"""The region proposal network's last step: anchors, moved by predictions, sorted by score, thinned out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Bool, Float, Floats, Int, attrs_node
from ..interpolate import wide_type
from ..kernel import Result, as_index, const, grid, loops
from ..registry import OpPattern, operator
from .boxes import descending, require_boxes, same_dim

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.ProposalAttrs")
class ProposalAttrs(Attrs):
    """Attributes of vision.proposal."""

    scales: Floats = (4.0, 8.0, 16.0, 32.0)
    ratios: Floats = (0.5, 1.0, 2.0)
    feature_stride: Int = 16
    threshold: Float = 0.7
    rpn_pre_nms_top_n: Int = 6000
    rpn_post_nms_top_n: Int = 300
    rpn_min_size: Int = 16
    iou_loss: Bool = False


@operator("vision.proposal", "cls_prob", "bbox_pred", "im_info", attrs=ProposalAttrs, level=5, pattern=OpPattern.OPAQUE)
class Proposal:
    """Regions of interest (image, left, top, right, bottom), rpn_post_nms_top_n for each image.

    cls_prob holds (batch, 2 * anchors, height, width), the second half the scores; bbox_pred (batch, 4 * anchors,
    height, width) how boxes differ from the anchors: moves of the center and logarithms of sizes, or with iou_loss
    moves of the sides; im_info (height, width, scale) of each image. A pixel is feature_stride pixels of the image
    apart from the next, and has an anchor for each of ratios and of scales. Of the rpn_pre_nms_top_n best boxes (all
    if that is not positive) those are left that overlap no better one by more than threshold; they repeat where they
    are too few. A box smaller than rpn_min_size times the scale of the image comes last.
    """

    @staticmethod
    def relation(attrs: ProposalAttrs, cls_prob: Type, bbox_pred: Type, im_info: Type) -> Type:
        scores, moves = require_boxes(cls_prob, 4, "cls_prob"), require_boxes(bbox_pred, 4, "bbox_pred")
        images = require_boxes(im_info, 2, "im_info", 3)
        if not attrs.scales or not attrs.ratios:
            raise TypeCheckError("scales and ratios must each hold a number at least")
        if any(v <= 0 for v in [*attrs.scales, *attrs.ratios, attrs.feature_stride]):
            raise TypeCheckError("scales, ratios and feature_stride must be positive")
        if attrs.rpn_post_nms_top_n < 0:
            raise TypeCheckError(f"rpn_post_nms_top_n must not be negative, it is {attrs.rpn_post_nms_top_n}")
        anchors = len(attrs.scales) * len(attrs.ratios)
        same_dim(scores.shape[1], 2 * anchors, f"cls_prob must have 2 numbers for each of {anchors} anchors")
        same_dim(moves.shape[1], 4 * anchors, f"bbox_pred must have 4 numbers for each of {anchors} anchors")
        for axis, name in ((0, "batches"), (2, "heights"), (3, "widths")):
            same_dim(moves.shape[axis], scores.shape[axis], f"the {name} of bbox_pred and cls_prob differ")
        same_dim(images.shape[0], scores.shape[0], "the batches of im_info and cls_prob differ")
        return TensorType([dims.mul(scores.shape[0], attrs.rpn_post_nms_top_n), 5], scores.dtype)

    @staticmethod
    def lower(
        context: LowerContext, attrs: ProposalAttrs, cls_prob: relax.Expr, bbox_pred: relax.Expr, im_info: relax.Expr
    ) -> relax.Expr:
        name, anchors = context.operator, len(attrs.scales) * len(attrs.ratios)
        batch, scores, height, width = context.shape(cls_prob)
        images, moves, rows, columns = context.shape(bbox_pred)
        infos, numbers = context.shape(im_info)
        for actual, expected, what in (
            (scores, 2 * anchors, "cls_prob has {actual} channels, expected {expected}"),
            (moves, 4 * anchors, "bbox_pred has {actual} channels, expected {expected}"),
            (images, batch, "a batch of {actual} in bbox_pred and of {expected} in cls_prob"),
            (rows, height, "bbox_pred is {actual} high, cls_prob {expected}"),
            (columns, width, "bbox_pred is {actual} wide, cls_prob {expected}"),
            (infos, batch, "a batch of {actual} in im_info and of {expected} in cls_prob"),
            (numbers, 3, "im_info has {actual} numbers for an image, expected {expected}"),
        ):
            context.require_equal(actual, expected, f"{name}: {what}")
        count = dims.mul(dims.mul(height, width), anchors)
        dtype = str(cls_prob.ty.dtype)
        predicted = [([batch, count, 5], wide_type(dtype))]
        boxes = loops(
            context, predicted, lambda *a: _predict(attrs, *a), cls_prob, bbox_pred, im_info, name="proposal_boxes"
        )
        order = descending(context, boxes, [batch, count], lambda i, x: (x(*i, 4), None))
        results: list[Result] = [
            ([dims.mul(batch, attrs.rpn_post_nms_top_n), 5], dtype),
            ([count], "int32"),
            ([2], "int64"),
        ]
        return loops(context, results, lambda *a: _thin(attrs, *a), boxes, order)[0]


def _anchor(ratio: float, scale: float, stride: int) -> tuple[float, float, float, float]:
    """Return the anchor (left, top, right, bottom) at the first pixel; sizes are rounded as in Faster R-CNN."""
    center = 0.5 * (stride - 1.0)
    width = math.floor(math.sqrt(math.floor(stride * stride / ratio)) + 0.5) * scale
    # Where this is a half, what the scale did to the last bit of the width says how it is rounded.
    height = math.floor(width / scale * ratio + 0.5) * scale
    half_width, half_height = 0.5 * (width - 1.0), 0.5 * (height - 1.0)
    return center - half_width, center - half_height, center + half_width, center + half_height


def _predict(
    attrs: ProposalAttrs,
    outputs: list[tirx.Buffer],
    cls_prob: tirx.Buffer,
    bbox_pred: tirx.Buffer,
    im_info: tirx.Buffer,
) -> None:
    """Write (left, top, right, bottom, score) of every anchor at every pixel, inside of its image."""
    (boxes,) = outputs
    wide = str(boxes.dtype)
    batch, _, height, width = cls_prob.shape
    anchors = [_anchor(r, s, attrs.feature_stride) for r in attrs.ratios for s in attrs.scales]
    zero, one, half, minus = (tirx.const(v, wide) for v in (0, 1, 0.5, -1))
    with grid([batch, height, width]) as (b, y, x):
        image = [T.bind(im_info[b, k].astype(wide)) for k in range(3)]
        stride = tirx.const(attrs.feature_stride, wide)
        least = T.bind(image[2] * tirx.const(attrs.rpn_min_size, wide))
        pixel = (y.astype(wide), x.astype(wide))
        # Pixels that only pad the map to the size of the batch.
        is_outside = T.bind(tirx.any(*[p >= tirx.trunc(e / stride) for p, e in zip(pixel, image[:2], strict=True)]))
        for k, anchor in enumerate(anchors):
            at = T.bind((y * width + x) * len(anchors) + k)
            moves = [T.bind(bbox_pred[b, 4 * k + c, y, x].astype(wide)) for c in range(4)]
            sides = [tirx.const(a, wide) + pixel[1 - c % 2] * stride for c, a in enumerate(anchor)]
            moved = _by_sides(sides, moves) if attrs.iou_loss else _by_center(sides, moves)
            moved = [T.bind(tirx.max(tirx.min(v, image[1 - c % 2] - one), zero)) for c, v in enumerate(moved)]
            is_small = T.bind(tirx.any(*[moved[c + 2] - moved[c] + one < least for c in range(2)]))
            grown = T.bind(tirx.Select(is_small, least * half, zero))
            for c, value in enumerate(moved):
                T.buffer_store(boxes, value - grown if c < 2 else value + grown, [b, at, c])
            score = cls_prob[b, len(anchors) + k, y, x].astype(wide)
            T.buffer_store(boxes, tirx.Select(tirx.any(is_outside, is_small), minus, score), [b, at, 4])


def _by_sides(sides: list[tirx.Expr], moves: list[tirx.Expr]) -> list[tirx.Expr]:
    return [side + move for side, move in zip(sides, moves, strict=True)]


def _by_center(sides: list[tirx.Expr], moves: list[tirx.Expr]) -> list[tirx.Expr]:
    wide = str(sides[0].ty.dtype)
    one, half = tirx.const(1, wide), tirx.const(0.5, wide)
    low, high = [], []
    for c in range(2):
        size = T.bind(sides[c + 2] - sides[c] + one)
        center = T.bind(moves[c] * size + sides[c] + half * (size - one))
        reach = T.bind(half * (tirx.exp(moves[c + 2]) * size - one))
        low.append(center - reach)
        high.append(center + reach)
    return [*low, *high]


def _thin(attrs: ProposalAttrs, outputs: list[tirx.Buffer], boxes: tirx.Buffer, order: tirx.Buffer) -> None:
    """Write the boxes that are left; they repeat until there are enough."""
    result, kept, state = outputs
    dtype, wide, wanted = str(result.dtype), str(boxes.dtype), attrs.rpn_post_nms_top_n
    batch, count, _ = boxes.shape
    best = tirx.min(count, const(attrs.rpn_pre_nms_top_n)) if attrs.rpn_pre_nms_top_n > 0 else count

    def corners(b: tirx.Expr, box: tirx.Expr) -> list[tirx.Expr]:
        return [T.bind(boxes[b, box, c]) for c in range(4)]

    with grid([batch]) as (b,):
        T.buffer_store(state, const(0), [0])
        # Boxes after those that fill the result change nothing.
        with grid([best]) as (j,), T.If(state[0] < wanted), T.Then():
            box = T.bind(as_index(order[b, j]))
            T.buffer_store(state, const(1), [1])
            with grid([state[0]]) as (k,), T.If(state[1] == 1), T.Then():
                shared = _pixel_overlap(corners(b, as_index(kept[k])), corners(b, box))
                with T.If(shared > tirx.const(attrs.threshold, wide)), T.Then():
                    T.buffer_store(state, const(0), [1])
            with T.If(state[1] == 1), T.Then():
                T.buffer_store(kept, box.astype("int32"), [state[0]])
                T.buffer_store(state, state[0] + 1, [0])
        with grid([wanted]) as (i,):
            T.buffer_store(result, b.astype(dtype), [b * wanted + i, 0])
            with grid([4]) as (c,), T.If(state[0] > 0):
                with T.Then():
                    box = as_index(kept[tirx.floormod(i, tirx.max(state[0], const(1)))])
                    T.buffer_store(result, boxes[b, box, c].astype(dtype), [b * wanted + i, c + 1])
                with T.Else():
                    T.buffer_store(result, tirx.const(0, dtype), [b * wanted + i, c + 1])


def _pixel_overlap(a: list[tirx.Expr], b: list[tirx.Expr]) -> tirx.Expr:
    """Return the intersection over union of two boxes whose right and bottom pixels belong to them."""
    one, zero = tirx.const(1, str(a[0].ty.dtype)), tirx.const(0, str(a[0].ty.dtype))

    def extent(low: tirx.Expr, high: tirx.Expr) -> tirx.Expr:
        return high - low + one

    shared = [tirx.max(zero, extent(tirx.max(a[c], b[c]), tirx.min(a[c + 2], b[c + 2]))) for c in range(2)]
    both = T.bind(shared[0] * shared[1])
    areas = [extent(x[0], x[2]) * extent(x[1], x[3]) for x in (a, b)]
    return T.bind(both / (areas[0] + areas[1] - both))
