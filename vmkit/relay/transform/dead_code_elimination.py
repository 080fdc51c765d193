"""Dead code: Lets whose variables nobody needs go, and those needed once may be put where they are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

import tvm

from ...stack import on_deep_stack
from ..analysis.effects import effectful, effectful_globals
from ..analysis.infer_type import typed
from ..expr_functor import ExprMutator
from ..ir import Function, Let, RelayExpr, Var, children, post_order
from .registry import ModuleTransform, on_functions, relay_pass

__all__ = ["DeadCodeElimination", "without_dead_code"]


@relay_pass(opt_level=1)
def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> ModuleTransform:
    """Return the pass that removes Lets of values that nobody uses; see :func:`without_dead_code`.

    Parameters
    ----------
    inline_once : bool
        Whether a variable that is used once gives way to its value.
    ignore_impurity : bool
        Whether unused values go even where computing them has an effect.
    """

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        impure = effectful_globals(mod)

        def cleaned(function: Function) -> Function:
            kept = set() if ignore_impurity else effectful(function, impure)
            return cast("Function", without_dead_code(function, kept, inline_once))

        return on_functions(typed(mod), cleaned)

    return on_module


def without_dead_code(expr: RelayExpr, impure: Iterable[RelayExpr], inline_once: bool = False) -> RelayExpr:
    """Return an expression (or function) without Lets whose variable is not used.

    Parameters
    ----------
    expr : Expr or Function
        The expression.
    impure : iterable of Expr
        The expressions below it whose evaluation has an effect: these stay, in order.
    inline_once : bool
        Whether a variable that is used once, and not inside a function where its value would be computed at every
        call, gives way to its value.
    """
    usage = _Usage(expr, set(impure))
    dropped = {let for let in usage.lets.values() if usage.is_dead(let)}
    inlined = {let for let in usage.lets.values() if inline_once and usage.is_used_once(let)} - dropped
    if not dropped and not inlined:
        return expr
    return on_deep_stack(_Cleaner(dropped, inlined).visit, expr)


class _Usage:
    """Which variables are needed, and how often they are used."""

    def __init__(self, expr: RelayExpr, impure: set[RelayExpr]) -> None:
        self.impure = impure
        self.lets: dict[Var, Let] = {node.var: node for node in post_order(expr) if isinstance(node, Let)}
        self.uses: Counter[Var] = Counter()
        # The functions that the use of a variable is inside of, from the outermost in.
        self.used_in: dict[Var, Any] = {}
        self.bound_in: dict[Var, Any] = {}
        self._mark(expr)

    def _mark(self, expr: RelayExpr) -> None:
        seen: set[Any] = set()
        # Uses of expressions, each with the function that it is inside of.
        waiting: list[tuple[Any, Any]] = [(expr, None)]
        while waiting:
            node, function = waiting.pop()
            if isinstance(node, Var):
                self.uses[node] += 1
                self.used_in[node] = function
                if self.uses[node] == 1 and node in self.bound_in:
                    waiting.append((self.lets[node].value, self.bound_in[node]))
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Let):
                self.bound_in[node.var] = function
                waiting.append((node.body, function))
                if node.value in self.impure or node.var in self.uses:
                    waiting.append((node.value, function))
            elif isinstance(node, Function):
                waiting.append((node.body, node))
            else:
                waiting += [(part, function) for part in children(node)]

    def is_dead(self, let: Let) -> bool:
        return let.var not in self.uses and let.value not in self.impure

    def is_used_once(self, let: Let) -> bool:
        if self.uses[let.var] != 1 or let.value in self.impure:
            return False
        return self.used_in[let.var] is self.bound_in.get(let.var)


class _Cleaner(ExprMutator):
    def __init__(self, dropped: set[Let], inlined: set[Let]) -> None:
        super().__init__()
        self.dropped = dropped
        self.inlined = inlined

    def visit_let(self, let: Let) -> RelayExpr:
        if let in self.dropped:
            return self.visit(let.body)
        if let in self.inlined:
            self.memo_map[let.var] = self.visit(let.value)
            return self.visit(let.body)
        return Let(let.var, self.visit(let.value), self.visit(let.body), let.span)
