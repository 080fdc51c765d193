"""Names of floating-point numbers are out of sight of passes that analyse integers.

Some of TVM's passes simplify the value of whatever gets a name in an expression, with all names in it written out: of
a polynomial of a polynomial, as a logistic function is, that took as long as LLVM takes for the kernel, and each
further name in a name some twenty times as long. They look for the bounds of indices, which such numbers are not in.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

__all__ = ["hide_names", "show_names"]

_HIDDEN = "vmkit.let"


@tirx.transform.prim_func_pass(opt_level=0, name="vmkit.HideNames")
def hide_names(function: tirx.PrimFunc, _module: tvm.IRModule, _context: tvm.transform.PassContext) -> tirx.PrimFunc:
    """Have calls stand for the expressions in which floating-point numbers have names."""
    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.Let, _hidden)))


@tirx.transform.prim_func_pass(opt_level=0, name="vmkit.ShowNames")
def show_names(function: tirx.PrimFunc, _module: tvm.IRModule, _context: tvm.transform.PassContext) -> tirx.PrimFunc:
    """Undo :func:`hide_names`."""
    return function.with_body(tvm_ffi.structural_map(function.body, (tvm.ir.Call, _shown)))


def _hidden(let: tirx.Let) -> tirx.Expr:
    if "float" not in str(getattr(let.value.ty, "dtype", "")):
        return let
    return tirx.call_pure_extern(let.ty.dtype, _HIDDEN, let.var, let.value, let.body)


def _shown(call: tvm.ir.Call) -> tirx.Expr:
    if getattr(call.op, "name", "") != "tirx.call_pure_extern" or str(getattr(call.args[0], "value", "")) != _HIDDEN:
        return call
    return tirx.Let(*call.args[1:])
