"""Determinants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import TensorType, Type
from .elementwise import require_tensor
from .kernel import grid, loops
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []

_WIDE = "float64"


@operator("contrib.det", "data", level=10, pattern=OpPattern.OPAQUE)
class Determinant:
    """The determinant of each square matrix that the last two dimensions make.

    By Gauss's elimination with the largest pivot of a column, in float64.
    """

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        source = require_tensor(data)
        if len(source.shape) < 2 or dims.equal(source.shape[-1], source.shape[-2]) is False:
            raise TypeCheckError(f"the last two dimensions must make square matrices, not {source}")
        if not source.dtype.startswith(("float", "bfloat")):
            raise TypeCheckError(f"a determinant is of floats, not {source}")
        return TensorType(list(source.shape)[:-2], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr) -> relax.Expr:
        *outer, rows, columns = context.shape(data)
        context.require_equal(rows, columns, "contrib.det: a matrix has {actual} rows and {expected} columns")
        dtype = str(data.ty.dtype)

        def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
            out, matrix, pivot, product = outputs
            size = dims.as_expr(x.shape[-1])
            with grid(list(x.shape[:-2])) as i:
                T.buffer_store(product, tirx.const(1, _WIDE), [0])
                with grid([size, size]) as (r, c):
                    T.buffer_store(matrix, x[tuple([*i, r, c])].astype(_WIDE), [r, c])
                with grid([size]) as (k,):
                    _eliminate(matrix, pivot, product, k, size)
                T.buffer_store(out, product[0].astype(dtype), i)

        scratch: list[Any] = [([rows, columns], _WIDE), ([1], "int64"), ([1], _WIDE)]
        return loops(context, [(outer, dtype), *scratch], body, data)[0]


def _eliminate(matrix: tirx.Buffer, pivot: tirx.Buffer, product: tirx.Buffer, k: tirx.Expr, size: tirx.Expr) -> None:
    """Bring the largest element of what is left of a column to the diagonal, and clear the rows below it."""
    T.buffer_store(pivot, k, [0])
    with grid([size - k - 1]) as (r,):
        row = T.bind(k + 1 + r)
        with T.If(tirx.abs(matrix[row, k]) > tirx.abs(matrix[pivot[0], k])), T.Then():
            T.buffer_store(pivot, row, [0])
    with T.If(pivot[0] != k), T.Then():
        with grid([size]) as (c,):
            upper = T.bind(matrix[k, c])
            lower = T.bind(matrix[pivot[0], c])
            T.buffer_store(matrix, lower, [k, c])
            T.buffer_store(matrix, upper, [pivot[0], c])
        T.buffer_store(product, -product[0], [0])
    T.buffer_store(product, product[0] * matrix[k, k], [0])
    with T.If(matrix[k, k] != tirx.const(0, _WIDE)), T.Then(), grid([size - k - 1]) as (r,):
        row = T.bind(k + 1 + r)
        factor = T.bind(matrix[row, k] / matrix[k, k])
        with grid([size - k]) as (c,):
            column = T.bind(k + c)
            T.buffer_store(matrix, matrix[row, column] - factor * matrix[k, column], [row, column])
