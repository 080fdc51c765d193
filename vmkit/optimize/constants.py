"""What passes ask about constants."""

from __future__ import annotations

from ..relay.ir import Constant, RelayExpr, is_call
from ..values.halves import HALVES

__all__ = ["number_of", "weight_constant"]


def number_of(node: RelayExpr) -> float | None:
    """Return the value of a constant of one element, of any rank; None of anything else."""
    if not isinstance(node, Constant) or any(d != 1 for d in node.checked_type.shape):
        return None
    return float(node.data.numpy().reshape(()))


def weight_constant(node: RelayExpr) -> Constant | None:
    """Return the constant that a weight is, or is widened from as the target's kernels do; None of anything else.

    Large weights of 16 bits stay casts until they are packed; see :func:`vmkit.relay.transform.FoldConstant`.
    """
    if is_call(node, "cast") and node.attrs.dtype == "float32" and node.args[0].checked_type.dtype in HALVES:
        node = node.args[0]
    return node if isinstance(node, Constant) else None
