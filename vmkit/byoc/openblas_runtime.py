"""The runtime of ``openblas``: importing this compiles it, where that was not done before, and loads it."""

from __future__ import annotations

import importlib
from pathlib import Path

from .._tvm.running import THREAD_LIMIT_ADDRESS
from .native import load_runtime, runtime_function

__all__: list[str] = []


def _load() -> None:
    try:
        found = importlib.import_module("scipy_openblas32")
    except ImportError as error:
        raise ImportError("OpenBLAS is not installed: pip install 'vmkit[openblas]'") from error
    folder = Path(found.get_lib_dir())
    load_runtime(
        "openblas",
        ["openblas_runtime.cc"],
        link=[f"-L{folder}", f"-l{found.get_library()}", f"-Wl,-rpath,{folder}"],
    )
    runtime_function("openblas", "set_thread_limit")(THREAD_LIMIT_ADDRESS)


_load()
