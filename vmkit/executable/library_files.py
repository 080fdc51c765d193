"""The libraries of an executable as files: shared objects, or LLVM IR where nothing links them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tvm

from ..errors import ExecutableError, OptionError
from ..target.llvm import default_triple
from .linker import Linker, advice, linker_for
from .portable import require_portable
from .scratch import scratch_folder

__all__ = ["export_libraries", "portable_libraries"]

logger = logging.getLogger(__name__)

_ROOM = 1 << 30  # bytes with which any library can be written


def export_libraries(
    libraries: list[tvm.runtime.Module], target: tvm.target.Target | None, linker: Linker | None = None
) -> dict[str, bytes]:
    """Return libraries as files, by name.

    Parameters
    ----------
    libraries : list of Module
        Libraries of kernels, with what they import.
    target : Target, optional
        What they were built for; this machine where nothing is said.
    linker : Linker, optional
        What links them, instead of what :func:`vmkit.executable.linker.linker_for` finds.

    Raises
    ------
    ExecutableError
        If they cannot be linked, or there is nothing to link them with and they are more than LLVM's code.
    """
    host = target if target is None or target.host is None else target.host
    triple = str(host.attrs.get("mtriple", "")) if host is not None and host.kind.name == "llvm" else ""
    triple = triple or str(default_triple())
    link = linker_for(triple, linker)
    if link is None:
        # Nothing links them into one: each goes into a file of its own.
        libraries = [each for library in libraries for each in (library, *library.imports)]
        if libraries:
            logger.warning("kernels are stored as LLVM IR, which takes longer to load: %s", advice(triple))
    return _files(libraries, link, triple)


def portable_libraries(
    libraries: list[tvm.runtime.Module], linker: Linker | None = None, stored: Mapping[str, bytes] | None = None
) -> Mapping[str, bytes]:
    """Return libraries as files of LLVM IR for a family of processors, by name.

    Parameters
    ----------
    libraries : list of Module
        Libraries of kernels, with what they import.
    linker : Linker, optional
        Must not be given: there is nothing to link.
    stored : mapping, optional
        Their files, for libraries that come from files.

    Raises
    ------
    ExecutableError
        If they are no LLVM IR, or were made for one processor.
    OptionError
        If there is a linker.
    """
    if linker is not None:
        raise OptionError("portable=True leaves nothing to link: leave out the linker, or portable=True")
    parts = [each for library in libraries for each in (library, *library.imports)]
    others = sorted({each.kind for each in parts} - {"llvm"})
    if others:
        reason = "they were loaded from a shared library, of a file or a cache; compile the model without one"
        raise ExecutableError(
            f"portable=True stores kernels as LLVM IR, and some are of kind {', '.join(map(repr, others))}"
            f"{': ' + reason if 'library' in others else ''}"
        )
    files = stored or _files(parts, None, "")
    for data in files.values():
        require_portable(data.decode())
    return files


def _files(libraries: list[tvm.runtime.Module], link: Callable[..., Any] | None, triple: str) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    with scratch_folder() as folder:
        for index, library in enumerate(libraries):
            path = _written(library, folder / f"lib{index}", link, triple)
            members[path.name] = path.read_bytes()
    return members


def _written(library: tvm.runtime.Module, stem: Path, link: Callable[..., Any] | None, triple: str) -> Path:
    if library.kind == "library":
        raise ExecutableError(
            "the kernels were loaded from a shared library and cannot be written again; export the executable where "
            "it was compiled"
        )
    _require_room(library, stem.parent)
    if link is not None:
        path = stem.with_suffix(".so")
        try:
            library.export_library(str(path), fcompile=link)
        except RuntimeError as error:
            raise ExecutableError(f"the kernels cannot be linked for {triple}: {str(error).strip()}") from error
    elif library.kind == "llvm" and all(each.kind == "llvm" for each in library.imports):
        path = stem.with_suffix(".ll")
        library.write_to_file(str(path), "ll")
    else:
        raise ExecutableError(
            f"no C compiler for {triple} was found, and kernels of kind {library.kind!r} cannot be exported without "
            f"one; {advice(triple)}"
        )
    return path


def _require_room(library: tvm.runtime.Module, folder: Path) -> None:
    """Raise ExecutableError where LLVM would end the process, which it does when an object file cannot be written."""
    free = shutil.disk_usage(folder).free
    if free >= _ROOM or library.kind != "llvm":
        return
    # As text the code is longer than the object and what is linked from it together.
    needed = len(library.inspect_source("ll"))
    if free < needed:
        raise ExecutableError(
            f"the kernels cannot be written to {folder.parent}: it has room for {free} bytes, and up to {needed} are "
            "needed; set TMPDIR to a folder with more"
        )
