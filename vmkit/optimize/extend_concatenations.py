"""Concatenations that begin or end with all inputs of another one read its result instead.

In a densely connected block each layer reads a concatenation of all layers before it: of 24 inputs, then of 25, each
with a kernel of its own, whose code is as long as it has inputs. Of the result before and one more input all are one
kernel where kernels are shared by sizes. They copy as much, but what follows a concatenation no longer goes with it.
"""

from __future__ import annotations

from ..relay.analysis.scopes import scopes
from ..relay.ir import Function, RelayExpr, Tuple, is_call, post_order, rewrite
from ..relay.op.registry import build
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass

__all__ = ["ExtendConcatenations"]

Inputs = tuple[int, tuple[RelayExpr, ...]]
"""The axis of a concatenation, and what lies along it."""


@relay_pass(opt_level=1)
def ExtendConcatenations(shares_kernels: bool = True) -> ModuleTransform:
    """Return the pass that makes a concatenation of the result of another one and of what it has besides.

    Parameters
    ----------
    shares_kernels : bool
        Whether kernels that differ in sizes alone are one. Otherwise nothing changes: a concatenation is faster with
        what follows it in one kernel.
    """
    return per_function(_extended if shares_kernels else lambda function: function)


def _extended(function: Function) -> Function:
    found = [node for node in post_order(function) if _inputs(node) is not None]
    if len(found) < 2:
        return function
    own, made = scopes(function), dict[Inputs, tuple[RelayExpr, RelayExpr]]()

    def extended(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        inputs = _inputs(original)
        if inputs is None:
            return node
        axis, fields = inputs
        result, now = node, list(node.args[0].fields)
        for count in range(len(fields) - 1, 1, -1):
            begin, end = (made.get((axis, part)) for part in (fields[:count], fields[-count:]))
            if begin is not None and own[original].is_in(own[begin[1]]):
                result = build("concatenate", Tuple([begin[0], *now[count:]]), axis=axis)
                break
            if end is not None and own[original].is_in(own[end[1]]):
                result = build("concatenate", Tuple([*now[:-count], end[0]]), axis=axis)
                break
        made.setdefault(inputs, (result, original))
        return result

    return rewrite(function, {}, extended)


def _inputs(node: RelayExpr) -> Inputs | None:
    """Return what a concatenation of known inputs has; None of all else."""
    if not is_call(node, "concatenate") or not isinstance(node.args[0], Tuple):
        return None
    return int(node.attrs.axis), tuple(node.args[0].fields)
