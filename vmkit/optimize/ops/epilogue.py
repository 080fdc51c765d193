"""What products with an epilogue have in common: bias and residual after data and weight, and the activation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ...kernels.activation import require_activation
from ...relay.ir import dims
from ...relay.ir.types import Dim, TensorType
from ...relay.op.nn.layout import require_rank

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__ = ["require_added", "require_added_at_run_time", "require_function"]


def require_added(added: Sequence[TensorType], has_bias: bool, result: Sequence[Dim]) -> None:
    """Refuse with TypeCheckError what is no bias (the result's last axis,), or no residual like the result."""
    if len(added) not in (has_bias, has_bias + 1):
        raise TypeCheckError(f"there are {len(added)} inputs after the weight, has_bias is {has_bias}")
    for tensor, shape in zip(added, _shapes(has_bias, result), strict=False):
        require_rank(tensor, len(shape), "what is added")
        if any(dims.equal(a, b) is False for a, b in zip(tensor.shape, shape, strict=True)):
            raise TypeCheckError(f"what is added must have shape {tuple(shape)}, not {tensor}")


def require_added_at_run_time(
    context: LowerContext, name: str, added: Sequence[relax.Expr], has_bias: bool, result: Sequence[Dim]
) -> None:
    """Check at run time what :func:`require_added` could not."""
    for tensor, shape in zip(added, _shapes(has_bias, result), strict=False):
        for a, b in zip(context.shape(tensor), shape, strict=True):
            context.require_equal(a, b, f"{name}: a dimension of what is added is {{actual}}, expected {{expected}}")


def require_function(activation: str) -> None:
    """Refuse with TypeCheckError what is no program of :mod:`vmkit.kernels.activation`."""
    try:
        require_activation(activation)
    except ValueError as error:
        raise TypeCheckError(str(error)) from None


def _shapes(has_bias: bool, result: Sequence[Dim]) -> list[list[Dim]]:
    return [*[[result[-1]]] * has_bias, list(result)]
