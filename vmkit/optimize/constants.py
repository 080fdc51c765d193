"""What passes ask about constants."""

from __future__ import annotations

from ..relay.ir import Constant, RelayExpr

__all__ = ["number_of"]


def number_of(node: RelayExpr) -> float | None:
    """Return the value of a constant of one element, of any rank; None of anything else."""
    if not isinstance(node, Constant) or any(d != 1 for d in node.checked_type.shape):
        return None
    return float(node.data.numpy().reshape(()))
