"""Operators on sparse matrices in compressed rows: products, sums, the transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.tuple_wrapper import TupleWrapper
from ...ir.types import Dim, TensorType, TupleType, Type
from ..attrs import Attrs, Bool, attrs_node, field
from ..elementwise import require_tensor
from ..kernel import as_index, const, grid, loops
from ..registry import OpPattern, Parameters, entry, operator
from .compressed import (
    SparseMatrix,
    block_of,
    block_value,
    check_rows,
    elements_of,
    matrix_operands,
    require_matrix,
    row_count,
)
from .layout import require_rank
from .precision import accumulator, as_dtype

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["MATRICES", "converted", "require_same_dtype", "summed", "with_matrix"]

# The parameters of builders that take a sparse matrix as one thing, and the inputs in whose place they stand.
MATRICES = {"dense_mat": "dense_data", "sparse_mat": "sparse_data"}


@attrs_node("relay.attrs.SparseDenseAttrs")
class SparseDenseAttrs(Attrs):
    """Attributes of nn.sparse_dense and nn.internal.sparse_dense_padded."""

    sparse_lhs: Bool = field(False, doc="Whether the sparse matrix is the first operand.")


def require_same_dtype(dense: TensorType, sparse: TensorType) -> None:
    """Check that a dense and a sparse operand have one data type; TypeCheckError otherwise."""
    if dense.dtype != sparse.dtype:
        raise TypeCheckError(f"sparse_data are {sparse.dtype}, the dense tensor {dense.dtype}; cast one of them")


def with_matrix(name: str, dense_mat: Expr, sparse_mat: SparseMatrix | Sequence[Expr], **values: Any) -> Expr:
    """Return a call of an operator on a dense tensor and the three of a sparse matrix."""
    return entry(name).call(dense_mat, *matrix_operands(sparse_mat), **values)


def converted(context: LowerContext, value: relax.Expr, dtype: str) -> relax.Expr:
    """Return a lowered tensor in a data type; loops over bfloat16 cannot convert its elements one by one."""
    return value if str(value.ty.dtype) == dtype else context.te(lambda x: as_dtype(x, dtype), value, name="cast")


def summed(
    context: LowerContext,
    shape: Sequence[Dim],
    body: Callable[..., None],
    dense: relax.Expr,
    matrix: Sequence[relax.Expr],
    *sizes: Dim,
) -> relax.Expr:
    """Return what loops over a dense tensor and a sparse matrix write, computed in the data type of sums.

    The body gets the sizes as a list after the tensors, if there are any.
    """
    dtype = str(dense.ty.dtype)
    sums = accumulator(dtype)
    dense, data = (converted(context, v, sums) for v in (dense, matrix[0]))
    more = [[dims.as_expr(d) for d in sizes]] if sizes else []
    return converted(context, loops(context, [(shape, sums)], body, dense, data, *matrix[1:], *more), dtype)


def _product_type(attrs: SparseDenseAttrs, dense: Type, data: Type, indices: Type, indptr: Type) -> Type:
    matrix = require_tensor(dense, "dense_data")
    require_rank(matrix, 2, "dense_data")
    elements = require_matrix(data, indices, indptr, (1, 3))
    require_same_dtype(matrix, elements)
    rows = dims.mul(row_count(indptr.shape), block_of(elements.shape)[0])
    shape = [rows, matrix.shape[0]] if attrs.sparse_lhs else [matrix.shape[0], rows]
    return TensorType(shape, matrix.dtype)


def _product(context: LowerContext, attrs: SparseDenseAttrs, dense: relax.Expr, *matrix: relax.Expr) -> relax.Expr:
    count, inner = context.shape(dense)
    height, width = block_of(context.shape(matrix[0]))
    blocks = row_count(context.shape(matrix[2]))
    _require_width(context, width)
    check_rows(context, matrix, dims.floordiv(inner, width))
    rows, sums = dims.mul(blocks, height), accumulator(str(dense.ty.dtype))

    def body(
        outputs: list[tirx.Buffer],
        dense: tirx.Buffer,
        data: tirx.Buffer,
        indices: tirx.Buffer,
        indptr: tirx.Buffer,
        sizes: list[tirx.Expr],
    ) -> None:
        (out,) = outputs
        count, blocks, height, width = sizes

        def place(i: tirx.Expr, block: tirx.Expr, j: tirx.Expr) -> list[tirx.Expr]:
            row = block * height + j
            return [row, i] if attrs.sparse_lhs else [i, row]

        with grid([count, blocks]) as (i, block):
            with grid([height]) as (j,):
                T.buffer_store(out, tirx.const(0, sums), place(i, block, j))
            # The rows of a block are innermost, so that they fill the lanes of a vector.
            with elements_of(indptr, block) as at, grid([width]) as (k,):
                other = T.Bind(dense[i, as_index(indices[at]) * width + k])
                with grid([height]) as (j,):
                    to = place(i, block, j)
                    value = block_value(data, at, j, k)
                    T.buffer_store(out, out[tuple(to)] + value * other, to)

    shape = [rows, count] if attrs.sparse_lhs else [count, rows]
    return summed(context, shape, body, dense, matrix, count, blocks, height, width)


def _require_width(context: LowerContext, width: Dim) -> None:
    if not isinstance(width, int):
        context.require(width >= 1, f"{context.operator}: the blocks of the sparse matrix have no columns")
    elif width < 1:
        raise TypeCheckError("the blocks of the sparse matrix have no columns")


_PRODUCT_INPUTS = ("dense_data", "sparse_data", "sparse_indices", "sparse_indptr")


@operator(
    "nn.sparse_dense",
    *_PRODUCT_INPUTS,
    attrs=SparseDenseAttrs,
    level=1,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters("dense_mat sparse_mat sparse_lhs", renamed=MATRICES),
)
class SparseDense:
    """The product ``dense @ sparse.T``, or with sparse_lhs ``sparse @ dense.T``.

    The sparse matrix is CSR, or BSR with blocks of any height and width.
    """

    make = staticmethod(partial(with_matrix, "nn.sparse_dense"))
    relation = staticmethod(_product_type)
    lower = staticmethod(_product)


@operator(
    "nn.internal.sparse_dense_padded",
    *_PRODUCT_INPUTS,
    attrs=SparseDenseAttrs,
    level=1,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
)
class SparseDensePadded:
    """nn.sparse_dense of a matrix whose rows are filled up with zeros to a common multiple of elements."""

    relation = staticmethod(_product_type)
    lower = staticmethod(_product)


@operator(
    "nn.sparse_add",
    *_PRODUCT_INPUTS,
    level=1,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("dense_mat sparse_mat", renamed=MATRICES),
)
class SparseAdd:
    """The sum of a dense matrix and a sparse one (CSR)."""

    make = staticmethod(partial(with_matrix, "nn.sparse_add"))

    @staticmethod
    def relation(attrs: None, dense: Type, data: Type, indices: Type, indptr: Type) -> Type:
        matrix = require_tensor(dense, "dense_data")
        require_rank(matrix, 2, "dense_data")
        require_same_dtype(matrix, require_matrix(data, indices, indptr, (1,)))
        rows = row_count(indptr.shape)
        if dims.equal(rows, matrix.shape[0]) is False:
            raise TypeCheckError(f"the sparse matrix has {rows} rows, the dense one {matrix.shape[0]}")
        return matrix

    @staticmethod
    def lower(context: LowerContext, attrs: None, dense: relax.Expr, *matrix: relax.Expr) -> relax.Expr:
        rows, columns = context.shape(dense)
        message = "nn.sparse_add: the sparse matrix has {actual} rows, the dense one {expected}"
        context.require_equal(row_count(context.shape(matrix[2])), rows, message)
        check_rows(context, matrix, columns)

        def body(
            outputs: list[tirx.Buffer], dense: tirx.Buffer, data: tirx.Buffer, indices: tirx.Buffer, indptr: tirx.Buffer
        ) -> None:
            (out,) = outputs
            with grid(list(dense.shape)) as (row, column):
                T.buffer_store(out, dense[row, column], [row, column])
            with grid([dense.shape[0]]) as (row,), elements_of(indptr, row) as at:
                to = [row, as_index(indices[at])]
                T.buffer_store(out, data[at] + out[tuple(to)], to)

        return summed(context, [rows, columns], body, dense, matrix)


@attrs_node("relay.attrs.SparseTransposeAttrs")
class SparseTransposeAttrs(Attrs):
    """Attributes of nn.sparse_transpose: none."""


@operator(
    "nn.sparse_transpose",
    *_PRODUCT_INPUTS[1:],
    attrs=SparseTransposeAttrs,
    level=1,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("x", renamed={"x": "sparse_data"}),
)
class SparseTranspose:
    """The transpose of a square sparse matrix (CSR), as (data, indices, indptr).

    The algorithm is Gustavson's: "Two fast algorithms for sparse matrices" (1978).
    """

    @staticmethod
    def make(x: SparseMatrix | Sequence[Expr]) -> TupleWrapper:
        return TupleWrapper(entry("nn.sparse_transpose").call(*matrix_operands(x)), 3)

    @staticmethod
    def relation(attrs: SparseTransposeAttrs, data: Type, indices: Type, indptr: Type) -> Type:
        return TupleType([require_matrix(data, indices, indptr, (1,)), indices, indptr])

    @staticmethod
    def lower(context: LowerContext, attrs: SparseTransposeAttrs, *matrix: relax.Expr) -> tuple[relax.Expr, ...]:
        shapes, dtypes = [context.shape(v) for v in matrix], [str(v.ty.dtype) for v in matrix]
        size = row_count(shapes[2])
        check_rows(context, matrix, size, whole=True)

        def body(
            outputs: list[tirx.Buffer],
            data: tirx.Buffer,
            indices: tirx.Buffer,
            indptr: tirx.Buffer,
            sizes: list[tirx.Expr],
        ) -> None:
            values, rows, starts, free = outputs
            (size,) = sizes
            index, offset = str(indices.dtype), str(indptr.dtype)
            with grid([size + 1]) as (k,):
                T.buffer_store(starts, tirx.const(0, offset), [k])
            with grid(list(indices.shape)) as (at,):
                after = as_index(indices[at]) + 1
                T.buffer_store(starts, starts[after] + tirx.const(1, offset), [after])
            with grid([size]) as (k,):
                T.buffer_store(starts, starts[k + 1] + starts[k], [k + 1])
                T.buffer_store(free, as_index(starts[k]), [k])
            with grid([size]) as (row,), elements_of(indptr, row) as at:
                column = as_index(indices[at])
                T.buffer_store(values, data[at], [free[column]])
                T.buffer_store(rows, row.astype(index), [free[column]])
                T.buffer_store(free, free[column] + const(1), [column])

        results = [*zip(shapes, dtypes, strict=True), ([size], "int64")]
        return loops(context, results, body, *matrix, [dims.as_expr(size)])[:3]
