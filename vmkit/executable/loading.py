"""Executables out of their files: what is wrong with a file is found out before any of its code runs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm

from .. import bytecode
from ..bytecode.stored_weights import with_block
from ..errors import ExecutableError, VMKitError
from ..target import host_supports
from .archive import read_archive
from .description import MALFORMED, Description
from .executable import CODE, WEIGHTS, Executable, Parts, described

__all__ = ["load"]


def load(path: str | Path) -> Executable:
    """Return the executable in a file that :meth:`Executable.export` wrote.

    Raises
    ------
    ExecutableError
        If the file is missing, truncated, altered or of a newer format, or if its code is not for this machine or
        this version of TVM. All of that is found out before any of the code runs.
    """
    path = Path(path)
    manifest, members = read_archive(path)
    try:
        return _load(path, manifest, members)
    except VMKitError:
        raise
    except MALFORMED as error:
        raise ExecutableError(f"{path}: the manifest is incomplete: {error!r}") from error


def _load(path: Path, manifest: Mapping[str, Any], members: dict[str, memoryview]) -> Executable:
    theirs, ours = str(manifest["tvm_version"]), str(tvm.__version__)
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        raise ExecutableError(f"{path}: built with TVM {theirs}, this is TVM {ours}: compile the model again")
    _refuse_foreign_code(path, manifest)
    program = with_block(bytecode.decode(members.pop(CODE)), members.pop(WEIGHTS, memoryview(b"")))
    program.validate()
    try:
        modules = [_load_library(name, data) for name, data in members.items()]
    except Exception as error:
        raise ExecutableError(
            f"{path}: the kernels for {manifest['target']} cannot be loaded here: {str(error).strip()}"
        ) from error
    # What is kept of the libraries for another export does not keep the rest of the file.
    libraries = {name: bytes(data) for name, data in members.items()}
    return described(Parts(program, tuple(modules)), Description.from_json(manifest), libraries)


def _refuse_foreign_code(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise if the code is for another machine: it would not fail when it ran, it would end the process."""
    for text in (manifest["target"], manifest["target_host"]):
        config = json.loads(text) if text else {}
        if config.get("kind") != "llvm":
            continue
        # A target without a triple is for the machine that built it.
        config = {"mtriple": manifest["triple"], **config}
        config.pop("host", None)
        problems = host_supports(tvm.target.Target(config))
        if problems:
            raise ExecutableError(f"{path}: {'; '.join(problems)}; compile the model for this machine")


def _load_library(name: str, data: memoryview) -> tvm.runtime.Module:
    # Loading takes a file. The folder is private, and on Linux the library stays mapped once the file is gone.
    with tempfile.TemporaryDirectory(prefix="vmkit-") as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return tvm.runtime.load_module(str(path))
