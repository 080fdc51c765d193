"""Operators that replace elements by their position: masks, triangles, diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.expr import const as relay_const
from ..ir.types import Dim, TensorType, Type
from .agreement import may_agree, require_agreed
from .attrs import Attrs, Bool, Float, Int, attrs_node, field
from .create import require_scalar
from .elementwise import require_tensor
from .index import require_integers
from .kernel import as_index, const, indexed
from .registry import OpPattern, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["SequenceMask"]


@attrs_node("relay.attrs.SequenceMaskAttrs")
class SequenceMaskAttrs(Attrs):
    """Attributes of sequence_mask."""

    mask_value: Float = 0.0
    axis: Int = 0


@operator("sequence_mask", "data", "valid_length", attrs=SequenceMaskAttrs, level=10, pattern=OpPattern.INJECTIVE)
class SequenceMask:
    """The input with mask_value from valid_length on: axis 0 or 1 is the sequence, the other one the batch."""

    @staticmethod
    def relation(attrs: SequenceMaskAttrs, data: Type, valid_length: Type) -> Type:
        source, lengths = require_tensor(data), require_tensor(valid_length, "valid_length")
        if attrs.axis not in (0, 1) or len(source.shape) < 2:
            raise TypeCheckError(f"axis is {attrs.axis}; it must be 0 or 1 of at least 2 dimensions")
        batch = source.shape[1 - attrs.axis]
        if len(lengths.shape) != 1 or dims.equal(lengths.shape[0], batch) is False:
            raise TypeCheckError(f"valid_length must be a vector of {batch} lengths, not {lengths}")
        return source

    @staticmethod
    def lower(
        context: LowerContext, attrs: SequenceMaskAttrs, data: relax.Expr, valid_length: relax.Expr
    ) -> relax.Expr:
        shape = context.shape(data)
        context.require_equal(
            context.shape(valid_length)[0],
            shape[1 - attrs.axis],
            "sequence_mask: there are {actual} lengths for a batch of {expected}",
        )

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, lengths: te.Tensor) -> tirx.Expr:
            dtype = str(lengths.dtype)
            masked = i[attrs.axis].astype(dtype) >= lengths(i[1 - attrs.axis])
            return tirx.Select(masked, tirx.const(attrs.mask_value, str(data.dtype)), data(*i))

        return indexed(context, shape, element, data, valid_length)


@attrs_node("relay.attrs.TriluAttrs")
class TriluAttrs(Attrs):
    """Attributes of trilu."""

    upper: Bool = field(True, doc="Whether the upper triangle is kept, or the lower one.")


@operator("trilu", "data", "k", attrs=TriluAttrs, level=3, pattern=OpPattern.ELEMWISE, by_place=True)
class Trilu:
    """The upper (or lower) triangle of the last two dimensions from diagonal k on; 0 elsewhere."""

    @staticmethod
    def make(data: Expr, k: int | Expr, upper: bool) -> Expr:
        return entry("trilu").call(data, k if isinstance(k, Expr) else relay_const(k, "int32"), upper=upper)

    @staticmethod
    def relation(attrs: TriluAttrs, data: Type, k: Type) -> Type:
        source = require_tensor(data)
        require_scalar(require_integers(k, "k"), "k")
        if len(source.shape) < 2:
            raise TypeCheckError(f"the input must have at least 2 dimensions, not {source}")
        return source

    @staticmethod
    def lower(context: LowerContext, attrs: TriluAttrs, data: relax.Expr, k: relax.Expr) -> relax.Expr:
        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, k: te.Tensor) -> tirx.Expr:
            offset, diagonal = i[-1] - i[-2], as_index(k(*[const(0)] * len(k.shape)))
            kept = offset >= diagonal if attrs.upper else offset <= diagonal
            return tirx.Select(kept, data(*i), tirx.const(0, str(data.dtype)))

        return indexed(context, context.shape(data), element, data, k)


@attrs_node("relay.attrs.MatrixSetDiagAttrs")
class MatrixSetDiagAttrs(Attrs):
    """Attributes of matrix_set_diag."""

    k1: Int = 0
    k2: Int = 0
    super_diag_right_align: Bool = True
    sub_diag_right_align: Bool = False


_RIGHT_ALIGN = ("super_diag_right_align", "sub_diag_right_align")
_DIAGONAL: int = MatrixSetDiagAttrs.default("k1")
_ALIGN = "_".join("RIGHT" if MatrixSetDiagAttrs.default(name) else "LEFT" for name in _RIGHT_ALIGN)


@operator("matrix_set_diag", "input", "diagonal", attrs=MatrixSetDiagAttrs, level=10, pattern=OpPattern.INJECTIVE)
class MatrixSetDiag:
    """The input with the diagonals k1 to k2 of its last two dimensions replaced.

    diagonal has one row for every diagonal, from k2 down, padded where a diagonal is shorter: at the left when it is
    aligned right.
    """

    @staticmethod
    def build(data: Expr, diagonal: Expr, k: int | Sequence[int] = _DIAGONAL, align: str = _ALIGN) -> Expr:
        k1, k2 = (k, k) if isinstance(k, int) else (k[0], k[-1])
        words = align.split("_")
        if len(words) != 2 or not set(words) <= {"LEFT", "RIGHT"}:
            raise TypeCheckError(f"align is {align!r}; it is LEFT or RIGHT of the upper, then of the lower diagonals")
        aligned = {name: word == "RIGHT" for name, word in zip(_RIGHT_ALIGN, words, strict=True)}
        return entry("matrix_set_diag").call(data, diagonal, k1=k1, k2=k2, **aligned)

    @staticmethod
    def expected(attrs: MatrixSetDiagAttrs, shape: list[Dim]) -> list[Dim]:
        """Return the shape that the diagonals must have."""
        k1, k2 = attrs.k1, attrs.k2
        if len(shape) < 2 or k1 > k2:
            raise TypeCheckError(f"k1 {k1} must not be above k2 {k2}, and the input must have at least 2 dimensions")
        rows, columns = shape[-2], shape[-1]
        if all(isinstance(d, int) for d in (rows, columns)) and not (-rows < k1 and k2 < columns):
            raise TypeCheckError(f"diagonals {k1} to {k2} are outside a matrix of {rows} x {columns}")
        longest = dims.minimum(dims.add(rows, min(k2, 0)), dims.sub(columns, max(k1, 0)))
        return [*shape[:-2], *([] if k1 == k2 else [k2 - k1 + 1]), longest]

    @staticmethod
    def relation(attrs: MatrixSetDiagAttrs, data: Type, diagonal: Type) -> Type:
        source, given = require_tensor(data), require_tensor(diagonal, "diagonal")
        wanted = TensorType(MatrixSetDiag.expected(attrs, list(source.shape)), source.dtype)
        if not may_agree(wanted.shape, given.shape) or source.dtype != given.dtype:
            raise TypeCheckError(f"diagonal is {given}; for this input it must be {wanted}")
        return source

    @staticmethod
    def lower(context: LowerContext, attrs: MatrixSetDiagAttrs, data: relax.Expr, diagonal: relax.Expr) -> relax.Expr:
        shape = context.shape(data)
        require_agreed(context, context.shape(diagonal), MatrixSetDiag.expected(attrs, shape), "diagonal")
        k1, k2 = attrs.k1, attrs.k2

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, diagonal: te.Tensor) -> tirx.Expr:
            rows, columns = data.shape[-2], data.shape[-1]
            k, longest = i[-1] - i[-2], diagonal.shape[-1]
            along = tirx.Select(k >= 0, i[-2], i[-1])
            length = tirx.min(rows + tirx.min(k, 0), columns - tirx.max(k, 0))
            right = tirx.Select(
                k >= 0, const(int(attrs.super_diag_right_align)), const(int(attrs.sub_diag_right_align))
            )
            at = along + right * (longest - length)
            row = [] if k1 == k2 else [k2 - k]
            return tirx.if_then_else(tirx.all(k >= k1, k <= k2), diagonal(*i[:-2], *row, at), data(*i))

        return indexed(context, shape, element, data, diagonal)
