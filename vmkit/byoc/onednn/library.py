"""Where oneDNN is: its headers and its library."""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["found"]


def _roots() -> Iterator[Path]:
    told = os.environ.get("ONEDNN_ROOT")
    if told:
        yield Path(told)
        return
    yield from dict.fromkeys(Path(p) for p in (sys.prefix, site.getuserbase(), "/usr/local", "/usr"))


def found() -> tuple[Path, Path]:
    """Return the folders of oneDNN's headers and of its library.

    They are those under ``ONEDNN_ROOT``, if that is set, else where its wheels put them, or the system.

    Raises
    ------
    ImportError
        When there are none, or of another version than 3, or for other threads than OpenMP's; it says what to do.
    """
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
