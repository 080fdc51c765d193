"""Divisions that need no test of signs: of what is not negative, by a size.

TVM rounds quotients down. Where it cannot prove the signs, each becomes a choice between two quotients by four
comparisons, and TVM proves nothing about sizes that only the run knows, although no size is negative. The choices
cost time in each call; and where an index with some of them stands often in one value, TVM's simplifier works through
all combinations of them, for minutes. The machine's own division gives the same here.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

__all__ = ["Signs", "divide_nonnegative"]


@tirx.transform.prim_func_pass(opt_level=0, name="vmkit.DivideNonnegative")
def divide_nonnegative(
    function: tirx.PrimFunc, _mod: tvm.IRModule, _context: tvm.transform.PassContext
) -> tirx.PrimFunc:
    """Have the machine divide, without a test of signs, where it is a size that divides what is not negative."""
    signs = Signs(function)

    def divided(quotient: tirx.FloorDiv | tirx.FloorMod) -> tirx.Expr:
        a, b = quotient.a, quotient.b
        # A constant divisor is known to TVM, and becomes a shift where it is a power of two.
        if isinstance(b, tirx.IntImm) or not (signs.is_nonnegative(a) and signs.is_nonnegative(b)):
            return quotient
        return tirx.truncdiv(a, b) if isinstance(quotient, tirx.FloorDiv) else tirx.truncmod(a, b)

    return function.with_body(tvm_ffi.structural_map(function.body, ((tirx.FloorDiv, tirx.FloorMod), divided)))


class Signs:
    """Which integers of a function are not negative, whatever the sizes are."""

    def __init__(self, function: tirx.PrimFunc) -> None:
        self._vars: set[tirx.Var] = set()
        for param in function.params:
            if isinstance(param.ty, tirx.BufferType):
                self._vars.update(size for size in param.ty.shape if isinstance(size, tirx.Var))
        starts: list[tuple[tirx.Var, tirx.Expr]] = []
        tvm_ffi.structural_walk(function.body, (tirx.For, lambda loop: starts.append((loop.loop_var, loop.min))))
        tvm_ffi.structural_walk(function.body, (tirx.Bind, lambda bind: starts.append((bind.var, bind.value))))
        count = -1
        while count != len(self._vars):  # the start of a loop may be the variable of one that comes later
            count = len(self._vars)
            self._vars.update(var for var, start in starts if self.is_nonnegative(start))

    def add(self, var: tirx.Var) -> None:
        """Note that a variable is never negative."""
        self._vars.add(var)

    def is_nonnegative(self, value: tirx.Expr) -> bool:
        """Say whether an integer is seen to be 0 or more."""
        match value:
            case tirx.IntImm():
                return int(value) >= 0
            case tirx.Var():
                return value in self._vars
            case tirx.Cast():
                return str(value.ty.dtype) in ("int32", "int64") and self.is_nonnegative(value.value)
            case tirx.Add() | tirx.Mul() | tirx.FloorDiv() | tirx.Div() | tirx.Min():
                return self.is_nonnegative(value.a) and self.is_nonnegative(value.b)
            case tirx.Max():
                return self.is_nonnegative(value.a) or self.is_nonnegative(value.b)
            case tirx.FloorMod():
                return self.is_nonnegative(value.b)
            case tirx.Mod():
                return self.is_nonnegative(value.a)
        return False
