"""Costly functions become approximations of them."""

from __future__ import annotations

from ..ir import Call, RelayExpr, is_call
from ..op.registry import entry
from .known_type import rewrite_typed
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["FastMath"]

_FAST = {"exp": "fast_exp", "erf": "fast_erf", "tanh": "fast_tanh", "nn.softmax": "nn.fast_softmax"}


@relay_pass(opt_level=4)
def FastMath() -> ModuleTransform:
    """Return the pass that replaces exp, erf, tanh and softmax by their approximations, a few digits less exact."""
    return per_function(lambda function: rewrite_typed(function, _fast))


def _fast(node: RelayExpr) -> RelayExpr:
    if not is_call(node, *_FAST):
        return node
    # The approximations are made of float32 arithmetic.
    if node.checked_type.dtype != "float32":
        return node
    return Call(entry(_FAST[node.op.name]).op, list(node.args), node.attrs, span=node.span)
