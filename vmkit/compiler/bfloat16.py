"""Arithmetic of bfloat16 in float32, where values have names.

TVM's pass for that does not look at what names of an expression stand for: there numbers stayed bfloat16, and were read
as the integers of their bits by what follows. And it rounds by the bits of a value, for which it writes the value down
three times: names in it would be bound three times, and the pass that makes vectors takes no name twice.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import ir, tirx

__all__ = ["legalize_bfloat16", "with_wide_values"]

_NARROW, _WIDE = "bfloat16", "float32"


@tvm.transform.module_pass(opt_level=0, name="vmkit.LegalizeBFloat16")
def legalize_bfloat16(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Have the kernels of a module, :func:`with_wide_values`, compute with bfloat16 in float32 all over."""
    functions = {
        gvar: _with_names(function) if isinstance(function, tirx.PrimFunc) else function
        for gvar, function in mod.functions.items()
    }
    return tirx.transform.BF16ComputeLegalize()(tvm.IRModule(functions, attrs=mod.attrs))


def with_wide_values(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel in which names stand for values that are computed in float32."""
    if not _has_bfloat16(function):
        return function
    steps = [(tirx.Let, _with_wide_value), (tirx.Bind, _bound_wide)]
    return function.with_body(tvm_ffi.structural_map(function.body, steps))


def _with_names(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel in which a value that is stored as bfloat16 has a name, if there are names in it."""
    if not _has_bfloat16(function):
        return function
    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.BufferStore, _with_name)))


def _with_wide_value(let: tirx.Let) -> tirx.Let:
    """Return a name of what TVM's pass makes of its value, where there is bfloat16 in that."""
    if not _has_narrow(let.value):
        return let
    if not _is_narrow(let.value):
        return tirx.Let(let.var, _widened(let.value), let.body)
    name = tirx.Var(let.var.name, _WIDE)
    narrow = tirx.Cast(_NARROW, name)
    body = tvm_ffi.structural_map(let.body, (ir.Var, lambda var: narrow if var.same_as(let.var) else var))
    return tirx.Let(name, _widened(tirx.Cast(_WIDE, let.value)), body)


def _bound_wide(bind: tirx.Bind) -> tirx.Bind:
    # Of a variable of bfloat16 TVM makes another one, with all that reads it.
    is_left = _is_narrow(bind.var) or not _has_narrow(bind.value)
    return bind if is_left else tirx.Bind(bind.var, _widened(bind.value))


def _widened(value: tirx.Expr) -> tirx.Expr:
    """Return what TVM's pass makes of a value that is of another type."""
    mod = tvm.IRModule({"value": tirx.PrimFunc([], tirx.Evaluate(value))})
    return tirx.transform.BF16ComputeLegalize()(mod)["value"].body.value


def _with_name(store: tirx.BufferStore) -> tirx.Stmt:
    value = store.value
    if not _is_narrow(value) or not _has_names(value):
        return store
    wide = value.value if isinstance(value, tirx.Cast) else tirx.Cast(_WIDE, value)
    name = tirx.Var("wide", str(wide.ty.dtype))
    stored = tirx.BufferStore(store.buffer, tirx.Cast(_NARROW, name), store.indices)
    return tirx.SeqStmt([tirx.Bind(name, _widened(wide)), stored])


def _has_bfloat16(function: tirx.PrimFunc) -> bool:
    """Say whether there is bfloat16 in a kernel: there is in few, and looking at all that kernels do takes long."""
    if any(isinstance(p.ty, tirx.BufferType) and str(p.ty.dtype) == _NARROW for p in function.params):
        return True
    casts: list[tirx.Cast] = []
    tvm_ffi.structural_walk(function.body, (tirx.Cast, casts.append))
    return any(_NARROW in (str(cast.ty.dtype), str(cast.value.ty.dtype)) for cast in casts)


def _is_narrow(value: tirx.Expr) -> bool:
    return isinstance(value.ty, ir.PrimType) and str(value.ty.dtype) == _NARROW


def _has_narrow(value: tirx.Expr) -> bool:
    found = False

    def look(expr: tirx.Expr) -> None:
        nonlocal found
        found = found or _is_narrow(expr)

    tvm_ffi.structural_walk(value, (tirx.Expr, look))
    return found


def _has_names(value: tirx.Expr) -> bool:
    found: list[tirx.Let] = []
    tvm_ffi.structural_walk(value, (tirx.Let, found.append))
    return bool(found)
