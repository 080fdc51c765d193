"""``tvm.runtime.executor``: a model that was built ahead of time, which runs as any other."""

from __future__ import annotations

from .graph_module import GraphModule

__all__ = ["AotModule"]


class AotModule(GraphModule):
    """A model with its inputs and outputs; what ``lib["default"](device)`` gives is wrapped in it."""
