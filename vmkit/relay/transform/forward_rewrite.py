"""Rewriting from inputs to outputs, by functions attached to operators, with facts that travel along with values.

A :class:`TempExpr` stands for a value while a function is rewritten, and knows more of it: its kind, its scale. What no
function takes becomes an expression again.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from ..ir import Call, Expr, Function, Op, RelayExpr, Tuple, TupleGetItem, children, post_order, rewrite
from ..ir.lifetime import py_class
from ..op.attached import attached
from .known_type import use_counts

__all__ = ["TempExpr", "forward_rewrite", "realized"]


@py_class("relay.TempExpr")
class TempExpr(Expr):
    """Base of what stands for a value during a rewrite."""

    @abc.abstractmethod
    def realize(self) -> RelayExpr:
        """Return the expression of the value."""


def realized(expr: RelayExpr) -> RelayExpr:
    """Return an expression in which no TempExpr stands for a value, nor for a field of a tuple."""
    if isinstance(expr, TempExpr):
        return realized(expr.realize())
    if isinstance(expr, Tuple) and any(isinstance(f, TempExpr | Tuple) for f in expr.fields):
        fields = [realized(f) for f in expr.fields]
        return expr if all(a.same_as(b) for a, b in zip(fields, expr.fields, strict=True)) else Tuple(fields, expr.span)
    return expr


def forward_rewrite(
    function: Function, key: str, on_shared: Callable[[RelayExpr], RelayExpr] | None = None
) -> Function:
    """Return a function in which calls are what the functions attached to their operators make of them.

    Parameters
    ----------
    function : Function
        The function; its types are not asked for here.
    key : str
        The key of the attached functions: ``f(call, new_args, None) -> Expr or None``. The arguments may be, or have as
        fields, a TempExpr, and so may the result; None leaves the call as it is, over realized arguments.
    on_shared : callable, optional
        Takes what stands for a value that is used more than once, at each of its uses.
    """
    uses = use_counts(function)
    done: dict[Any, RelayExpr] = {}

    def now(node: RelayExpr) -> RelayExpr:
        made = done[node]
        return on_shared(made) if on_shared is not None and uses.get(node, 0) > 1 else made

    for node in post_order(function):
        match node:
            case Call(op=Op()):
                done[node] = _called(node, [now(a) for a in node.args], key)
            case Tuple():
                done[node] = _if_changed(node, [now(f) for f in node.fields])
            case TupleGetItem():
                whole = now(node.tuple_value)
                if isinstance(whole, Tuple):
                    done[node] = whole.fields[node.index]
                else:
                    done[node] = node if whole.same_as(node.tuple_value) else TupleGetItem(whole, node.index, node.span)
            case _:
                parts = {part: realized(now(part)) for part in children(node)}
                changed = {part: new for part, new in parts.items() if not new.same_as(part)}
                # Rewriting stops at the parts, all of which have been rewritten.
                done[node] = rewrite(node, parts) if changed else node
    made = done[function]
    assert isinstance(made, Function)
    return made


def _if_changed(node: Tuple, fields: list[RelayExpr]) -> Tuple:
    return node if all(a.same_as(b) for a, b in zip(fields, node.fields, strict=True)) else Tuple(fields, node.span)


def _called(call: Call, args: list[RelayExpr], key: str) -> RelayExpr:
    hook = attached(call.op, key)
    made = None if hook is None else hook(call, args, None)
    if made is not None:
        return made
    args = [realized(a) for a in args]
    if all(a.same_as(b) for a, b in zip(args, call.args, strict=True)):
        return call
    return Call(call.op, args, call.attrs, list(call.type_args), call.span)
