"""Kernels that give what they are given are taken out of a program: they would copy it.

Such ones are left where operators were kept apart, so that each is a kernel of its own, and once they are, nothing more
is to be done.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from .._tvm.nodes import TensorLoad
from .aliases import is_call
from .rewrite import bindings_of, on_bindings, on_functions, substituted, variables_in

__all__ = ["without_identities"]


def without_identities() -> tvm.transform.Pass:
    """Return the pass, to be run on calls of fused kernels, that takes out those whose result is their only input.

    A result that a function returns stays a tensor of its own.
    """
    return tvm.transform.module_pass(lambda mod, _: _changed(mod), opt_level=0, name="WithoutIdentities")


def _changed(mod: tvm.IRModule) -> tvm.IRModule:
    same = {gvar for gvar, f in mod.functions.items() if isinstance(f, tirx.PrimFunc) and _is_identity(f)}
    return on_functions(mod, lambda _, function: _without(function.body, same)) if same else mod


def _without(body: relax.SeqExpr, same: set[ir.GlobalVar]) -> relax.SeqExpr | None:
    kept = set(variables_in(body.body))
    given: dict[ir.Var, ir.Expr] = {}
    for binding in bindings_of(body):
        call = binding.value
        if is_call(call, "relax.call_tir") and call.args[0] in same and binding.var not in kept:
            value = call.args[1].fields[0]
            value = given.get(value, value) if isinstance(value, ir.Var) else value
            # What is seen outside of a block of data flow is not only seen in it.
            is_seen = isinstance(value, relax.DataflowVar) and not isinstance(binding.var, relax.DataflowVar)
            if not is_seen and tvm_ffi.structural_equal(value.ty, binding.var.ty):
                given[binding.var] = value
    if not given:
        return None
    return substituted(on_bindings(body, lambda binding: [] if binding.var in given else [binding]), given)


def _is_identity(kernel: tirx.PrimFunc) -> bool:
    """Say whether a kernel of one tensor writes each of its elements to the same place of its result."""
    if len(kernel.params) != 2 or not isinstance(kernel.body, tvm.s_tir.SBlockRealize):
        return False
    nest = kernel.body.block.body
    while isinstance(nest, tirx.For):
        nest = nest.body
    store = nest.block.body if isinstance(nest, tvm.s_tir.SBlockRealize) else None
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, TensorLoad):
        return False
    source, result, places = store.value.source, store.buffer, [v.var for v in nest.block.iter_vars]
    if not (source.same_as(kernel.params[0]) and result.same_as(kernel.params[1])):
        return False
    indices = (list(store.indices), list(store.value.indices))
    return all(len(each) == len(places) and all(map(lambda i, v: i.same_as(v), each, places)) for each in indices)
