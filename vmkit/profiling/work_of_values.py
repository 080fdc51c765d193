"""How many operations an expression of a kernel performs whose value is kept."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.target import codegen

__all__ = ["Unknown", "in_value"]

_ONE = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max)
# Calls that compute nothing.
_NONE = ("reinterpret", "likely", "tvm_access_ptr", "address_of", "tvm_storage_sync", "tvm_call_packed", "ret")
_TWO = ("fma", "fmuladd")
# Instructions that multiply and add groups of numbers: how many products go into a lane.
_GROUPED = {
    "vpdpbusd": 4,
    "vpdpwssd": 2,
    "pmaddubs.w": 2,
    "pmadd.wd": 2,
    "pmaddw.d": 2,
    "dpbf16ps": 2,
    "sdot": 4,
    "udot": 4,
}
_SILENT = ("prefetch", "ldtilecfg", "tilerelease", "tileload", "tilestore", "tilezero")


class Unknown(Exception):
    """A number that is not known before the kernel runs."""


def in_value(expr: Any) -> int:  # noqa: ANN401 - an expression
    """Return the operations of an expression whose value is kept."""
    match expr:
        case TensorLoad() | tirx.IntImm() | tirx.FloatImm() | tvm.ir.Var() | tirx.Ramp():
            return 0
        case tirx.Cast() | tirx.Broadcast():
            return in_value(expr.value)
        case tirx.Select():
            return max(in_value(expr.true_value), in_value(expr.false_value))
        case tirx.Let():
            return in_value(expr.value) + in_value(expr.body)
        case tirx.Shuffle():
            return sum(map(in_value, expr.vectors))
        case Call():
            return _in_call(expr)
    if isinstance(expr, _ONE):
        return _lanes(expr) + in_value(expr.a) + in_value(expr.b)
    if hasattr(expr, "a") and hasattr(expr, "b"):
        return in_value(expr.a) + in_value(expr.b)
    return 0


def _in_call(call: Any) -> int:  # noqa: ANN401 - of TIR
    name = str(getattr(call.op, "name", call.op)).rpartition(".")[2]
    if "llvm" in name:
        return _in_instruction(call)
    if name == "if_then_else":
        return max(map(in_value, call.args[1:]))
    inside = sum(map(in_value, call.args))
    if name in _NONE or "shift" in name or "bitwise" in name:
        return inside
    return inside + _lanes(call) * (2 if name in _TWO else 1)


def _in_instruction(call: Any) -> int:  # noqa: ANN401 - of TIR
    """Return the operations of an instruction of the processor's."""
    name = str(codegen.llvm_get_intrinsic_name(int(call.args[0].value)))
    inside = sum(map(in_value, call.args[1:]))
    if any(each in name for each in _SILENT):
        return inside
    if any(name.startswith(f"llvm.{each}") for each in _TWO):
        return inside + 2 * _lanes(call)
    for each, group in _GROUPED.items():
        if each in name:
            return inside + 2 * group * _lanes(call)
    if name.startswith("llvm.x86") or name.startswith("llvm.aarch64"):
        raise Unknown
    return inside + _lanes(call)


def _lanes(expr: Any) -> int:  # noqa: ANN401 - an expression
    _, x, lanes = str(getattr(expr.ty, "dtype", "")).partition("x")
    return int(lanes) if x else 1
