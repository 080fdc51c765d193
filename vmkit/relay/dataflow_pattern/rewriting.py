"""Replace what patterns describe: by what callbacks return, or by calls of functions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi

from ...errors import ModelError
from ...stack import on_deep_stack
from ..analysis.infer_type import infer_expr
from ..ir import Call, Function, RelayExpr
from ..ir import rewrite as rewritten
from .grouping import PARTITIONED, groups_by_root
from .patterns import Check, DFPattern, FunctionPattern, partition_hook

__all__ = ["DFPatternCallback", "partition", "rewrite"]

_MOST_APPLIED = 100

logger = logging.getLogger(__name__)


class DFPatternCallback:
    """A rule of rewriting: derive from it, set ``pattern`` and override :meth:`callback`.

    Parameters
    ----------
    require_type : bool
        Whether the rule reads types of expressions; they are inferred before each round then.
    rewrite_once : bool
        Whether the rule is done once it has changed something; otherwise it is applied until nothing changes.

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


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: RelayExpr, mod: tvm.IRModule | None = None
) -> RelayExpr:
    """Return an expression in which callbacks have replaced what their patterns describe.

    Parameters
    ----------
    callbacks : DFPatternCallback or sequence of them
        The rules. Each is applied in turn, and all of them again until nothing changes, so that what a rule makes is
        seen by those before it, too.
    expr : Expr or Function
        The expression.
    mod : tvm.IRModule, optional
        The module whose functions and data types the expression uses, for type inference.

    Raises
    ------
    ModelError
        When the expression still changes after 100 applications of rules, which undo or feed each other then.
    """
    waiting = list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]
    names = ", ".join(type(rule).__name__ for rule in waiting)
    applied = 0
    while waiting:
        before = expr
        for rule in list(waiting):
            changed = _applied(rule, expr, mod)
            if rule.rewrite_once and not _is_same(expr, changed):
                waiting.remove(rule)
            expr = changed
            applied += 1
        if _is_same(before, expr):
            return expr
        if applied >= _MOST_APPLIED:
            raise ModelError(
                f"the expression still changes after {applied} applications of {names}: a callback replaces what it "
                "made itself, or two undo each other; narrow a pattern, or make it with rewrite_once=True"
            )
    return expr


def _is_same(before: RelayExpr, after: RelayExpr) -> bool:
    return before.same_as(after) or on_deep_stack(tvm_ffi.structural_equal, before, after)


def _applied(callback: DFPatternCallback, expr: RelayExpr, mod: tvm.IRModule | None) -> RelayExpr:
    if callback.require_type:
        infer_expr(expr, mod)
    found = groups_by_root(callback.pattern, expr)
    done: dict[Any, Any] = {}

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        group = found.get(original)
        if group is not None:
            node_map = {p: [done.get(e, e) for e in exprs] for p, exprs in group.found.items()}
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

    Neither the expression nor the pattern needs types: the parameters of the functions have none, until type inference
    finds them.

    Parameters
    ----------
    pattern : DFPattern
        The pattern. What its wildcards and variables describe becomes the functions' arguments, in the order in which
        the pattern has them; constants that it asks for stay inside.
    expr : Expr or Function
        The expression.
    attrs : mapping, optional
        Attributes of the new functions, beside ``PartitionedFromPattern``, which lists what they are made of.
    check : callable
        Says of a matched expression whether it shall become a function. What it refuses stays as it is, and no other
        match takes parts of it.
    """
    if isinstance(pattern, FunctionPattern):
        logger.warning("partition: a function that is not called has no value; a pattern of one changes nothing")
        return expr
    found = groups_by_root(pattern, expr)
    done: dict[Any, Any] = {}

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        group = found.get(original)
        if group is not None and check(original):
            function = Function(group.params, group.body, attrs={PARTITIONED: group.name, **(attrs or {})})
            node = Call(function, [done.get(arg, arg) for arg in group.args])
        done[original] = node
        return node

    return rewritten(expr, {}, replace)


partition_hook.fill(partition)
