"""Quotients and remainders in the one form of several that TVM's simplifier comes to in which the others are seen.

It writes what pads `n` to a multiple of 3, ``(3 - n % 3) % 3``, as ``n % -3 * -1``, and a remainder of ``n // 32`` as
``n % 96 // 32``, and simplifies neither any further.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from .parts import parts_of

__all__ = ["with_plain_remainders"]


def with_plain_remainders(value: tvm.ir.Expr) -> tvm.ir.Expr:
    """Return an expression without negative divisors, and without remainders inside of what is divided.

    It is the same object if there are none, and not simplified.
    """
    found = [p for p in parts_of(value) if isinstance(p, tirx.FloorDiv | tirx.FloorMod)]
    if not any(isinstance(p, tirx.FloorMod) for p in found) and all(_number(p.b) >= 0 for p in found):
        return value
    return tvm_ffi.structural_map(value, [(tirx.FloorDiv, _quotient), (tirx.FloorMod, _remainder)])


def _quotient(value: tirx.FloorDiv) -> tvm.ir.Expr:
    by = _number(value.b)
    if by < 0:
        negative, rounded_up = Analyzer().simplify(0 - value.a), Analyzer().simplify(value.a - (by + 1))
        is_shorter = len(parts_of(negative)) < len(parts_of(rounded_up))
        return tirx.floordiv(negative, -by) if is_shorter else 0 - tirx.floordiv(rounded_up, -by)
    if by > 0 and isinstance(value.a, tirx.FloorMod) and (whole := _number(value.a.b)) > 0 and whole % by == 0:
        return tirx.floormod(tirx.floordiv(value.a.a, by), whole // by)
    return value


def _remainder(value: tirx.FloorMod) -> tvm.ir.Expr:
    by = _number(value.b)
    if by < 0:
        return value.a - _quotient(tirx.FloorDiv(value.a, value.b)) * by
    inner, factor = (value.a.a, _number(value.a.b)) if isinstance(value.a, tirx.Mul) else (value.a, 1)
    if by > 0 and isinstance(inner, tirx.FloorMod) and factor and _number(inner.b) * factor % by == 0:
        return tirx.floormod(inner.a * factor, by)
    return value


def _number(value: tvm.ir.Expr) -> int:
    """Return the number that an operand is; 0 for another."""
    return int(value.value) if isinstance(value, tirx.IntImm) else 0
