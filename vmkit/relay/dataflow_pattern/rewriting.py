"""Replace what patterns describe: by what callbacks return, or by calls of functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from ...stack import on_deep_stack
from ..analysis.infer_type import infer_expr
from ..ir import Call, Function, Op, RelayExpr, Tuple, TupleGetItem, Var, post_order
from ..ir import rewrite as rewritten
from ..transform.known_type import type_of
from .matcher import Matcher
from .patterns import (
    CallPattern,
    Check,
    ConstantPattern,
    DFPattern,
    DominatorPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    TupleGetItemPattern,
    TuplePattern,
    partition_hook,
)

__all__ = ["DFPatternCallback", "partition", "rewrite"]

_MOST_ROUNDS = 100
_PARTITIONED = "PartitionedFromPattern"
_INNER = (CallPattern, DominatorPattern, FunctionPattern, IfPattern, LetPattern, TupleGetItemPattern, TuplePattern)


class DFPatternCallback:
    """A rule of rewriting: derive from it, set ``pattern`` and override :meth:`callback`.

    Parameters
    ----------
    require_type : bool
        Whether the rule reads types of expressions; they are inferred before each round then.
    rewrite_once : bool
        Whether one round is enough; otherwise rounds go on until nothing changes.

    Examples
    --------
    >>> from vmkit import relay
    >>> from vmkit.relay.dataflow_pattern import DFPatternCallback, is_op, rewrite, wildcard
    >>> class Twice(DFPatternCallback):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.x = wildcard()
    ...         self.pattern = is_op("negative")(is_op("negative")(self.x))
    ...     def callback(self, pre, post, node_map):
    ...         return node_map[self.x][0]
    >>> x = relay.var("x", "float32")
    >>> rewrite(Twice(), -(-x)).same_as(x)
    True
    """

    pattern: DFPattern

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: RelayExpr) -> RelayExpr:
        """Return an expression with this rule applied to it."""
        return rewrite(self, expr)

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: Mapping[DFPattern, Sequence[RelayExpr]]) -> RelayExpr:
        """Return what shall stand in the place of a matched expression.

        Parameters
        ----------
        pre : Expr
            The expression as it was matched.
        post : Expr
            The same, its parts rewritten already.
        node_map : mapping of DFPattern to list of Expr
            What each part of the pattern describes, rewritten already.
        """
        raise NotImplementedError("a DFPatternCallback overrides callback(pre, post, node_map)")


@dataclass(eq=False)
class _Match:
    root: Any
    found: dict[DFPattern, list[Any]]
    inner: set[Any]


def _matches(pattern: DFPattern, expr: RelayExpr, check: Check = lambda _: True) -> dict[RelayExpr, _Match]:
    return on_deep_stack(_all_matches, pattern, expr, check)


def _all_matches(pattern: DFPattern, expr: RelayExpr, check: Check) -> dict[RelayExpr, _Match]:
    """Return matches in an expression by their roots: from the outermost in, without overlap.

    What lies inside a match may not be used outside it.
    """
    matcher = Matcher(expr)
    taken: set[Any] = set()
    found: dict[Any, _Match] = {}
    for node in reversed(list(post_order(expr))):
        if isinstance(node, Function) and node.attrs.get(_PARTITIONED):
            taken.update(post_order(node))
        if node in taken or isinstance(node, Op):
            continue
        parts = matcher.match(pattern, node)
        if parts is None:
            continue
        inner = {e for p, exprs in parts.items() if isinstance(p, _INNER) for e in exprs} | matcher.between | {node}
        is_closed = all(u in inner for n in inner if n is not node for u in matcher.users.get(n, ()))
        if not is_closed or inner & taken or not check(node):
            continue
        taken |= inner
        found[node] = _Match(node, parts, inner)
    return found


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: RelayExpr, mod: tvm.IRModule | None = None
) -> RelayExpr:
    """Return an expression in which callbacks have replaced what their patterns describe.

    Parameters
    ----------
    callbacks : DFPatternCallback or sequence of them
        The rules, each applied until it changes nothing any more.
    expr : Expr or Function
        The expression.
    mod : tvm.IRModule, optional
        The module whose functions and data types the expression uses, for type inference.
    """
    for callback in callbacks if isinstance(callbacks, Sequence) else [callbacks]:
        for _ in range(1 if callback.rewrite_once else _MOST_ROUNDS):
            changed = _round(callback, expr, mod)
            if changed.same_as(expr):
                break
            expr = changed
    return expr


def _round(callback: DFPatternCallback, expr: RelayExpr, mod: tvm.IRModule | None) -> RelayExpr:
    if callback.require_type:
        infer_expr(expr, mod)
    found = _matches(callback.pattern, expr)
    done: dict[Any, Any] = {}

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        matched = found.get(original)
        if matched is not None:
            node_map = {p: [done.get(e, e) for e in exprs] for p, exprs in matched.found.items()}
            node_map = {p: [node if e.same_as(original) else e for e in exprs] for p, exprs in node_map.items()}
            node = callback.callback(original, node, node_map)
        done[original] = node
        return node

    return rewritten(expr, {}, replace)


def partition(
    pattern: DFPattern,
    expr: RelayExpr,
    attrs: Mapping[str, Any] | None = None,
    check: Check = lambda _: True,
) -> RelayExpr:
    """Return an expression in which what a pattern describes has become calls of new functions.

    Parameters
    ----------
    pattern : DFPattern
        The pattern. What its wildcards and variables describe becomes the functions' arguments.
    expr : Expr or Function
        The expression.
    attrs : mapping, optional
        Attributes of the new functions, beside ``PartitionedFromPattern``, which lists what they are made of.
    check : callable
        Says of a matched expression whether it shall become a function.
    """
    found = _matches(pattern, expr, check)
    numbers = {root: i for i, root in enumerate(found)}

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        matched = found.get(original)
        if matched is None:
            return node
        function, inputs = _function(matched, numbers[original], attrs or {})
        return Call(function, [done.get(i, i) for i in inputs])

    done: dict[Any, Any] = {}

    def noted(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        done[original] = replace(node, original)
        return done[original]

    return rewritten(expr, {}, noted)


partition_hook.fill(partition)


def _function(matched: _Match, number: int, attrs: Mapping[str, Any]) -> tuple[Function, list[RelayExpr]]:
    """Return the function of what a match found, and the expressions that are its arguments."""
    constants = {e for p, exprs in matched.found.items() if isinstance(p, ConstantPattern) for e in exprs}
    params: dict[Any, Var] = {}
    # The walk meets what comes from outside in the order of evaluation, and stops there.
    list(post_order(matched.root, stop=_Outside(matched, constants, params, number)))
    body = rewritten(matched.root, params)
    made = {**attrs, _PARTITIONED: "".join(_name(n) for n in post_order(body))}
    return Function(list(params.values()), body, attrs=made), list(params)


class _Outside:
    """What a match takes from outside; each gets a parameter when a walk first meets it."""

    def __init__(self, matched: _Match, constants: set[RelayExpr], params: dict[RelayExpr, Var], number: int) -> None:
        self.matched, self.constants, self.params, self.number = matched, constants, params, number

    def __contains__(self, expr: RelayExpr) -> bool:
        if expr in self.matched.inner or expr in self.constants or isinstance(expr, Op):
            return False
        if expr not in self.params:
            ty = expr.type_annotation if isinstance(expr, Var) else type_of(expr)
            self.params[expr] = Var(f"FunctionVar_{self.number}_{len(self.params)}", ty)
        return True


def _name(node: RelayExpr) -> str:
    if isinstance(node, Call):
        return f"{node.op.name}_" if isinstance(node.op, Op) else ""
    if isinstance(node, Tuple):
        return "Tuple_"
    return f"TupleGetItem{node.index}_" if isinstance(node, TupleGetItem) else ""
