"""Type inference as a pass."""

from __future__ import annotations

from ..analysis.infer_type import infer_expr, inferred
from ..ir import RelayExpr
from ..ir.types import Type
from .registry import ModuleTransform, relay_pass

__all__ = ["InferType", "InferTypeLocal"]


@relay_pass(opt_level=0)
def InferType() -> ModuleTransform:
    """Return the pass that finds the type of every expression; see :func:`inferred`."""
    return inferred


def InferTypeLocal(expr: RelayExpr) -> Type:
    """Return the type of one expression, written into its nodes; it calls no global function."""
    return infer_expr(expr)
