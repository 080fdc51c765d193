"""The parts of an expression of sizes."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

__all__ = ["parts_of"]

_LEAVES = frozenset({tirx.IntImm, tvm.ir.Var})
_BINARY = frozenset({
    tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min,
    tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.And, tirx.Or,
})  # fmt: skip


def parts_of(value: tvm.ir.Expr) -> list[tvm.ir.Expr]:
    """Return an expression and all below it, in the order of their appearance."""
    found: list[tvm.ir.Expr] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind in _BINARY:  # TVM's own walk takes three times as long for an ordinary size.
            waiting += (part.b, part.a)
        elif kind is tirx.Select:
            waiting += (part.false_value, part.true_value, part.condition)
        elif kind not in _LEAVES:
            tvm_ffi.structural_walk(part, (tvm.ir.Expr, found.append))
            continue
        found.append(part)
    return found
