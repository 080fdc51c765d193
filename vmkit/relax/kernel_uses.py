"""Where a module calls its kernels, and kernels put in the places of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from .aliases import is_call
from .rewrite import nested_bindings, on_bindings, on_functions, retyped_call, with_branches

__all__ = ["calls_in", "only_called", "results_of", "with_kernels"]


def calls_in(function: ir.BaseFunc) -> Iterator[relax.Call]:
    """Yield the calls of kernels with tensors of known sizes in a Relax function, also those in branches."""
    if isinstance(function, relax.Function):
        for binding in nested_bindings(function.body):
            if is_call(binding.value, "relax.call_tir") and _has_known_sizes(binding.value):
                yield binding.value


def _has_known_sizes(call: relax.Call) -> bool:
    types = [*(arg.ty for arg in call.args[1].fields), *results_of(call)]
    return all(isinstance(ty.shape, relax.ShapeExpr) for ty in types if isinstance(ty, relax.TensorType))


def results_of(call: relax.Call) -> list[relax.Type]:
    """Return the types of the results of a call."""
    return list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else [call.ty]


def only_called(mod: tvm.IRModule, calls: Sequence[relax.Call]) -> set[ir.GlobalVar]:
    """Return the kernels that stand nowhere but in these calls."""
    found: list[ir.GlobalVar] = []
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (ir.GlobalVar, found.append))
    named, called = Counter(found), Counter(call.args[0] for call in calls)
    return {gvar for gvar, count in called.items() if named[gvar] == count and isinstance(mod[gvar], tirx.PrimFunc)}


def with_kernels(
    mod: tvm.IRModule,
    kernels: Mapping[ir.GlobalVar, tirx.PrimFunc],
    names: Mapping[ir.GlobalVar, ir.GlobalVar],
    args: Callable[[relax.Call], Sequence[relax.Expr]],
) -> tvm.IRModule:
    """Return a module with kernels in the places of those that the keys name, and calls of them.

    Parameters
    ----------
    names
        What each is called then; equal names are one kernel.
    args
        Returns what the new kernel is given in the place of a call.
    """

    def changed(binding: relax.Binding) -> list[relax.Binding]:
        call = binding.value
        if not is_call(call, "relax.call_tir") or call.args[0] not in kernels:
            return [with_branches(binding, lambda branch: on_bindings(branch, changed))]
        return [relax.VarBinding(binding.var, retyped_call(call, [names[call.args[0]], relax.Tuple(args(call))]))]

    functions: dict[ir.GlobalVar, ir.BaseFunc] = {}
    for gvar, function in on_functions(mod, lambda _, each: on_bindings(each.body, changed)).functions.items():
        is_new = gvar in kernels
        functions.setdefault(names[gvar] if is_new else gvar, kernels[gvar] if is_new else function)
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
