"""Functions made by operator fusion become their operators again."""

from __future__ import annotations

from ..analysis.effects import effectful
from ..ir import Call, Function, RelayExpr, rewrite
from .fresh_copy import applied_copy
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["DefuseOps", "defused"]


@relay_pass(opt_level=3)
def DefuseOps() -> ModuleTransform:
    """Return the pass that takes calls of function literals apart, the reverse of :func:`FuseOps`.

    Functions for another compiler stay, as do those with type parameters, and calls on arguments with effects.
    """
    return per_function(defused)


def defused(function: Function) -> Function:
    """Return a typed function with the bodies of function literals where these are called."""
    impure = effectful(function)

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if not isinstance(node, Call) or not isinstance(node.op, Function):
            return node
        if node.op.attrs.get("Compiler") or node.op.type_params or any(arg in impure for arg in original.args):
            return node
        return applied_copy(node.op, list(node.args))

    return rewrite(function, {}, replace)
