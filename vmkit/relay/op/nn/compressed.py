"""Sparse matrices in compressed rows: CSR, and BSR, whose elements are blocks.

The elements of row r, data[e] at column indices[e], are those from indptr[r] to below indptr[r + 1]. Whoever reads them
goes where the data says, so the kernels here run only after :func:`check_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr, const
from ...ir.types import Dim, TensorType, Type
from ..elementwise import require_tensor
from ..index import require_integers
from ..kernel import as_index, grid, loops
from ..kernel import const as number

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = [
    "SparseMatrix",
    "block_of",
    "block_value",
    "check_rows",
    "elements_of",
    "matrix_operands",
    "require_matrix",
    "row_count",
]

_INDPTR = "{name}: indptr must not decrease, and must stay within the elements of the sparse matrix"
_WHOLE = "{name}: indptr must not decrease, begin with 0 and end with the number of elements of the sparse matrix"
_INDICES = "{name}: an index of the sparse matrix lies outside of its columns"


@runtime_checkable
class SparseMatrix(Protocol):
    """A sparse matrix, such as one of scipy."""

    data: Expr | np.ndarray
    indices: Expr | np.ndarray
    indptr: Expr | np.ndarray


def matrix_operands(matrix: SparseMatrix | Sequence[Expr | np.ndarray]) -> list[Expr]:
    """Return data, indices and indptr of a sparse matrix: a tuple of three, or an object with fields of these names.

    Arrays, such as those of a matrix of scipy, become constants.
    """
    if isinstance(matrix, SparseMatrix):
        parts = [matrix.data, matrix.indices, matrix.indptr]
    else:
        parts = [matrix[k] for k in range(3)]
    return [p if isinstance(p, Expr) else const(np.asarray(p)) for p in parts]


def require_matrix(data: Type, indices: Type, indptr: Type, ranks: Sequence[int]) -> TensorType:
    """Return the type of a sparse matrix's data; TypeCheckError unless the three make a matrix.

    Parameters
    ----------
    data, indices, indptr : Type
        The three tensors.
    ranks : sequence of int
        The numbers of dimensions that data may have: 1 for CSR, 2 for blocks of one column, 3 for BSR.
    """
    elements = require_tensor(data, "sparse_data")
    if len(elements.shape) not in ranks:
        allowed = " or ".join(str(r) for r in ranks)
        raise TypeCheckError(f"sparse_data must have {allowed} dimensions, not {len(elements.shape)}: {elements}")
    for name, ty in (("sparse_indices", indices), ("sparse_indptr", indptr)):
        if len(require_integers(ty, name).shape) != 1:
            raise TypeCheckError(f"{name} must be a vector, not {ty}")
    if dims.equal(elements.shape[0], indices.shape[0]) is False:
        raise TypeCheckError(f"there are {elements.shape[0]} sparse_data and {indices.shape[0]} sparse_indices")
    if dims.equal(indptr.shape[0], 0):
        raise TypeCheckError("sparse_indptr is empty; it has one element more than the matrix has rows of blocks")
    return elements


def block_of(data: Sequence[Dim]) -> tuple[Dim, Dim]:
    """Return height and width of the blocks, from the shape of a sparse matrix's data."""
    return (data[1] if len(data) > 1 else 1), (data[2] if len(data) > 2 else 1)


def block_value(data: tirx.Buffer, element: tirx.Expr, row: tirx.Expr, column: tirx.Expr) -> tirx.Expr:
    """Return the value at a row and a column of a block, in a kernel."""
    return data[(element, row, column)[: len(data.shape)]]


def row_count(indptr: Sequence[Dim]) -> Dim:
    """Return the number of rows of blocks, from the shape of indptr."""
    return dims.sub(indptr[0], 1)


@contextmanager
def elements_of(indptr: tirx.Buffer, row: tirx.Expr) -> Iterator[Any]:
    """Open the loop over the elements of a row of blocks, in a kernel, and give the position of the element."""
    first = T.Bind(as_index(indptr[row]))
    with grid([as_index(indptr[row + 1]) - first]) as (k,):
        yield first + k


def check_rows(context: LowerContext, matrix: Sequence[relax.Expr], columns: Dim, *, whole: bool = False) -> None:
    """Check at run time that a sparse matrix holds together, so that what reads it stays inside of the tensors.

    Parameters
    ----------
    context : LowerContext
        Where the check goes.
    matrix : sequence of relax.Expr
        Data, indices and indptr.
    columns : dimension
        The number of columns, counted in blocks.
    whole : bool
        Whether every element must belong to a row.
    """
    data, indices, indptr = matrix
    name = context.operator
    count, (length,) = context.shape(data)[0], context.shape(indptr)
    message = f"{name}: there are {{actual}} sparse_indices and {{expected}} sparse_data"
    context.require_equal(context.shape(indices)[0], count, message)
    if not isinstance(length, int):
        context.require(length >= 1, f"{name}: sparse_indptr is empty")

    def body(outputs: list[tirx.Buffer], indices: tirx.Buffer, indptr: tirx.Buffer, sizes: list[Any]) -> None:
        (wrong,) = outputs
        rows, count, columns = sizes
        for k in range(2):
            T.buffer_store(wrong, number(0), [number(k)])

        def note(which: int, condition: tirx.Expr) -> None:
            with T.If(condition), T.Then():
                T.buffer_store(wrong, number(1), [number(which)])

        if whole:
            note(0, tirx.any(as_index(indptr[number(0)]) != 0, as_index(indptr[rows]) != count))
        with grid([rows]) as (row,):
            first, last = as_index(indptr[row]), as_index(indptr[row + 1])
            note(0, tirx.any(first < 0, last < first, last > count))
        with T.If(wrong[number(0)] == 0), T.Then(), grid([rows]) as (row,), elements_of(indptr, row) as at:
            position = as_index(indices[at])
            note(1, tirx.any(position < 0, position >= columns))

    sizes = [dims.as_expr(d) for d in (row_count([length]), count, columns)]
    wrong = context.read_dims(loops(context, [([2], "int64")], body, indices, indptr, sizes, name="check_rows"))
    for flag, text in zip(wrong, (_WHOLE if whole else _INDPTR, _INDICES), strict=True):
        context.require_equal(flag, 0, text.format(name=name))
