"""Functions of very many unknown sizes, in time linear in their number.

Each of TVM's passes assumes of the parameters of a function that their sizes are not negative, and takes time by the
square of the number of those assumptions. Sizes that a cast gives are not among them. So the parameters of a function
with more than :data:`MOST_SYMBOLS` of them have none while it is changed, and casts at its begin tell them.
"""

from __future__ import annotations

import tvm
from tvm import ir, relax, tirx
from tvm.relax.analysis import all_global_vars, definable_tir_vars_in_type

from .._tvm import retyped
from .aliases import is_call
from .rewrite import bindings_of, on_bindings, with_functions
from .size_slots import sizes_of

__all__ = ["MOST_SYMBOLS", "sizes_from_casts", "sizes_of_parameters"]

MOST_SYMBOLS = 128
"""How many symbols the parameters of a function may have between them: those take less than a millisecond a pass."""

_MARK = "vmkit.sizes_from_casts"
_KILL = "relax.vm.kill_object"


def sizes_from_casts() -> tvm.transform.Pass:
    """Return the pass that takes their sizes from the parameters of functions that have very many.

    Functions that others of the module call stay: what is known of their results would be lost.
    """
    return tvm.transform.module_pass(lambda mod, _: _taken(mod), opt_level=0, name="SizesFromCasts")


def sizes_of_parameters() -> tvm.transform.Pass:
    """Return the pass that gives parameters the sizes back that :func:`sizes_from_casts` took.

    To be run when no pass of TVM that rewrites functions follows, and when it is written where values are released.
    """
    return tvm.transform.module_pass(lambda mod, _: _given_back(mod), opt_level=0, name="SizesOfParameters")


def _taken(mod: tvm.IRModule) -> tvm.IRModule:
    large = {gvar: f for gvar, f in mod.functions.items() if isinstance(f, relax.Function) and _has_many(f)}
    if not large:
        return mod
    called = {gvar for f in mod.functions.values() if isinstance(f, relax.Function) for gvar in all_global_vars(f)}
    return with_functions(mod, {gvar: _with_casts(f) for gvar, f in large.items() if gvar not in called})


def _has_many(function: relax.Function) -> bool:
    return len(definable_tir_vars_in_type(relax.TupleType([param.ty for param in function.params]))) > MOST_SYMBOLS


def _with_casts(function: relax.Function) -> relax.Function:
    params, casts = [], []
    for param in function.params:
        ty = _without_sizes(param.ty)
        params.append(param if ty is param.ty else relax.Var(param.name, ty))
        if ty is not param.ty:
            casts.append(relax.MatchCast(param, params[-1], param.ty))
    body = retyped(
        relax.SeqExpr([relax.BindingBlock(casts), *function.body.blocks], function.body.body), function.body.ty
    )
    result = _without_sizes(function.ret_ty)
    return relax.Function(params, body, result, function.is_pure, function.attrs).with_attr(_MARK, True)


def _without_sizes(ty: relax.Type) -> relax.Type:
    """Return a type of which only ranks are known; the same one where it names no symbol."""
    if all(isinstance(size, tirx.IntImm) for sizes in sizes_of(ty) for size in sizes):
        return ty
    if isinstance(ty, relax.TensorType):
        return relax.TensorType(ndim=ty.ndim, dtype=ty.dtype, vdevice=ty.vdevice)
    if isinstance(ty, relax.ShapeType):
        return relax.ShapeType(ndim=ty.ndim)
    return relax.TupleType([_without_sizes(field) for field in ty.fields]) if isinstance(ty, relax.TupleType) else ty


def _given_back(mod: tvm.IRModule) -> tvm.IRModule:
    marked = {gvar: f for gvar, f in mod.functions.items() if _MARK in (f.attrs or {})}
    return with_functions(mod, {gvar: _with_sizes(f) for gvar, f in marked.items()}) if marked else mod


def _with_sizes(function: relax.Function) -> relax.Function:
    params, sized = set(function.params), dict[ir.Var, relax.Var]()
    for binding in bindings_of(function.body):
        if isinstance(binding, relax.MatchCast) and binding.value in params:
            sized.setdefault(binding.value, binding.var)
    made = set(sized.values())

    def is_needed(binding: relax.Binding) -> bool:
        # What a function is given is its caller's to release.
        is_released = is_call(binding.value, _KILL) and binding.value.args[0] in made
        return binding.var not in made and not is_released

    body = on_bindings(function.body, lambda each: [each] if is_needed(each) else [])
    params_with_sizes = [sized.get(param, param) for param in function.params]
    return relax.Function(params_with_sizes, body, function.ret_ty, function.is_pure, function.attrs).without_attr(
        _MARK
    )
