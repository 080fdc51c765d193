"""vmkit's version, and the check that the installed TVM is one it works with.

A wrong apache-tvm-ffi does not fail: it kills the process later, inside ``save_json`` or MetaSchedule. So the versions
are compared once, from the packages' metadata and before TVM is imported. The names of their folders say them; where
they do not the metadata is read, by modules whose import takes longer than the rest of ``import vmkit``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from vmkit.errors import VersionError

__all__ = ["FFI_REQUIREMENT", "TVM_REQUIREMENT", "__version__", "require_compatible_tvm"]

__version__ = "0.1.0"

TVM_REQUIREMENT = "apache-tvm==0.27.*"
FFI_REQUIREMENT = "apache-tvm-ffi>=0.1.14.post0,<0.1.15"

logger = logging.getLogger(__name__)


def require_compatible_tvm() -> None:
    """Raise :class:`~vmkit.errors.VersionError` unless vmkit works with this Python and the installed TVM.

    Only metadata is read; TVM is not imported. The error lists every package that is wrong and ends with the one
    command that mends them all.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise VersionError(
            "Python runs without its global interpreter lock, on which the counts of a machine's threads rely; "
            "set PYTHON_GIL=1, or use a Python that has the lock"
        )
    problems = [*_tvm_problems(), *_ffi_problems()]
    if problems:
        raise VersionError("\n".join(["TVM cannot be used as it is installed", *problems, _mend_command()]))


def _tvm_problems() -> list[str]:
    if _is_time_value_of_money():
        return [
            "  tvm: the package of that name on PyPI is another project (time value of money) and hides Apache TVM;"
            f" first run: {sys.executable} -m pip uninstall tvm"
        ]
    version = _installed("apache-tvm")
    if version is not None:
        return [] if version.startswith("0.27.") else [f"  apache-tvm: {version} is installed, expected 0.27.*"]
    if find_spec("tvm") is None:
        return ["  apache-tvm: not installed, expected 0.27.*"]
    logger.warning("TVM was not installed by pip, so its version was not checked; vmkit works with %s", TVM_REQUIREMENT)
    return []


def _ffi_problems() -> list[str]:
    version = _installed("apache-tvm-ffi")
    expected = "expected >=0.1.14.post0,<0.1.15 (others end in a crash of the process)"
    if version is None:
        return [f"  apache-tvm-ffi: not installed, {expected}"]
    if re.match(r"0\.1\.14\.post\d+(\+|$)", version):
        return []
    return [f"  apache-tvm-ffi: {version} is installed, {expected}"]


def _is_time_value_of_money() -> bool:
    if not any(re.match(r"tvm[-.].*(dist|egg)-info$", name) for name in _metadata_folders()):
        return False
    from importlib import metadata

    try:
        summary = metadata.metadata("tvm")["Summary"]
    except metadata.PackageNotFoundError:
        return False
    return "time value of money" in (summary or "").lower()


def _installed(distribution: str) -> str | None:
    folder = re.compile(rf"{distribution.replace('-', '_')}-([^-]+)\.dist-info")
    for name in _metadata_folders():
        if found := folder.fullmatch(name):
            return found.group(1)
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _metadata_folders() -> Iterator[str]:
    """Yield the names of all that packages are imported from, in that order; some are folders of metadata."""
    for place in sys.path:
        with contextlib.suppress(OSError):
            yield from os.listdir(place or ".")


def _mend_command() -> str:
    return f'  to mend it, run: {sys.executable} -m pip install "{TVM_REQUIREMENT}" "{FFI_REQUIREMENT}"'
