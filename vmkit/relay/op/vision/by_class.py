"""Non-maximum suppression of each class by itself, with as many rows as there are boxes left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Any as AnyDim
from ...ir.types import TensorType, Type
from ..create import require_scalar
from ..digit_sort import DIGITS, DigitSort, ordered_bits
from ..index import require_integers
from ..kernel import as_index, const, grid, loops
from ..registry import OpPattern, operator
from .boxes import area, overlap_of_sides, require_boxes, require_scores, same_dim, scalar, sides

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

_F32 = "float32"
_LANES = 16
"""How many boxes a box is compared with at once."""


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
        whole = dims.product([batch, classes, count])
        padded = dims.add(count, _LANES)
        results: list[Any] = [
            ([whole, 3], "int64"),
            ([1], "int64"),
            ([2, count], "uint64"),
            ([DIGITS], "int64"),
            *[([padded], _F32)] * 5,
        ]
        rows, total, *_ = loops(context, results, _suppress, boxes, scores, *more)
        (found,) = context.read_dims(total)

        def shorten(outputs: list[tirx.Buffer], rows: tirx.Buffer) -> None:
            (out,) = outputs
            with grid(list(out.shape)) as i:
                T.buffer_store(out, rows[tuple(i)], i)

        return loops(context, [([found, 3], "int64")], shorten, rows, name="boxes_left")


def _suppress(outputs: list[tirx.Buffer], boxes: tirx.Buffer, scores: tirx.Buffer, *limits: tirx.Buffer) -> None:
    rows, total, words, counts, *kept = outputs
    most, most_overlap, least = scalar(limits[0], "int64"), scalar(limits[1], _F32), scalar(limits[2], _F32)
    ordered = _Ordered(words, counts)
    left = _Left(kept)
    found = T.alloc_buffer((1,), "int64", scope="local", layout=None)
    at = T.alloc_buffer((1,), "int64", scope="local", layout=None)
    T.buffer_store(found, const(0), [0])
    with grid(list(scores.shape[:2])) as (b, c):
        left.clear()
        half = ordered.sort(scores.shape[2], lambda i: scores[b, c, i].astype(_F32), least)
        T.buffer_store(at, const(0), [0])
        with T.While(tirx.all(at[0] < ordered.size[0], left.size[0] < most)):
            box = T.bind(ordered.box(half, at[0]))
            T.buffer_store(at, at[0] + 1, [0])
            corners = sides([T.bind(boxes[b, box, k].astype(_F32)) for k in range(4)])
            left.search(corners, most_overlap)
            with T.If(left.overlaps[0] == tirx.const(0, "int32")), T.Then():
                left.append(corners)
                for place, value in enumerate((b, c, box)):
                    T.buffer_store(rows, value, [found[0], place])
                T.buffer_store(found, found[0] + 1, [0])
    T.buffer_store(total, found[0], [0])


class _Ordered:
    """Writes the code that orders the boxes of a class that take part: words of a score and, below it, a box.

    Scores are float32, which leaves 32 bits of a word for the box.
    """

    def __init__(self, words: tirx.Buffer, counts: tirx.Buffer) -> None:
        self.words, self.by_digits = words, DigitSort(words, None, counts)
        self.size = T.alloc_buffer((1,), "int64", scope="local", layout=None)

    def sort(self, count: tirx.Expr, score: Callable[[tirx.Expr], tirx.Expr], least: tirx.Expr) -> tirx.Expr:
        """Order the boxes whose scores are above `least`, best first, and return the row of words that has them."""
        T.buffer_store(self.size, const(0), [0])
        below = tirx.const(32, "uint64")
        with grid([count]) as (i,):
            value = T.bind(score(i))
            word = ((ordered_bits(value) ^ tirx.const((1 << 32) - 1, "uint64")) << below) | i.astype("uint64")
            # Without a branch: the next word is written over one that does not take part.
            T.buffer_store(self.words, word, [const(0), self.size[0]])
            T.buffer_store(self.size, self.size[0] + (value > least).astype("int64"), [0])
        return self.by_digits.run(self.size[0], range(4, 8))

    def box(self, half: tirx.Expr, at: tirx.Expr) -> tirx.Expr:
        """Return the box in a place of the order."""
        return as_index(self.words[half, at] & tirx.const((1 << 32) - 1, "uint64"))


class _Left:
    """Writes the code that holds the boxes that are left of a class, and compares a box with several at once."""

    def __init__(self, kept: list[tirx.Buffer]) -> None:
        *self.sides, self.areas = kept
        self.size = T.alloc_buffer((1,), "int64", scope="local", layout=None)
        self.overlaps = T.alloc_buffer((1,), "int32", scope="local", layout=None)
        self.next = T.alloc_buffer((1,), "int64", scope="local", layout=None)

    def clear(self) -> None:
        T.buffer_store(self.size, const(0), [0])

    def append(self, box: Sequence[tirx.Expr]) -> None:
        for buffer, value in zip(self.sides, box, strict=True):
            T.buffer_store(buffer, value, [self.size[0]])
        T.buffer_store(self.areas, area(box), [self.size[0]])
        T.buffer_store(self.size, self.size[0] + 1, [0])

    def search(self, box: Sequence[tirx.Expr], most_overlap: tirx.Expr) -> None:
        """Say in `overlaps` whether one of the boxes overlaps this one by more than `most_overlap`."""
        own = T.bind(area(box))
        T.buffer_store(self.overlaps, tirx.const(0, "int32"), [0])
        T.buffer_store(self.next, const(0), [0])
        with T.While(tirx.all(self.overlaps[0] == tirx.const(0, "int32"), self.next[0] < self.size[0])):
            with grid([const(_LANES)]) as (lane,):
                at = self.next[0] + lane
                other = [T.bind(buffer[at]) for buffer in self.sides]
                shared = overlap_of_sides(other, box, self.areas[at], own)
                hits = tirx.all(at < self.size[0], shared > most_overlap)
                T.buffer_store(self.overlaps, self.overlaps[0] | hits.astype("int32"), [0])
            T.buffer_store(self.next, self.next[0] + _LANES, [0])
