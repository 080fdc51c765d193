"""Reshapes to sizes that are computed, such as one more than an input's, are views as all others are.

TVM makes a view of a reshape only where its kernel takes no sizes beside the tensor; the others it leaves as copies. So
kernels of reshapes are marked when they are made, and found again by that.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx, topi

__all__ = ["LEGALIZATIONS", "views_of_computed_sizes"]

_MARK = "vmkit.reshape"


def _marked_reshape(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, shape = call.args
    if isinstance(shape, relax.Var):
        shape = builder.lookup_binding(shape)
    return builder.call_te(topi.reshape, data, shape, primfunc_name_hint="reshape", primfunc_attrs={_MARK: 1})


LEGALIZATIONS = {"relax.reshape": _marked_reshape}
"""For ``LegalizeOps``: how reshapes become kernels."""


def views_of_computed_sizes() -> tvm.transform.Pass:
    """Return the pass, to be run beside ``RewriteDataflowReshape``, that makes views of reshapes to computed sizes."""
    return tvm.transform.module_pass(lambda mod, _: _rewritten(mod), opt_level=0, name="ViewsOfComputedSizes")


def _rewritten(mod: tvm.IRModule) -> tvm.IRModule:
    reshapes = {gvar for gvar, function in mod.functions.items() if _is_reshape(function)}

    def view(binding: relax.VarBinding) -> relax.VarBinding:
        call = binding.value
        # What leaves the dataflow block may leave the function, which returns no view of what it was given.
        if not (isinstance(binding.var, relax.DataflowVar) and _calls(call, reshapes)):
            return binding
        made = relax.op.reshape(call.args[1].fields[0], call.ty.shape)
        relax.expr._update_type(made, call.ty)
        return relax.VarBinding(binding.var, made)

    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs, global_infos=mod.global_infos)
    for gvar, function in mod.functions.items():
        if reshapes and isinstance(function, relax.Function):
            body = tvm_ffi.structural_map(function.body, (relax.VarBinding, view))
            made = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
            result.update_func(gvar, made)
    return result


def _is_reshape(function: Any) -> bool:
    return isinstance(function, tirx.PrimFunc) and _MARK in function.attrs


def _calls(value: Any, kernels: set[Any]) -> bool:
    is_kernel = isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op) and value.op.name == "relax.call_tir"
    return is_kernel and value.args[0] in kernels and hasattr(value.ty, "shape")
