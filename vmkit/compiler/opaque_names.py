"""Names of floating-point numbers are kept from TVM's analysis of integers.

Where LLVM's code is made, TVM looks for the bounds of whatever gets a name. If a number between two others is
multiplied by a third whose value it does not see, as in the code of threads, it asks for its sign by an integer of the
type: an error for floating point. What is computed by a call has no bounds for it, and a number taken for its own type
is no code at all.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

__all__ = ["with_opaque_names"]

_BETWEEN = (tirx.Min, tirx.Max, tirx.Select)


def with_opaque_names(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a lowered kernel in which TVM sees no bounds of floating-point numbers that have names."""
    steps = [(tirx.Let, _opaque_let), (tirx.Bind, _opaque_bind)]
    return function.with_body(tvm_ffi.structural_map(function.body, steps))


def _opaque_let(let: tirx.Let) -> tirx.Let:
    return tirx.Let(let.var, _opaque(let.value), let.body) if _has_bounds(let.value) else let


def _opaque_bind(bind: tirx.Bind) -> tirx.Bind:
    return tirx.Bind(bind.var, _opaque(bind.value)) if _has_bounds(bind.value) else bind


def _opaque(value: tirx.Expr) -> tirx.Expr:
    # The script's own `reinterpret` gives a value of the type back as it is.
    return tirx.call_intrin(value.ty.dtype, "tirx.reinterpret", value)


def _has_bounds(value: tirx.Expr) -> bool:
    if not isinstance(value.ty, tvm.ir.PrimType) or "float" not in str(value.ty.dtype):
        return False
    found: list[tirx.Expr] = []
    tvm_ffi.structural_walk(value, [(kind, found.append) for kind in _BETWEEN])
    return bool(found)
