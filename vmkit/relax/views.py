"""Reshapes to sizes that are computed, such as one more than an input's, are views as all others are.

TVM makes a view of a reshape only where its kernel takes no sizes beside the tensor; the others it leaves as copies. So
kernels of reshapes are marked when they are made, and found again by that.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import relax, te, tirx, topi
from tvm.sym import Analyzer

from .._tvm import retyped
from .aliases import is_call
from .rewrite import on_functions

__all__ = ["LEGALIZATIONS", "views_of_computed_sizes"]

_MARK = "vmkit.reshape"


def _marked_reshape(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, shape = call.args
    if isinstance(shape, relax.Var):
        shape = builder.lookup_binding(shape)
    return builder.call_te(_reshape, data, shape, primfunc_name_hint="reshape_tensor", primfunc_attrs={_MARK: 1})


def _reshape(data: te.Tensor, shape: Sequence[tirx.Expr]) -> te.Tensor:
    """Return a tensor in another shape.

    Axes of unknown sizes that come first before and after are left out of the places of elements that are counted:
    TVM fuses a kernel whose indices depend on sizes with none.
    """
    before, after = list(data.shape), list(shape)
    kept = _equal_first(before, after)
    known = all(isinstance(d, tirx.IntImm) for d in (*before[kept:], *after[kept:]))
    if not known or not any(isinstance(d, tirx.Expr) and not isinstance(d, tirx.IntImm) for d in before[:kept]):
        return topi.reshape(data, shape)
    inner = [int(d) for d in before[kept:]]
    if 0 in inner:
        return topi.reshape(data, shape)

    def element(*index: tirx.Expr) -> tirx.Expr:
        place: tirx.Expr | int = 0
        for at, size in zip(index[kept:], after[kept:], strict=True):
            place = place * int(size) + at
        own: list[tirx.Expr] = []
        for extent in reversed(inner):
            own.insert(0, tirx.indexmod(place, extent))
            place = tirx.indexdiv(place, extent)
        return data(*index[:kept], *own)

    return te.compute(shape, element, name="T_reshape", tag="injective")


def _equal_first(before: Sequence[tirx.Expr], after: Sequence[tirx.Expr]) -> int:
    """Return how many first dimensions two shapes have in common."""
    analyzer = Analyzer()
    pairs = enumerate(zip(before, after, strict=False))
    differs = (at for at, (a, b) in pairs if not analyzer.can_prove_equal(a, b))
    return next(differs, min(len(before), len(after)))


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
        return relax.VarBinding(binding.var, retyped(relax.op.reshape(call.args[1].fields[0], call.ty.shape), call.ty))

    if not reshapes:
        return mod
    return on_functions(mod, lambda _, function: tvm_ffi.structural_map(function.body, (relax.VarBinding, view)))


def _is_reshape(function: tvm.ir.BaseFunc) -> bool:
    return isinstance(function, tirx.PrimFunc) and _MARK in function.attrs


def _calls(value: relax.Expr, kernels: set[tvm.ir.GlobalVar]) -> bool:
    return is_call(value, "relax.call_tir") and value.args[0] in kernels and hasattr(value.ty, "shape")
