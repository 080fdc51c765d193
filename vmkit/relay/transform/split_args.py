"""Concatenations of more tensors than a kernel can take are done step by step."""

from __future__ import annotations

from typing import Any

from ..ir import RelayExpr, Tuple, is_call
from ..op.registry import build
from .known_type import rewrite_typed, type_of
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["SplitArgs"]


@relay_pass(opt_level=1)
def SplitArgs(max_function_args: int) -> ModuleTransform:
    """Return the pass that splits concatenations whose kernel would have too many arguments.

    Parameters
    ----------
    max_function_args : int
        The most arguments of a kernel: its tensors, among them the result, and the sizes that are known only at run
        time. No limit if 0.
    """
    return per_function(lambda function: rewrite_typed(function, lambda node: _split(node, max_function_args)))


def _split(node: RelayExpr, limit: int) -> RelayExpr:
    if limit <= 0 or not is_call(node, "concatenate"):
        return node
    fields = list(node.args[0].fields) if isinstance(node.args[0], Tuple) else []
    own = 1 + _strides(node)
    if sum(map(_arguments, fields)) + own <= limit:
        return node
    parts: list[Any] = []
    taken = own
    for field in fields:
        if parts and len(parts) > 1 and taken + _arguments(field) > limit:
            joined = _stopped(parts, node.attrs.axis)
            parts, taken = [joined], own + _arguments(joined)
        parts.append(field)
        taken += _arguments(field)
    return _stopped(parts, node.attrs.axis)


def _stopped(parts: list[RelayExpr], axis: int) -> RelayExpr:
    """Return a concatenation that does not fuse with those before it, which would bring their arguments along."""
    joined = build("concatenate", build("annotation.stop_fusion", Tuple(parts)), axis=axis)
    type_of(joined)
    return joined


def _arguments(expr: RelayExpr) -> int:
    """Return how many arguments of a kernel a tensor takes: itself, its unknown sizes, and then its strides."""
    return 1 + _unknown(expr) + _strides(expr)


def _unknown(expr: RelayExpr) -> int:
    return sum(not isinstance(d, int) for d in type_of(expr).shape)


def _strides(expr: RelayExpr) -> int:
    return len(type_of(expr).shape) if _unknown(expr) else 0
