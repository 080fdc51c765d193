"""Functions made by operator fusion become their operators again."""

from __future__ import annotations

from ..ir import Call, Function, RelayExpr, rewrite
from .fresh_copy import applied_copy
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["DefuseOps"]


@relay_pass(opt_level=3)
def DefuseOps() -> ModuleTransform:
    """Return the pass that takes calls of functions with the attribute ``Primitive`` apart."""
    return per_function(lambda function: rewrite(function, {}, _defused))


def _defused(node: RelayExpr, original: RelayExpr) -> RelayExpr:
    if isinstance(node, Call) and isinstance(node.op, Function) and node.op.attrs.get("Primitive"):
        return applied_copy(node.op, list(node.args))
    return node
