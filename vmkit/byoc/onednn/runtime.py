"""The runtime of ``onednn``: importing this compiles it, where that was not done before, and loads it with the library.

oneDNN 3 on OpenMP is what it is linked with: under ``ONEDNN_ROOT``, if that is set, else where its wheels put it,
``pip install 'vmkit[onednn]'``.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import tvm

from ..._tvm.running import THREAD_LIMIT_ADDRESS
from ..native import load_runtime

__all__ = ["version"]

_SOURCES = ("after", "builder", "module", "operators", "plan", "products")


def _roots() -> Iterator[Path]:
    told = os.environ.get("ONEDNN_ROOT")
    if told:
        yield Path(told)
        return
    yield from dict.fromkeys(Path(p) for p in (sysconfig.get_path("data"), sys.prefix, "/usr/local", "/usr"))


def _found() -> tuple[Path, Path]:
    """Return the folders of oneDNN's headers and of its library; ImportError with what to do where there are none."""
    places = [(root / "include", folder) for root in _roots() for folder in _libraries(root)]
    for include, library in places:
        if (include / "oneapi" / "dnnl" / "dnnl_config.h").is_file():
            _require_fitting(include)
            return include, library
    looked = ", ".join(str(root) for root in _roots())
    raise ImportError(
        f"oneDNN is not installed (no libdnnl.so with its headers under {looked}): pip install 'vmkit[onednn]', or set "
        f"ONEDNN_ROOT to the folder of a oneDNN 3 that was built for OpenMP"
    )


def _libraries(root: Path) -> list[Path]:
    return [folder for folder in (root / "lib", root / "lib64") if (folder / "libdnnl.so").exists()]


def _require_fitting(include: Path) -> None:
    """Raise ImportError where the library is not of a version, or for threads, that the runtime is written for."""
    headers = include / "oneapi" / "dnnl"
    text = (headers / "dnnl_version.h").read_text() + (headers / "dnnl_config.h").read_text()
    defined = dict(re.findall(r"^#define (\w+)[ \t]+(\S+)", text, re.MULTILINE))
    if defined.get("DNNL_VERSION_MAJOR") != "3":
        raise ImportError(f"the oneDNN under {include.parent} is of version {defined.get('DNNL_VERSION_MAJOR')}, not 3")
    if defined.get("DNNL_CPU_RUNTIME") != "DNNL_RUNTIME_OMP":
        raise ImportError(
            f"the oneDNN under {include.parent} computes by {defined.get('DNNL_CPU_RUNTIME')}, not by OpenMP: "
            f"pip install 'vmkit[onednn]', or set ONEDNN_ROOT to one that was built for OpenMP"
        )


def _load() -> None:
    include, library = _found()
    load_runtime(
        "onednn",
        [f"onednn/{name}.cc" for name in _SOURCES],
        flags=["-fopenmp"],
        include=[include],
        link=[f"-L{library}", "-ldnnl", f"-Wl,-rpath,{library}", "-fopenmp"],
    )
    tvm.get_global_func("vmkit.byoc.onednn.set_thread_limit")(THREAD_LIMIT_ADDRESS)


_load()


def version() -> str:
    """Return the version of the library."""
    return str(tvm.get_global_func("vmkit.byoc.onednn.version")())
