"""The boxes of single-shot detectors: prior boxes at every pixel, and boxes predicted from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Call
from ...ir.tuple_wrapper import TupleWrapper
from ...ir.types import TensorType, TupleType, Type
from ..attrs import Attrs, Bool, Float, Floats, attrs_node, field
from ..elementwise import require_tensor
from ..kernel import Result, as_index, chosen, grid, indexed, loops
from ..nn.layout import require_rank
from ..registry import OpPattern, operator
from .boxes import fill_row, require_boxes, same_dim

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.MultiBoxPriorAttrs")
class MultiBoxPriorAttrs(Attrs):
    """Attributes of vision.multibox_prior."""

    sizes: Floats = (1.0,)
    ratios: Floats = (1.0,)
    steps: Floats = (-1.0, -1.0)
    offsets: Floats = (0.5, 0.5)
    clip: Bool = False


@operator("vision.multibox_prior", "data", attrs=MultiBoxPriorAttrs, level=5, pattern=OpPattern.OPAQUE)
class MultiBoxPrior:
    """The prior boxes (left, top, right, bottom) of a map of features, in parts of the image, pixel by pixel.

    A pixel has one box for each of sizes with the first of ratios, which counts as 1, and one with the first of sizes
    for each further ratio of width to height. The centers lie steps apart (y first; 1 by the size of the map where a
    step is not positive), offsets from the corner of the pixel.
    """

    @staticmethod
    def relation(attrs: MultiBoxPriorAttrs, data: Type) -> Type:
        source = require_tensor(data, "data")
        require_rank(source, 4, "data")
        if not attrs.sizes or not attrs.ratios:
            raise TypeCheckError("sizes and ratios must each hold a number at least")
        for value, name in ((attrs.steps, "steps"), (attrs.offsets, "offsets")):
            if len(value) != 2:
                raise TypeCheckError(f"{name} must hold two numbers, for y and x, not {list(value)}")
        count = len(attrs.sizes) + len(attrs.ratios) - 1
        return TensorType([1, dims.mul(dims.mul(source.shape[2], source.shape[3]), count), 4], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: MultiBoxPriorAttrs, data: relax.Expr) -> relax.Expr:
        _, _, height, width = context.shape(data)
        count = len(attrs.sizes) + len(attrs.ratios) - 1
        dtype = str(data.ty.dtype)
        ratios = [(s, 1.0) for s in attrs.sizes] + [(attrs.sizes[0], r) for r in list(attrs.ratios)[1:]]

        def f32(value: tirx.Expr | float) -> tirx.Expr:
            return tirx.const(value, "float32") if isinstance(value, float) else value.astype("float32")

        def element(index: tuple[tirx.Expr, ...], data: te.Tensor) -> tirx.Expr:
            _, box, side = index
            height, width = data.shape[2:]
            pixel, kind = tirx.floordiv(box, count), tirx.floormod(box, count)
            places = (tirx.floordiv(pixel, width), tirx.floormod(pixel, width))
            centers = [
                (f32(p) + f32(o)) * (f32(s) if s > 0 else f32(1.0) / f32(e))
                for p, o, s, e in zip(places, attrs.offsets, attrs.steps, (height, width), strict=True)
            ]
            across = chosen(kind, [f32(s) * f32(height) / f32(width) * f32(r**0.5) * f32(0.5) for s, r in ratios])
            down = chosen(kind, [f32(s / r**0.5 / 2) for s, r in ratios])
            sides = [centers[1] - across, centers[0] - down, centers[1] + across, centers[0] + down]
            value = chosen(side, sides)
            if attrs.clip:
                value = tirx.max(tirx.min(value, f32(1.0)), f32(0.0))
            return value.astype(dtype)

        return indexed(context, [1, dims.mul(dims.mul(height, width), count), 4], element, data)


@attrs_node("relay.attrs.MultiBoxTransformLocAttrs")
class MultiBoxTransformLocAttrs(Attrs):
    """Attributes of vision.multibox_transform_loc."""

    clip: Bool = field(True, doc="Whether the boxes end at the borders of the image.")
    threshold: Float = field(0.01, doc="The least probability of a box that is kept.")
    variances: Floats = field((0.1, 0.1, 0.2, 0.2), doc="What the moves of x, y, width and height are multiplied by.")
    keep_background: Bool = field(False, doc="Whether boxes of the background are kept.")


@operator(
    "vision.multibox_transform_loc",
    "cls_prob",
    "loc_pred",
    "anchor",
    attrs=MultiBoxTransformLocAttrs,
    level=5,
    pattern=OpPattern.OPAQUE,
)
class MultiBoxTransformLoc:
    """The boxes that predictions make of prior boxes, each (class, score, left, top, right, bottom).

    cls_prob holds (batch, classes, boxes) with class 0 the background, loc_pred the moves of center and size (batch,
    4 * boxes), anchor the prior boxes (1, boxes, 4). Boxes whose class is the background are left out, or kept with
    keep_background, which also keeps the numbers of classes; without, they start after the background. Gives (the
    boxes, how many each image has); what is past them is -1.
    """

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        return TupleWrapper(call, 2)

    @staticmethod
    def relation(attrs: MultiBoxTransformLocAttrs, cls_prob: Type, loc_pred: Type, anchor: Type) -> Type:
        scores, moves = require_boxes(cls_prob, 3, "cls_prob"), require_boxes(loc_pred, 2, "loc_pred")
        priors = require_boxes(anchor, 3, "anchor", 4)
        if len({scores.dtype, moves.dtype, priors.dtype}) != 1:
            raise TypeCheckError(f"cls_prob {scores}, loc_pred {moves} and anchor {priors} must have one data type")
        if len(attrs.variances) != 4:
            raise TypeCheckError(f"variances must hold 4 numbers, not {list(attrs.variances)}")
        batch, _, count = scores.shape
        same_dim(priors.shape[1], count, "the numbers of boxes of anchor and cls_prob differ")
        same_dim(moves.shape[1], dims.mul(count, 4), "the dimension of loc_pred is not 4 times the number of boxes")
        same_dim(moves.shape[0], batch, "the batches of loc_pred and cls_prob differ")
        if dims.equal(priors.shape[0], 0):
            raise TypeCheckError("anchor must hold one set of prior boxes, not none")
        count = priors.shape[1] if dims.is_any(count) else count
        return TupleType([TensorType([batch, count, 6], scores.dtype), TensorType([batch], "int32")])

    @staticmethod
    def lower(
        context: LowerContext,
        attrs: MultiBoxTransformLocAttrs,
        cls_prob: relax.Expr,
        loc_pred: relax.Expr,
        anchor: relax.Expr,
    ) -> tuple[relax.Expr, ...]:
        name = context.operator
        batch, _, count = context.shape(cls_prob)
        (images, moves), (sets, priors, width) = context.shape(loc_pred), context.shape(anchor)
        for actual, expected, what in (
            (images, batch, "a batch of {actual} in loc_pred and of {expected} in cls_prob"),
            (moves, dims.mul(count, 4), "loc_pred holds {actual} numbers, the boxes need {expected}"),
            (priors, count, "{actual} prior boxes and scores for {expected}"),
            (width, 4, "a prior box has {actual} numbers, expected {expected}"),
        ):
            context.require_equal(actual, expected, f"{name}: {what}")
        if not isinstance(sets, int):
            context.require(sets >= 1, f"{name}: anchor must hold one set of prior boxes, not none")
        dtype = str(cls_prob.ty.dtype)

        def body(outputs: list[tirx.Buffer], cls_prob: tirx.Buffer, loc_pred: tirx.Buffer, anchor: tirx.Buffer) -> None:
            boxes, counts, best = outputs
            batch, classes, count = cls_prob.shape
            with grid([batch]) as (i,):
                T.buffer_store(counts, tirx.const(0, "int32"), [i])
                with grid([count]) as (j,):
                    fill_row(boxes, i, j, 6)
                with grid([count]) as (j,):
                    _find_class(attrs, cls_prob, best, i, j, classes)
                    at = T.bind(as_index(counts[i]))
                    with T.If(tirx.const(True) if attrs.keep_background else best[1] > _zero()), T.Then():
                        first = 0.0 if attrs.keep_background else 1.0
                        T.buffer_store(boxes, (best[1] - tirx.const(first, "float32")).astype(dtype), [i, at, 0])
                        T.buffer_store(boxes, best[0].astype(dtype), [i, at, 1])
                        for side, value in enumerate(_moved(attrs, loc_pred, anchor, i, j)):
                            T.buffer_store(boxes, value.astype(dtype), [i, at, 2 + side])
                        T.buffer_store(counts, counts[i] + 1, [i])

        # The score and the class of the box at hand.
        results: list[Result] = [([batch, count, 6], dtype), ([batch], "int32"), ([2], "float32")]
        return loops(context, results, body, cls_prob, loc_pred, anchor)[:2]


def _zero() -> tirx.Expr:
    return tirx.const(0, "float32")


def _find_class(
    attrs: MultiBoxTransformLocAttrs,
    cls_prob: tirx.Buffer,
    best: tirx.Buffer,
    i: tirx.Expr,
    j: tirx.Expr,
    classes: tirx.Expr,
) -> None:
    """Write the highest score of a box and its class; the class is the background's where the score is too low."""
    T.buffer_store(best, tirx.const(-1, "float32"), [0])
    T.buffer_store(best, _zero(), [1])
    start = 0 if attrs.keep_background else 1
    with grid([classes]) as (k,):
        score = T.bind(cls_prob[i, k, j].astype("float32"))
        with T.If(tirx.all(k >= start, score > best[0])), T.Then():
            T.buffer_store(best, score, [0])
            T.buffer_store(best, k.astype("float32"), [1])
    with T.If(best[0] < tirx.const(attrs.threshold, "float32")), T.Then():
        T.buffer_store(best, _zero(), [1])


def _moved(
    attrs: MultiBoxTransformLocAttrs, loc_pred: tirx.Buffer, anchor: tirx.Buffer, i: tirx.Expr, j: tirx.Expr
) -> list[tirx.Expr]:
    """Return the sides of the box that predictions make of the prior box j."""
    dtype = "float64" if str(loc_pred.dtype) == "float64" else "float32"
    half = tirx.const(0.5, dtype)
    left, top, right, bottom = [T.bind(anchor[0, j, c].astype(dtype)) for c in range(4)]
    moves = [T.bind(loc_pred[i, j * 4 + c].astype(dtype) * tirx.const(v, dtype)) for c, v in enumerate(attrs.variances)]
    x = T.bind(moves[0] * (right - left) + (left + right) * half)
    y = T.bind(moves[1] * (bottom - top) + (top + bottom) * half)
    w = T.bind(tirx.exp(moves[2]) * (right - left) * half)
    h = T.bind(tirx.exp(moves[3]) * (bottom - top) * half)
    sides = [x - w, y - h, x + w, y + h]
    if not attrs.clip:
        return sides
    one, zero = tirx.const(1, dtype), tirx.const(0, dtype)
    return [tirx.max(zero, tirx.min(one, s)) for s in sides]
