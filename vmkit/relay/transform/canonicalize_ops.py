"""Operators that are shorthands become what they are short for."""

from __future__ import annotations

from ..ir import RelayExpr, is_call
from ..op.registry import build
from .known_type import rewrite_typed
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["CanonicalizeOps", "canonical"]


@relay_pass(opt_level=3)
def CanonicalizeOps() -> ModuleTransform:
    """Return the pass that makes ``nn.bias_add`` a sum of the data and the bias, expanded to the data's axes."""
    return per_function(lambda function: rewrite_typed(function, canonical))


def canonical(node: RelayExpr) -> RelayExpr:
    """Return what a typed call is short for, or the node itself."""
    if not is_call(node, "nn.bias_add"):
        return node
    data, bias = node.args
    rank = len(data.checked_type.shape)
    after = rank - 1 - node.attrs.axis % rank
    return build("add", data, build("expand_dims", bias, axis=1, num_newaxis=after) if after else bias)
