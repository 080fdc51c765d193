"""Graph normal form: values that Lets name become nodes of a graph, used where the names were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import tvm
from tvm.ir import GlobalVar

from ...stack import on_deep_stack
from ..analysis.effects import effectful, effectful_globals
from ..analysis.infer_type import typed
from ..expr_functor import ExprMutator
from ..ir import Function, Let, Op, RelayExpr, Var, free_vars, post_order
from .registry import ModuleTransform, on_functions, relay_pass

__all__ = ["ToGraphNormalForm", "to_graph_normal_form"]


@relay_pass(opt_level=1)
def ToGraphNormalForm() -> ModuleTransform:
    """Return the pass that takes Lets apart; see :func:`to_graph_normal_form`."""

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        impure = effectful_globals(mod)
        return on_functions(typed(mod), lambda f: cast("Function", to_graph_normal_form(f, impure)))

    return on_module


def to_graph_normal_form(expr: RelayExpr, impure_globals: Iterable[GlobalVar] = ()) -> RelayExpr:
    """Return an expression (or function) without the Lets that only name a value.

    A Let stays where its value is a recursive function, where it fixes the order of an effect, and where a function
    uses its variable that would otherwise compute the value again at each call.

    Parameters
    ----------
    expr : Expr or Function
        The expression.
    impure_globals : iterable of GlobalVar
        The global functions whose calls have effects.
    """
    return on_deep_stack(_Inlining(_kept(expr, effectful(expr, impure_globals))).visit, expr)


def _kept(expr: RelayExpr, impure: set[RelayExpr]) -> set[Let]:
    nodes = list(post_order(expr))
    captured = {v for node in nodes if isinstance(node, Function) for v in free_vars(node)}
    return {node for node in nodes if isinstance(node, Let) and _stays(node, impure, captured)}


def _stays(let: Let, impure: set[RelayExpr], captured: set[Var]) -> bool:
    if isinstance(let.value, Function):
        return let.var in free_vars(let.value)
    return let.value in impure or (let.var in captured and not isinstance(let.value, Var | Op | GlobalVar))


class _Inlining(ExprMutator):
    def __init__(self, kept: set[Let]) -> None:
        super().__init__()
        self.kept = kept

    def visit_let(self, let: Let) -> RelayExpr:
        if let in self.kept:
            return Let(let.var, self.visit(let.value), self.visit(let.body), let.span)
        self.memo_map[let.var] = self.visit(let.value)
        return self.visit(let.body)
