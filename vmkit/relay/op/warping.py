"""The cheapest way through a matrix of costs: dynamic time warping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Dim, TensorType, TupleType, Type
from .elementwise import require_tensor
from .kernel import const, grid, loops
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []

_BOTH, _ROW, _COLUMN = 0, 1, 2


@operator("contrib_warping_path", "costs", level=10, pattern=OpPattern.OPAQUE)
class WarpingPath:
    """The path from the first to the last element of a matrix whose costs are the least, and how long it is.

    A step goes to the next row, to the next column, or to both; of steps that cost the same a later one of these is
    taken, and both never are. The path is int32 (2, rows + columns): rows and columns of its elements at the end of
    it, as many as the length says, an int64 scalar. A matrix without elements has a path of none.

    Source: Sakoe and Chiba, "Dynamic programming algorithm optimization for spoken word recognition" (1978).
    """

    @staticmethod
    def relation(attrs: None, costs: Type) -> Type:
        matrix = require_tensor(costs, "costs")
        if len(matrix.shape) != 2 or matrix.dtype != "float32":
            raise TypeCheckError(f"costs must be a matrix of float32, not {matrix}")
        return TupleType([TensorType([2, dims.add(*matrix.shape)], "int32"), TensorType([], "int64")])

    @staticmethod
    def lower(context: LowerContext, attrs: None, costs: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
        rows, columns = context.shape(costs)
        table = [dims.add(rows, 1), dims.add(columns, 1)]
        results: list[tuple[list[Dim], str]] = [
            ([2, dims.add(rows, columns)], "int32"), ([], "int64"), (table, "float32"), (table, "int8"), ([2], "int64")
        ]  # fmt: skip
        path, length, *_ = loops(context, results, _written, costs, name="warping_path")
        return path, length


def _written(outputs: list[tirx.Buffer], costs: tirx.Buffer) -> None:
    path, length, sums, steps, at = outputs
    rows, columns = costs.shape
    with grid(list(path.shape)) as i:
        T.buffer_store(path, tirx.const(0, "int32"), i)
    with grid(list(sums.shape)) as i:
        T.buffer_store(sums, tirx.Select(i[0] + i[1] == 0, tirx.const(0.0, "float32"), tirx.max_value("float32")), i)
    with grid([rows, columns]) as (r, c):
        both, row, column = (T.bind(s) for s in (sums[r, c], sums[r, c + 1], sums[r + 1, c]))
        is_both = tirx.all(both < row, both < column)
        is_row = tirx.all(row < both, row < column)
        least = tirx.Select(is_both, both, tirx.Select(is_row, row, column))
        T.buffer_store(sums, costs[r, c] + least, [r + 1, c + 1])
        step = tirx.Select(is_both, const(_BOTH), tirx.Select(is_row, const(_ROW), const(_COLUMN)))
        T.buffer_store(steps, step.astype("int8"), [r + 1, c + 1])
    T.buffer_store(length, const(0), [])
    T.buffer_store(at, rows, [0])
    T.buffer_store(at, columns, [1])
    with T.While(tirx.all(at[0] > 0, at[1] > 0)):
        T.buffer_store(length, length[()] + 1, [])
        place = T.bind(rows + columns - length[()])
        step = T.bind(steps[at[0], at[1]].astype("int64"))
        for k in (0, 1):
            T.buffer_store(path, (at[k] - 1).astype("int32"), [k, place])
        with T.If(step != const(_COLUMN)), T.Then():
            T.buffer_store(at, at[0] - 1, [0])
        with T.If(step != const(_ROW)), T.Then():
            T.buffer_store(at, at[1] - 1, [1])
