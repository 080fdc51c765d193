"""Passes over quantised programs."""

from __future__ import annotations

import tvm

from ..op.attached import QNN_LEGALIZE
from ..transform import legalize
from ..transform.qnn_canonicalize import QnnCanonicalize as CanonicalizeOps

__all__ = ["CanonicalizeOps", "Legalize"]


def Legalize() -> tvm.transform.Pass:
    """Return the pass that suits quantised operators to the target in force, for those who ask for it.

    What is put in the place of a call are the functions of :func:`vmkit.relay.op.register_qnn_legalize`; see
    ``vmkit.relay.qnn.op.legalizations`` for those of Relay. The compiler needs none: what it makes of quantised
    operators follows from its target.
    """
    return legalize.Legalize(QNN_LEGALIZE)
