"""Divisions of integers of up to 32 bits as ones of floats, which vectors have: processors divide integers one by one.

The quotient of two integers is no integer by at least one part in as many as the dividend has, so a float of twice the
digits is rounded to an integer only where it is one, and the result is exact.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm_ffi
from tvm import tirx

from ..._tvm.nodes import TensorLoad

__all__ = ["with_float_divisions"]

_WIDE = {"int8": "float32", "uint8": "float32", "int16": "float32", "uint16": "float32", "int32": "float64"}


def with_float_divisions(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel in which integers are divided by elements of tensors as floats.

    Others, such as sizes and constants, LLVM divides by as it does best, or but once.
    """

    def of(quotient: Callable[[tirx.Expr], tirx.Expr], is_remainder: bool) -> Callable[[tirx.Expr], tirx.Expr]:
        def divided(node: tirx.Expr) -> tirx.Expr:
            dtype = str(node.ty.dtype)
            wide = _WIDE.get(dtype)
            if wide is None or not _reads(node.b):
                return node
            whole = quotient(node.a.astype(wide) / node.b.astype(wide)).astype(dtype)
            return node.a - whole * node.b if is_remainder else whole

        return divided

    def towards_zero(value: tirx.Expr) -> tirx.Expr:
        return value  # as the conversion to an integer does

    rules = (
        (tirx.Div, of(towards_zero, False)),
        (tirx.Mod, of(towards_zero, True)),
        (tirx.FloorDiv, of(tirx.floor, False)),
        (tirx.FloorMod, of(tirx.floor, True)),
    )
    return function.with_body(tvm_ffi.structural_map(function.body, rules))


def _reads(value: tirx.Expr) -> bool:
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(value, (TensorLoad, found.append))
    return bool(found)
