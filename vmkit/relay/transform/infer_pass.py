"""Type inference as a pass."""

from __future__ import annotations

from .infer_type import infer_module
from .registry import ModuleTransform, relay_pass

__all__ = ["InferType"]


@relay_pass(opt_level=0)
def InferType() -> ModuleTransform:
    """Return the pass that finds the type of every expression; see :func:`infer_module`."""
    return infer_module
