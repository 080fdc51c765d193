"""``tvm.relay.backend``: what its submodules hold is found by import."""

from __future__ import annotations

from . import backend_api as _backend
from . import backend_names as utils
from . import build_choices, executor_factory, graph_executor_codegen, interpreter, name_transforms, te_compiler, vm
from .build_choices import Executor, Runtime

executor = runtime = build_choices

__all__ = [
    "Executor",
    "Runtime",
    "_backend",
    "executor",
    "executor_factory",
    "graph_executor_codegen",
    "interpreter",
    "name_transforms",
    "runtime",
    "te_compiler",
    "utils",
    "vm",
]
