"""The file of a package (``.tar``): a vmkit executable, and what says of it what tvmc's packages say.

``model.vmx`` is the executable, ``package.json`` says which version and kind of package it is; ``mod.json`` and
``mod.params`` are the graph and its constants, for the kind ``classic``. An archive in the Model Library Format has a
``metadata.json`` and none of these.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..._dataclasses import dataclass
from ...errors import suggest
from .exceptions import TVMCException

__all__ = ["EXECUTABLE", "Package", "is_library_format", "opened", "unpacked", "write_package"]

EXECUTABLE, GRAPH, PARAMS = "model.vmx", "mod.json", "mod.params"
_DESCRIPTION, _LIBRARY_FORMAT = "package.json", "metadata.json"
_FORMAT = "vmkit-package"
_VERSION = 1
_OURS = {EXECUTABLE, GRAPH, PARAMS, _DESCRIPTION}
# What tvmc 0.14 put into a package: a shared library, for the graph executor or for Relay's virtual machine.
_THEIRS = {"mod.so", "mod.tar", "lib.so", "lib.tar", "consts", "code.ro"}
# What tarfile raises for what is no tar, or a damaged one.
_DAMAGES = (tarfile.TarError, ValueError, OverflowError, EOFError)


@dataclass(frozen=True)
class Package:
    """What is in a package.

    Attributes
    ----------
    kind : str
        ``"classic"`` with a graph beside the executable, ``"vm"`` without, ``"mlf"`` for the Model Library Format.
    facts : mapping
        What the package says of itself.
    executable : Path or None
        The executable's file; None for the Model Library Format.
    graph : str or None
        The graph.
    params : bytearray or None
        The constants of the graph, in TVM's format.
    """

    kind: str
    facts: Mapping[str, Any]
    executable: Path | None
    graph: str | None
    params: bytearray | None


def write_package(path: Path, executable: Path, facts: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Write a package: the file of an executable, what is said of it, and other parts by their names."""
    if not path.parent.is_dir():
        raise TVMCException(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise TVMCException(f"cannot write {path}: it is a folder")
    from vmkit.executable.replacing import replacing

    description = json.dumps({"format": _FORMAT, "version": _VERSION, **facts}, indent=1).encode()
    members = {_DESCRIPTION: description, EXECUTABLE: executable.read_bytes(), **parts}
    with replacing(path) as file, tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in members.items():
            # A fixed date makes equal packages equal files.
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def is_library_format(path: Path) -> bool:
    """Say whether a file is an archive in the Model Library Format, or the beginning of one."""
    if not path.is_file():
        return False
    try:
        with tarfile.open(path, "r:") as archive:
            return any(member.name.removeprefix("./") == _LIBRARY_FORMAT for member in archive)
    except _DAMAGES:
        return False  # whoever reads it says what is wrong with it


@contextmanager
def unpacked(path: Path) -> Iterator[Package]:
    """Return what is in a package; its executable is a file inside only."""
    with tempfile.TemporaryDirectory() as folder:
        yield opened(path, Path(folder))


def opened(path: Path, folder: Path) -> Package:
    """Return what is in a package, whose executable is written to a folder.

    Raises
    ------
    TVMCException
        If the file is no package.
    """
    if not path.is_file():
        beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        raise TVMCException(f"{path}: there is no such file{suggest(path.name, beside)}")
    try:
        with tarfile.open(path, "r:") as archive:
            members = {member.name.removeprefix("./"): member for member in archive.getmembers() if member.isfile()}
            if _LIBRARY_FORMAT in members:
                return _of_library_format(path, archive, members)
            _require_ours(path, members)
            parts = {name: _read(archive, members[name]) for name in _OURS & members.keys()}
    except _DAMAGES as error:
        raise TVMCException(f"{path}: not a package: {error}") from error
    facts = _facts(path, parts[_DESCRIPTION])
    executable = folder / EXECUTABLE
    executable.write_bytes(parts[EXECUTABLE])
    graph, params = parts.get(GRAPH), parts.get(PARAMS)
    return Package(
        str(facts["type"]),
        facts,
        executable,
        graph.decode() if graph is not None else None,
        bytearray(params) if params is not None else None,
    )


def _of_library_format(path: Path, archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> Package:
    facts = _json(path, _LIBRARY_FORMAT, _read(archive, members[_LIBRARY_FORMAT]))
    graphs = [name for name in members if name.startswith("executor-config/graph/")]
    params = [name for name in members if name.startswith("parameters/")]
    return Package(
        "mlf",
        facts,
        None,
        _read(archive, members[graphs[0]]).decode() if graphs else None,
        bytearray(_read(archive, members[params[0]])) if params else bytearray(),
    )


def _require_ours(path: Path, members: Mapping[str, tarfile.TarInfo]) -> None:
    if {_DESCRIPTION, EXECUTABLE} <= members.keys():
        return
    if _THEIRS & members.keys():
        raise TVMCException(f"{path}: a package of another TVM, whose code needs its runtime; compile the model again")
    raise TVMCException(
        f"{path}: not a package: it has no {_DESCRIPTION} and {EXECUTABLE}; vmkit tvmc compile makes one"
    )


def _facts(path: Path, text: bytes) -> dict[str, Any]:
    facts = _json(path, _DESCRIPTION, text)
    version = facts.get("version")
    if facts.get("format") != _FORMAT or not isinstance(version, int) or facts.get("type") not in ("classic", "vm"):
        raise TVMCException(f"{path}: {_DESCRIPTION} does not describe a package of vmkit")
    if version > _VERSION:
        raise TVMCException(f"{path}: a package of version {version}; this vmkit reads up to {_VERSION}: upgrade it")
    return facts


def _json(path: Path, name: str, text: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise TVMCException(f"{path}: {name} is no JSON: {error}") from error
    if not isinstance(facts, dict):
        raise TVMCException(f"{path}: {name} is no object")
    return facts


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None  # it is a regular file
    return file.read()
