"""Constructors and global functions that are used as values become functions that call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm.ir import GlobalVar

from ..analysis.infer_type import typed
from ..ir import Call, Constructor, Function, RelayExpr, Var, children, find_type, post_order, rewrite
from .registry import ModuleTransform, on_functions, relay_pass

__all__ = ["EtaExpand"]


@relay_pass(opt_level=1)
def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> ModuleTransform:
    """Return the pass that writes functions for names that are used as values: ``f`` becomes ``fn (x) { f(x) }``.

    Parameters
    ----------
    expand_constructor : bool
        Whether constructors become functions.
    expand_global_var : bool
        Whether global functions do.
    """

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        def expanded(node: RelayExpr) -> RelayExpr:
            if expand_constructor and isinstance(node, Constructor):
                return _of_constructor(node, mod)
            if expand_global_var and isinstance(node, GlobalVar):
                return _of_global(node, mod)
            return node

        return on_functions(typed(mod), lambda function: _expanded(function, expanded))

    return on_module


def _expanded(function: Function, expanded: Callable[[RelayExpr], RelayExpr]) -> Function:
    """Return a function with names replaced that are not called where they stand."""
    as_values = {part for node in post_order(function) for part in _values(node)}
    names = [n for n in as_values if isinstance(n, Constructor | GlobalVar)]
    changed = {name: made for name in names if not (made := expanded(name)).same_as(name)}
    if not changed:
        return function

    def with_callee(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if isinstance(original, Call) and original.op in changed:
            return Call(original.op, list(node.args), node.attrs, list(node.type_args), node.span)
        return node

    return rewrite(function, changed, with_callee)


def _values(node: RelayExpr) -> Sequence[RelayExpr]:
    """Return the parts of a node that are used as values, and not called or bound."""
    if isinstance(node, Call):
        return list(node.args)
    return children(node)


def _of_constructor(constructor: Constructor, mod: tvm.IRModule) -> Function:
    data = find_type(mod, constructor.belong_to)
    params = [Var("eta_expand_param", ty) for ty in constructor.inputs]
    return Function(params, Call(constructor, params), data.instance(), list(data.type_vars))


def _of_global(gvar: GlobalVar, mod: tvm.IRModule) -> RelayExpr:
    function = mod[gvar]
    if not isinstance(function, Function):
        return gvar
    params = [Var(p.name_hint, p.type_annotation) for p in function.params]
    return Function(params, Call(gvar, params), function.ret_type, list(function.type_params))
