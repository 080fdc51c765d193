"""Divisions of integers as ones of floats, which vectors have: processors divide integers one by one.

The quotient of two integers is no integer by at least one part in as many as the dividend has, so a float of twice the
digits is rounded to an integer only where it is one, and the result is exact. For integers of 64 bits, which have no
such float, see :mod:`.long_division`.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm_ffi
from tvm import tirx

from ..._tvm.nodes import TensorLoad
from .long_division import with_long_divisions

__all__ = ["with_float_divisions"]

_WIDE = {"int8": "float32", "uint8": "float32", "int16": "float32", "uint16": "float32", "int32": "float64"}


def with_float_divisions(function: tirx.PrimFunc, has_wide: bool = False) -> tirx.PrimFunc:
    """Return a kernel in which integers are divided by elements of tensors as floats.

    Others, such as sizes and constants, LLVM divides by as it does best, or but once. Those of 64 bits stay, unless the
    processor has vectors of them that it converts to floats and multiplies (`has_wide`).
    """

    def of(is_floor: bool, is_remainder: bool) -> Callable[[tirx.Expr], tirx.Expr]:
        def divided(node: tirx.Expr) -> tirx.Expr:
            dtype = str(node.ty.dtype)
            if dtype not in _WIDE or not _reads(node.b):
                return node
            found = node.a.astype(_WIDE[dtype]) / node.b.astype(_WIDE[dtype])
            # The conversion to an integer rounds towards 0.
            whole = (tirx.floor(found) if is_floor else found).astype(dtype)
            return node.a - whole * node.b if is_remainder else whole

        return divided

    rules = (
        (tirx.Div, of(False, False)),
        (tirx.Mod, of(False, True)),
        (tirx.FloorDiv, of(True, False)),
        (tirx.FloorMod, of(True, True)),
    )
    body = tvm_ffi.structural_map(function.body, rules)
    return function.with_body(with_long_divisions(body) if has_wide else body)


def _reads(value: tirx.Expr) -> bool:
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(value, (TensorLoad, found.append))
    return bool(found)
