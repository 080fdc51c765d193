"""Which elements lie next to each other in memory, so that a thread may read or write several at once."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from ..._tvm import TensorLoad
from ...target.gpu import WIDEST_LOAD
from ..blocks import stride, uses

__all__ = ["is_conditional", "loads_in", "neighbours"]


def loads_in(expr: Any) -> list[Any]:
    """Return all reads of an expression or statement."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, (TensorLoad, found.append))
    return found


def is_conditional(expr: Any, variable: Any) -> bool:
    """Say whether what is read depends on a condition about a variable."""
    conditions: list[Any] = []

    def note(call: tvm.ir.Call) -> None:
        if str(getattr(call.op, "name", "")).endswith("if_then_else"):
            conditions.append(call.args[0])

    tvm_ffi.structural_walk(expr, [(tvm.ir.Call, note), (tirx.Select, lambda node: conditions.append(node.condition))])
    return any(uses(condition, variable) for condition in conditions)


def neighbours(shape: list[Any], indices: list[Any], dtype: str, variable: Any, extent: Any) -> int:
    """Return how many elements along a variable are always next to each other and begin at a multiple of it.

    A power of two, at most what a thread reads at once; 0 where no two of them are neighbours.
    """
    last = next((at for at in reversed(range(len(shape))) if not _is_one(shape[at])), None)
    if last is None or stride(indices[last], variable) != 1:
        return 0
    if any(uses(index, variable) for index in indices[:last]):
        return 0
    zero = tirx.IntImm(str(variable.ty.dtype), 0)
    start = tvm_ffi.structural_map(indices[last], (tirx.Var, lambda v: zero if v.same_as(variable) else v))
    width = max(1, WIDEST_LOAD * 8 // tvm.DataType(dtype).bits)
    while width > 1 and not _all_divide((start, extent, shape[last]), width):
        width //= 2
    return width


def _all_divide(values: tuple[Any, ...], width: int) -> bool:
    return all(Analyzer().can_prove(tirx.floormod(value, width) == 0) for value in values)


def _is_one(value: Any) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == 1
