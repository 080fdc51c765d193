"""Which elements lie next to each other in memory, so that a thread may read or write several at once."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from ..._tvm.nodes import is_choice
from ...target.gpu import WIDEST_LOAD
from ..expressions import is_one, replaced, stride, uses

__all__ = ["is_conditional", "neighbours"]


def is_conditional(expr: tirx.Expr | tirx.Stmt, variable: tirx.Var) -> bool:
    """Say whether what is read depends on a condition about a variable."""
    conditions: list[tirx.Expr] = []

    def note(call: tvm.ir.Call) -> None:
        if is_choice(call):
            conditions.append(call.args[0])

    tvm_ffi.structural_walk(expr, [(tvm.ir.Call, note), (tirx.Select, lambda node: conditions.append(node.condition))])
    return any(uses(condition, variable) for condition in conditions)


def neighbours(
    shape: list[tirx.Expr],
    indices: list[tirx.Expr],
    dtype: str,
    variable: tirx.Var,
    extent: tirx.Expr,
) -> int:
    """Return how many elements along a variable are always next to each other and begin at a multiple of it.

    A power of two, at most what a thread reads at once; 0 where no two of them are neighbours.
    """
    last = next((at for at in reversed(range(len(shape))) if not is_one(shape[at])), None)
    if last is None or stride(indices[last], variable) != 1:
        return 0
    if any(uses(index, variable) for index in indices[:last]):
        return 0
    zero = tirx.IntImm(str(variable.ty.dtype), 0)
    start = replaced(indices[last], {variable: zero})
    width = max(1, WIDEST_LOAD * 8 // tvm.DataType(dtype).bits)
    while width > 1 and not _all_divide((start, extent, shape[last]), width):
        width //= 2
    return width


def _all_divide(values: tuple[tirx.Expr, ...], width: int) -> bool:
    return all(Analyzer().can_prove(tirx.floormod(value, width) == 0) for value in values)
