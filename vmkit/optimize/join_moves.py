"""Transposes, changes of layout and reshapes in a row as one, or none where they undo each other."""

from __future__ import annotations

from ..relay.ir import Call, Op, RelayExpr
from ..relay.transform.known_type import rewrite_typed
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..relay.transform.simplify.layouts import consecutive_transposes, identity_reshape, identity_transpose

__all__ = ["JoinMoves"]


@relay_pass(opt_level=1)
def JoinMoves() -> ModuleTransform:
    """Return the pass that makes one move of those in a row, and leaves out those that move nothing.

    A program that transposes for operators of one layout has transposes left over where the operators get another.
    """
    return per_function(lambda function: rewrite_typed(function, _joined))


def _joined(node: RelayExpr) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, Op)):
        return node
    match node.op.name:
        case "transpose" | "layout_transform":
            made = identity_transpose(node) or consecutive_transposes(node)
        case "reshape":
            made = identity_reshape(node)
        case _:
            return node
    return node if made is None else made
