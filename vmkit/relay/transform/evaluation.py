"""What runs a program for passes that compute with constants: the compiler's, unless a pass is handed another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm.runtime import Tensor

from ..._later import named_later

__all__ = ["Evaluate", "evaluate_now"]

Evaluate = Callable[[tvm.IRModule], Sequence[Tensor]]
"""Runs ``main`` of a module without parameters; returns the fields of its tuple result as tensors on the CPU."""

__getattr__, __dir__ = named_later(__name__)


def evaluate_now(mod: tvm.IRModule) -> Sequence[Tensor]:
    """Compile ``main`` of a module without parameters for this machine, and return the fields of its result."""
    run: Evaluate = __getattr__("evaluate")
    return run(mod)
