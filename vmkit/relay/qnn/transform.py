"""Passes over quantised programs."""

from __future__ import annotations

import tvm

from ..transform import InferType
from ..transform.qnn_canonicalize import QnnCanonicalize as CanonicalizeOps

__all__ = ["CanonicalizeOps", "Legalize"]


def Legalize() -> tvm.transform.Pass:
    """Return the pass that Relay ran before CanonicalizeOps, to suit data types to the target.

    Here CanonicalizeOps chooses them, the same for every target, so that this pass finds types and no more. Programs
    may run it as they did.
    """
    return InferType()
