"""The runtime of ``onednn``: importing this compiles it, where that was not done before, and loads it with the library.

What it is linked with is :func:`vmkit.byoc.onednn.library.found`.
"""

from __future__ import annotations

from ..._tvm.running import THREAD_LIMIT_ADDRESS
from ..native import load_runtime, runtime_function
from .library import found

__all__ = ["version"]

_SOURCES = ("after", "builder", "module", "operators", "plan", "products")


def _load() -> None:
    include, library = found()
    load_runtime(
        "onednn",
        [f"onednn/{name}.cc" for name in _SOURCES],
        flags=["-fopenmp"],
        include=[include],
        link=[f"-L{library}", "-ldnnl", f"-Wl,-rpath,{library}", "-fopenmp"],
    )
    runtime_function("onednn", "set_thread_limit")(THREAD_LIMIT_ADDRESS)


_load()


def version() -> str:
    """Return the version of the library."""
    return str(runtime_function("onednn", "version")())
