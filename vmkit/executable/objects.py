"""Machine code of kernels as objects, linked when it is first run or written to a file, and not a second time."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

import tvm.runtime

from .._tvm.running import load_library
from ..errors import ExecutableError
from .linker import Linker, linker_for
from .scratch import scratch_folder

__all__ = ["Objects", "has_room", "linked", "loaded"]

_ROOM = 1 << 30  # bytes with which any library can be written; LLVM ends the process where an object cannot be
_FORMATS = ("o", "obj")

logger = logging.getLogger(__name__)


def has_room() -> bool:
    """Tell whether the folder for temporary files takes any object."""
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free >= _ROOM
    except OSError:
        return False


class Objects:
    """The kernels of an executable that was compiled in this process.

    Parameters
    ----------
    objects : sequence of bytes
        Object files.
    triple : str
        Of the machine that they are for.
    in_llvm : callable
        Builds the same kernels as libraries that LLVM holds: for who wants their sources, or links them otherwise.
    """

    def __init__(
        self, objects: Sequence[bytes], triple: str, in_llvm: Callable[[], tuple[tvm.runtime.Module, ...]]
    ) -> None:
        self._objects = objects
        self._triple = triple
        self._build = in_llvm
        self._lock = threading.RLock()
        self._file: bytes | None = None
        self._library: tvm.runtime.Module | None = None
        self._in_llvm: tuple[tvm.runtime.Module, ...] | None = None

    def in_llvm(self) -> tuple[tvm.runtime.Module, ...]:
        """Return the kernels as libraries that LLVM holds, which are built when they are first asked for."""
        with self._lock:
            if self._in_llvm is None:
                self._in_llvm = self._build()
            return self._in_llvm

    def library(self) -> tvm.runtime.Module | None:
        """Return the kernels as a library that is loaded; None, with a warning, where they cannot be linked."""
        with self._lock:
            if self._library is None:
                try:
                    file = self.file()
                    if file is None:
                        return None
                    self._library = loaded(file)
                except (ExecutableError, RuntimeError, OSError) as error:
                    logger.warning("kernels are built once more: %s", str(error).strip())
            return self._library

    def file(self, linker: Linker | None = None) -> bytes | None:
        """Return the kernels as a shared library; None where nothing is found that links them, or takes objects.

        Raises
        ------
        ExecutableError
            If the linker fails, or cannot be found.
        """
        link = linker_for(self._triple, linker)
        if link is None or getattr(link, "need_system_lib", False):
            return None
        suffix = getattr(link, "object_format", _FORMATS[0])
        if suffix not in _FORMATS:
            return None
        with self._lock:
            if linker is None and self._file is not None:
                return self._file
            try:
                made = linked(self._objects, link, suffix)
            except (RuntimeError, OSError) as error:
                problem = f"the kernels cannot be linked for {self._triple}: {str(error).strip()}"
                raise ExecutableError(problem) from error
            if linker is None:
                self._file = made
            return made


def linked(objects: Sequence[bytes], link: Callable[..., Any], suffix: str = _FORMATS[0]) -> bytes:
    """Return the shared library that a linker makes of object files, whose names it is given with a suffix.

    Raises
    ------
    RuntimeError, OSError
        If it fails.
    """
    with scratch_folder() as folder:
        path, files = folder / "lib0.so", [folder / f"{n}.{suffix}" for n in range(len(objects))]
        for each, data in zip(files, objects, strict=True):
            each.write_bytes(data)
        link(str(path), list(map(str, files)))
        return path.read_bytes()


def loaded(file: bytes) -> tvm.runtime.Module:
    """Return the module of a shared library."""
    with scratch_folder() as folder:
        path = folder / "lib0.so"
        path.write_bytes(file)
        return load_library(path)  # on Linux it stays mapped once the file is gone
