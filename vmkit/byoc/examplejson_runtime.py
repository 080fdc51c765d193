"""The runtime of ``examplejson_native``: importing this compiles it, where that was not done before, and loads it.

tvm-ffi's builder keeps what it compiled under ``TVM_FFI_CACHE_DIR``, by its source. It needs a C++ compiler and
``ninja``: ``pip install 'vmkit[native]'`` where the system has none.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

import tvm
import tvm_ffi
from tvm_ffi import cpp

__all__ = ["create"]

_CREATE = "vmkit.byoc.examplejson.create"  # the library registers it


@contextmanager
def _ninja() -> Iterator[None]:
    """Let the builder find the ``ninja`` of this Python's environment, which need not have been activated."""
    before = os.environ.get("PATH", os.defpath)
    if shutil.which("ninja") is None:
        os.environ["PATH"] = f"{before}{os.pathsep}{Path(sys.executable).parent}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _loaded() -> tvm_ffi.Module:
    """Return the library, whose loading registers its functions."""
    with as_file(files(__package__) / "examplejson_runtime.cc") as source, _ninja():
        try:
            library = cpp.build("vmkit_examplejson", sources=[str(source)])
        except (RuntimeError, OSError) as error:
            # What is asked of an import that fails: that it is an ImportError.
            raise ImportError(f"the runtime of examplejson_native cannot be compiled: {error}") from error
    return tvm_ffi.load_module(library)


_library = _loaded()


def create(graphs: str) -> tvm.runtime.Module:
    """Return a module of the graphs in a JSON object, each under the name of its function."""
    made: tvm.runtime.Module = tvm.get_global_func(_CREATE)(graphs)
    return made
