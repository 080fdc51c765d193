"""``tvm.relay.backend.executor_factory``: the classes of what ``relay.build`` returns."""

from __future__ import annotations

from .built_module import AOTExecutorFactoryModule, ExecutorFactoryModule, GraphExecutorFactoryModule

__all__ = ["AOTExecutorFactoryModule", "ExecutorFactoryModule", "GraphExecutorFactoryModule"]
