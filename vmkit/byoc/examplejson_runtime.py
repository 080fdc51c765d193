"""The runtime of ``examplejson_native``: importing this compiles it, where that was not done before, and loads it."""

from __future__ import annotations

import tvm

from .native import load_runtime, runtime_function

__all__ = ["create"]

load_runtime("examplejson", ["examplejson_runtime.cc"])


def create(graphs: str) -> tvm.runtime.Module:
    """Return a module of the graphs in a JSON object, each under the name of its function."""
    made: tvm.runtime.Module = runtime_function("examplejson", "create")(graphs)
    return made
