"""The names by which kernels are linked."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GlobalVar

from .._tvm import retyped

__all__ = ["with_prefix"]


def with_prefix(mod: tvm.IRModule, prefix: str) -> tvm.IRModule:
    """Return a module in which the names of kernels begin with a prefix; those that do already keep theirs.

    Kernels are renamed before groups are made of them, which call them by name, and the groups afterwards.
    """
    kernels = {
        gvar: GlobalVar(f"{prefix}{gvar.name_hint}")
        for gvar, function in mod.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc) and not gvar.name_hint.startswith(prefix)
    }
    for gvar, renamed in kernels.items():
        retyped(renamed, gvar.ty)

    def other(gvar: GlobalVar) -> GlobalVar:
        return kernels.get(gvar, gvar)

    functions = {}
    for gvar, function in mod.functions.items():
        if isinstance(function, relax.Function):
            function = tvm_ffi.structural_map(function, (GlobalVar, other))
        elif gvar in kernels and function.attrs.get("global_symbol"):
            function = function.with_attr("global_symbol", kernels[gvar].name_hint)
        functions[other(gvar)] = function
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
