"""The inverse of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Type
from .elementwise import require_tensor
from .kernel import Result, as_index, const, loops
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


@operator("contrib.inverse", "data", level=10, pattern=OpPattern.OPAQUE)
class Inverse:
    """The inverse of each matrix of a stack, in floating point; of a singular one the elements are not finite."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        tensor = require_tensor(data)
        if len(tensor.shape) < 2 or dims.equal(tensor.shape[-1], tensor.shape[-2]) is False:
            raise TypeCheckError(f"the data must be square matrices, not {tensor}")
        if not tensor.dtype.startswith("float"):
            raise TypeCheckError(f"the data must be of a floating-point type, not {tensor.dtype}")
        return tensor

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr) -> relax.Expr:
        shape, dtype = context.shape(data), str(data.ty.dtype)
        context.require_equal(
            shape[-2], shape[-1], "contrib.inverse: a matrix has {actual} rows and {expected} columns"
        )
        wide = "float64" if dtype == "float64" else "float32"
        # What is being eliminated, and the row of the pivot, are kept beside the result.
        results: list[Result] = [(shape, wide), (shape, wide), ([1], "int64")]
        result = loops(context, results, _gauss_jordan, data, name="inverse")[0]
        return result if wide == dtype else context.emit(relax.op.astype(result, dtype))


def _at(lead: list[tirx.Expr], *index: tirx.Expr) -> tuple[tirx.Expr, ...]:
    return (*lead, *index)


def _gauss_jordan(outputs: list[tirx.Buffer], data: tirx.Buffer) -> None:
    """Eliminate column by column, with the largest element of a column as its pivot."""
    result, rest, pivot = outputs
    wide = str(result.dtype)
    size = data.shape[-1]
    stack = list(data.shape[:-2])
    count: Any = const(1)
    for d in stack:
        count = count * d
    one, zero = tirx.const(1.0, wide), tirx.const(0.0, wide)
    with T.serial(0, dims.as_expr(count)) as flat:
        lead: list[Any] = []
        left = flat
        for d in reversed(stack):
            lead.insert(0, tirx.floormod(left, d))
            left = tirx.floordiv(left, d)
        with T.serial(0, size) as i, T.serial(0, size) as j:
            T.buffer_store(rest, data[_at(lead, i, j)].astype(wide), [*lead, i, j])
            T.buffer_store(result, tirx.Select(i == j, one, zero), [*lead, i, j])
        with T.serial(0, size) as c:
            T.buffer_store(pivot, c, [0])
            with T.serial(0, size - c - 1) as k:
                row = c + 1 + k
                best = rest[_at(lead, as_index(pivot[0]), c)]
                with T.If(tirx.abs(rest[_at(lead, row, c)]) > tirx.abs(best)), T.Then():
                    T.buffer_store(pivot, row, [0])
            with T.If(pivot[0] != c), T.Then(), T.serial(0, size) as j:
                for matrix in (rest, result):
                    _swap(matrix, lead, c, pivot[0], j)
            _scale_row(rest, result, lead, c, size)
            with T.serial(0, size) as i, T.If(i != c), T.Then():
                _take_off(rest, result, lead, i, c, size)


def _swap(matrix: tirx.Buffer, lead: list[tirx.Expr], a: tirx.Expr, b: tirx.Expr, column: tirx.Expr) -> None:
    """Swap two elements of a column."""
    first = T.bind(matrix[_at(lead, a, column)])
    T.buffer_store(matrix, matrix[_at(lead, b, column)], [*lead, a, column])
    T.buffer_store(matrix, first, [*lead, b, column])


def _scale_row(rest: tirx.Buffer, result: tirx.Buffer, lead: list[tirx.Expr], row: tirx.Expr, size: tirx.Expr) -> None:
    factor = T.bind(rest[_at(lead, row, row)])
    with T.serial(0, size) as j:
        for matrix in (rest, result):
            T.buffer_store(matrix, matrix[_at(lead, row, j)] / factor, [*lead, row, j])


def _take_off(
    rest: tirx.Buffer,
    result: tirx.Buffer,
    lead: list[tirx.Expr],
    row: tirx.Expr,
    pivot: tirx.Expr,
    size: tirx.Expr,
) -> None:
    factor = T.bind(rest[_at(lead, row, pivot)])
    with T.serial(0, size) as j:
        for matrix in (rest, result):
            value = matrix[_at(lead, row, j)] - factor * matrix[_at(lead, pivot, j)]
            T.buffer_store(matrix, value, [*lead, row, j])
