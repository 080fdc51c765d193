"""Give every node a place in a text: that of the module's own."""

from __future__ import annotations

import tvm

from ..text import astext, fromtext
from .registry import ModuleTransform, relay_pass

__all__ = ["AnnotateSpans"]


@relay_pass(opt_level=0)
def AnnotateSpans() -> ModuleTransform:
    """Return the pass that prints a module and reads it again, so that errors can say where a node stands.

    All nodes of the result are new.
    """

    def annotate(mod: tvm.IRModule) -> tvm.IRModule:
        return fromtext(astext(mod))

    return annotate
