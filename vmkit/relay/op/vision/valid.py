"""The selection of boxes by score, as it stands before non-maximum suppression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...ir.expr import Expr
from ...ir.tuple_wrapper import TupleWrapper
from ...ir.types import TensorType, TupleType, Type
from ..attrs import Attrs, Float, Int, attrs_node, field
from ..create import require_scalar
from ..kernel import as_index, grid, loops
from ..registry import OpPattern, Parameters, entry, operator
from .boxes import copy_row, fill_row, number, require_boxes, require_column, require_columns, scalar, wider

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.GetValidCountsAttrs")
class GetValidCountsAttrs(Attrs):
    """Attributes of vision.get_valid_counts. The threshold is an input; the attribute of its name was never used."""

    score_threshold: Float | None = None
    id_index: Int = field(0, doc="Where in a row the class is; nowhere where it is negative.")
    score_index: Int = field(1, doc="Where in a row the score is.")


@operator(
    "vision.get_valid_counts",
    "data",
    "score_threshold",
    attrs=GetValidCountsAttrs,
    level=5,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("data score_threshold id_index score_index"),
)
class GetValidCounts:
    """The boxes of each image whose score is above a threshold and whose class is not negative, moved to the front.

    Gives (how many there are, the boxes, the position of each in the input); what is past them is -1.
    """

    @staticmethod
    def make(data: Expr, score_threshold: float | Expr, **values: int) -> TupleWrapper:
        threshold = number(score_threshold, "float32")
        return TupleWrapper(entry("vision.get_valid_counts").call(data, threshold, **values), 3)

    @staticmethod
    def relation(attrs: GetValidCountsAttrs, data: Type, score_threshold: Type) -> Type:
        boxes = require_boxes(data, 3, "data")
        require_scalar(score_threshold, "score_threshold")
        require_column(attrs.score_index, attrs.score_index, boxes.shape[2], "score_index")
        require_column(max(attrs.id_index, 0), attrs.id_index, boxes.shape[2], "id_index")
        batch, count, _ = boxes.shape
        return TupleType([TensorType([batch], "int32"), boxes, TensorType([batch, count], "int32")])

    @staticmethod
    def lower(
        context: LowerContext, attrs: GetValidCountsAttrs, data: relax.Expr, score_threshold: relax.Expr
    ) -> tuple[relax.Expr, ...]:
        batch, count, width = context.shape(data)
        dtype = str(data.ty.dtype)
        wide = wider(dtype, str(score_threshold.ty.dtype))
        require_columns(context, width, attrs.score_index, attrs.id_index)

        def body(outputs: list[tirx.Buffer], data: tirx.Buffer, score_threshold: tirx.Buffer) -> None:
            counts, boxes, indices = outputs
            batch, count, width = data.shape
            with grid([batch]) as (i,):
                T.buffer_store(counts, tirx.const(0, "int32"), [i])
                with grid([count]) as (j,):
                    T.buffer_store(indices, tirx.const(-1, "int32"), [i, j])
                    fill_row(boxes, i, j, width)
                with grid([count]) as (j,):
                    keeps = data[i, j, attrs.score_index].astype(wide) > scalar(score_threshold, wide)
                    if attrs.id_index >= 0:
                        keeps = tirx.all(keeps, data[i, j, attrs.id_index] >= tirx.const(0, dtype))
                    with T.If(keeps), T.Then():
                        at = T.bind(as_index(counts[i]))
                        T.buffer_store(indices, j.astype("int32"), [i, at])
                        copy_row(boxes, (i, at), data, (i, j), width)
                        T.buffer_store(counts, counts[i] + 1, [i])

        results = [([batch], "int32"), ([batch, count, width], dtype), ([batch, count], "int32")]
        return loops(context, results, body, data, score_threshold)
