"""Sparse tensors given by the positions of their elements, one row each: fill empty rows, change the shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Call, Tuple
from ..ir.tuple_wrapper import TupleWrapper
from ..ir.types import Any as AnyDim
from ..ir.types import TensorType, TupleType, Type
from .elementwise import require_tensor
from .index import require_integers
from .kernel import Result, as_index, const, grid, loops
from .nn.sparse import converted
from .registry import OpPattern, build, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


def _require_positions(ty: Type) -> TensorType:
    positions = require_integers(ty, "sparse_indices")
    if len(positions.shape) != 2:
        raise TypeCheckError(f"sparse_indices must have 2 dimensions, one row for each element, not {positions}")
    return positions


def _require_sizes(ty: Type, name: str) -> TensorType:
    sizes = require_integers(ty, name)
    if len(sizes.shape) != 1:
        raise TypeCheckError(f"{name} must be a vector of sizes, not {sizes}")
    return sizes


def _require_depth(positions: TensorType, sizes: TensorType, name: str) -> None:
    if dims.equal(positions.shape[1], sizes.shape[0]) is False:
        raise TypeCheckError(
            f"sparse_indices hold {positions.shape[1]} positions each, but {name} has {sizes.shape[0]} dimensions"
        )


@operator(
    "sparse_fill_empty_rows",
    "sparse_indices",
    "sparse_values",
    "dense_shape",
    "default_value",
    level=3,
    pattern=OpPattern.OPAQUE,
)
class SparseFillEmptyRows:
    """The elements of a sparse tensor, with one of default_value at the start of every row that has none.

    The elements come row by row. Gives (positions, values, whether each row was empty), all int64: values of another
    data type are converted.
    """

    @staticmethod
    def value(call: Call) -> Tuple:
        indices, given, *_ = call.args
        positions, values, was_empty = TupleWrapper(call, 3)
        positions = build("cast_like", positions, indices)
        return Tuple([positions, build("cast_like", values, given), build("cast", was_empty, dtype="bool")])

    @staticmethod
    def relation(attrs: None, indices: Type, values: Type, shape: Type, default: Type) -> Type:
        positions, given = _require_positions(indices), require_tensor(values, "sparse_values")
        _require_depth(positions, _require_sizes(shape, "dense_shape"), "dense_shape")
        if len(given.shape) != 1 or dims.equal(given.shape[0], positions.shape[0]) is False:
            raise TypeCheckError(f"sparse_values must be a vector, one for each row of {positions}, not {given}")
        filling = require_tensor(default, "default_value")
        if len(filling.shape) > 1 or dims.equal(dims.product(filling.shape), 0):
            raise TypeCheckError(f"default_value must be one element, not {filling}")
        fields = [[AnyDim(), positions.shape[1]], [AnyDim()], [AnyDim()]]
        return TupleType([TensorType(f, "int64") for f in fields])

    @staticmethod
    def lower(context: LowerContext, attrs: None, *inputs: relax.Expr) -> tuple[relax.Expr, ...]:
        indices, values, shape, default = inputs
        (count, depth), name = context.shape(indices), "sparse_fill_empty_rows"
        message = f"{name}: sparse_indices hold {{actual}} positions each, but dense_shape has {{expected}} dimensions"
        context.require_equal(depth, context.shape(shape)[0], message)
        context.require_equal(
            context.shape(values)[0], count, f"{name}: there are {{actual}} sparse_values and {{expected}} positions"
        )
        for size, what in ((depth, "dense_shape has no dimension"), (dims.product(context.shape(default)), "no value")):
            if not isinstance(size, int):
                context.require(size >= 1, f"{name}: {what}")
        if isinstance(depth, int) and depth == 0:
            raise TypeCheckError("dense_shape has no dimension, so there are no rows")
        measured = loops(context, [([3], "int64"), ([1], "int64")], _measure, indices, shape, name=f"{name}_count")
        total, rows, wrong = context.read_dims(measured[0])
        context.require_equal(wrong, 0, f"{name}: the rows of sparse_indices must not decrease, and lie in dense_shape")

        def body(outputs: list[tirx.Buffer], indices: tirx.Buffer, values: tirx.Buffer, default: tirx.Buffer) -> None:
            _fill(outputs, indices, values, default[tuple([const(0)] * len(default.shape))])

        results: list[Result] = [([total, depth], "int64"), *[(s, "int64") for s in ([total], [rows], [rows], [1])]]
        values, default = (converted(context, v, "int64") for v in (values, default))
        return loops(context, results, body, indices, values, default)[:3]


def _measure(outputs: list[tirx.Buffer], indices: tirx.Buffer, shape: tirx.Buffer) -> None:
    """Write the number of elements in the end, the number of rows, and whether a row is out of order or range."""
    sizes, previous = outputs
    T.buffer_store(sizes, const(0), [const(0)])
    T.buffer_store(sizes, tirx.max(as_index(shape[const(0)]), const(0)), [const(1)])
    T.buffer_store(sizes, const(0), [const(2)])
    T.buffer_store(previous, const(-1), [const(0)])
    rows = sizes[const(1)]
    with grid([indices.shape[0]]) as (i,):
        row = T.Bind(as_index(indices[i, const(0)]))
        with T.If(tirx.any(row < previous[const(0)], row < 0, row >= rows)), T.Then():
            T.buffer_store(sizes, const(1), [const(2)])
        with T.If(row == previous[const(0)]), T.Then():
            T.buffer_store(sizes, sizes[const(0)] + 1, [const(0)])
        T.buffer_store(previous, row, [const(0)])
    # Every row takes one element, filled or its own, and each further one of its own.
    T.buffer_store(sizes, sizes[const(0)] + rows, [const(0)])


def _fill(outputs: list[tirx.Buffer], indices: tirx.Buffer, values: tirx.Buffer, default: tirx.Expr) -> None:
    positions, filled, empty, start, unused = outputs
    row: tirx.Expr
    (rows,), (count, depth) = empty.shape, indices.shape
    with grid([rows]) as (row,):
        T.buffer_store(empty, const(1), [row])
        T.buffer_store(start, const(0), [row])
    with grid([count]) as (i,):
        row = as_index(indices[i, const(0)])
        T.buffer_store(empty, const(0), [row])
        T.buffer_store(start, start[row] + const(1), [row])
    # From how many elements a row has to where it starts: an empty one takes one place.
    T.buffer_store(unused, const(0), [const(0)])
    with grid([rows]) as (row,):
        size = T.Bind(tirx.max(start[row], const(1)))
        T.buffer_store(start, unused[const(0)], [row])
        T.buffer_store(unused, unused[const(0)] + size, [const(0)])
    with grid([rows]) as (row,), T.If(empty[row] == 1), T.Then():
        T.buffer_store(filled, default, [start[row]])
        with grid([depth]) as (k,):
            T.buffer_store(positions, tirx.Select(k == 0, row, const(0)), [start[row], k])
    with grid([count]) as (i,):
        row = as_index(indices[i, const(0)])
        T.buffer_store(filled, values[i], [start[row]])
        with grid([depth]) as (k,):
            T.buffer_store(positions, as_index(indices[i, k]), [start[row], k])
        T.buffer_store(start, start[row] + const(1), [row])


@operator("sparse_reshape", "sparse_indices", "prev_shape", "new_shape", level=3, pattern=OpPattern.OPAQUE)
class SparseReshape:
    """The positions of a sparse tensor's elements in another shape, and that shape with its -1 resolved.

    Positions are counted through in row-major order and not compared with prev_shape; where the two shapes are equal
    they stay as they are.
    """

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        return TupleWrapper(call, 2)

    @staticmethod
    def relation(attrs: None, indices: Type, prev_shape: Type, new_shape: Type) -> Type:
        positions, sizes = _require_positions(indices), _require_sizes(new_shape, "new_shape")
        _require_depth(positions, _require_sizes(prev_shape, "prev_shape"), "prev_shape")
        return TupleType([TensorType([positions.shape[0], sizes.shape[0]], positions.dtype), sizes])

    @staticmethod
    def lower(context: LowerContext, attrs: None, *inputs: relax.Expr) -> tuple[relax.Expr, ...]:
        (count, depth), (rank,) = context.shape(inputs[0]), context.shape(inputs[2])
        message = (
            "sparse_reshape: sparse_indices hold {actual} positions each, but prev_shape has {expected} dimensions"
        )
        context.require_equal(depth, context.shape(inputs[1])[0], message)
        dtypes = [str(inputs[0].ty.dtype), str(inputs[2].ty.dtype)]
        scratch: list[Result] = [([4], "int64"), ([depth], "int64"), ([rank], "int64")]
        return loops(context, [([count, rank], dtypes[0]), ([rank], dtypes[1]), *scratch], _reshape, *inputs)[:2]


def _reshape(outputs: list[tirx.Buffer], indices: tirx.Buffer, old: tirx.Buffer, new: tirx.Buffer) -> None:
    positions, shape, numbers, old_strides, new_strides = outputs
    (count, depth), (rank,) = indices.shape, new.shape
    total, known, differs, flat = (const(k) for k in range(4))
    _strides(numbers, total, old_strides, old)
    T.buffer_store(numbers, const(1), [known])
    with grid([rank]) as (k,), T.If(as_index(new[k]) != -1), T.Then():
        T.buffer_store(numbers, numbers[known] * as_index(new[k]), [known])
    with grid([rank]) as (k,):
        missing = tirx.truncdiv(numbers[total], _divisor(numbers[known])).astype(str(new.dtype))
        T.buffer_store(shape, tirx.Select(as_index(new[k]) == -1, missing, new[k]), [k])
    T.buffer_store(numbers, tirx.Select(depth == rank, const(0), const(1)), [differs])
    with T.If(depth == rank), T.Then(), grid([rank]) as (k,), T.If(as_index(old[k]) != as_index(shape[k])), T.Then():
        T.buffer_store(numbers, const(1), [differs])
    _strides(numbers, known, new_strides, shape)
    with grid([count]) as (i,):
        T.buffer_store(numbers, const(0), [flat])
        with grid([depth]) as (k,):
            T.buffer_store(numbers, numbers[flat] + as_index(indices[i, k]) * old_strides[k], [flat])
        with grid([rank]) as (k,):
            stride = _divisor(new_strides[k])
            at = tirx.floordiv(numbers[flat], stride)
            kept = indices[i, tirx.min(k, depth - 1)]
            same = tirx.if_then_else(numbers[differs] == 0, kept, at.astype(str(indices.dtype)))
            T.buffer_store(positions, same, [i, k])
            T.buffer_store(numbers, tirx.floormod(numbers[flat], stride), [flat])


def _strides(numbers: tirx.Buffer, product: tirx.Expr, strides: tirx.Buffer, shape: tirx.Buffer) -> None:
    """Write how many elements one step along each dimension covers, and into numbers[product] how many there are."""
    (rank,) = shape.shape
    T.buffer_store(numbers, const(1), [product])
    with grid([rank]) as (k,):
        axis = rank - 1 - k
        T.buffer_store(strides, numbers[product], [axis])
        T.buffer_store(numbers, numbers[product] * as_index(shape[axis]), [product])


def _divisor(value: tirx.Expr) -> tirx.Expr:
    """Return a divisor that is not 0: a shape without elements has no position to divide, but divides all the same."""
    return tirx.Select(value == 0, const(1), value)
