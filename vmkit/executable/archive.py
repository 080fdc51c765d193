"""The file of an executable: an uncompressed ZIP whose first member, the manifest, describes and seals the rest.

``manifest.json`` holds the format version, the versions of vmkit and TVM, the target, the signatures and the SHA-256
of every other member; its own digest is the ZIP's comment. Nothing in a file is used before its digest was compared.

A file is read once, into one buffer, and its members are parts of that: weights are used where they lie. It is not
mapped, because a mapped file that somebody writes over ends the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ExecutableError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["ALIGNMENT", "FORMAT_VERSION", "read_archive", "write_archive"]

FORMAT_VERSION = 2
"""1 had weights among the code, which is still read."""

ALIGNMENT = 64
"""What the places of members in a file, and of the file in memory, are multiples of."""

_FORMAT = "vmkit-executable"
_MANIFEST = "manifest.json"
_SEAL = b"sha256:"
# Altered bytes make zipfile fail in all of these ways.
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OSError, struct.error)
# The first member's name follows 26 bytes after the ZIP's four-byte mark.
_MARK, _NAME_AT = b"PK\x03\x04", 30
_LENGTHS = struct.Struct("<26xHH")  # in a member's header: of its name and of the extra fields after it
_PADDING = 0xD935  # the extra field that aligns members, as in Android's packages


def write_archive(path: Path, manifest: Mapping[str, Any], members: Mapping[str, bytes | memoryview]) -> None:
    """Write a file that :func:`read_archive` reads; a failed write leaves nothing behind.

    Raises
    ------
    ExecutableError
        If the place cannot be written to or is full. A file that was there before is then still there.
    """
    sealed = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        **manifest,
        "members": {name: {"sha256": _digest(data), "size": len(data)} for name, data in members.items()},
    }
    text = json.dumps(sealed, indent=1).encode()
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with open(beside, "xb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.comment = _SEAL + _digest(text).encode()
                for name, data in {_MANIFEST: text, **members}.items():
                    # A fixed date makes equal executables equal files.
                    info = zipfile.ZipInfo(name)
                    if name != _MANIFEST:
                        info.extra = _padding(file.tell() + _NAME_AT + len(name.encode()))
                    archive.writestr(info, data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise ExecutableError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _padding(place: int) -> bytes:
    """Return an extra field after which a member that would begin at `place` begins at a multiple of ALIGNMENT."""
    size = -(place + 4) % ALIGNMENT
    return struct.pack("<HH", _PADDING, size) + bytes(size)


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, memoryview]]:
    """Return the manifest and the members of a file.

    Raises
    ------
    ExecutableError
        If there is no such file, or it is not an executable, not a whole one, altered, or of a newer format.
    """
    data = _read(path)
    if not data:
        raise ExecutableError(f"{path}: the file is empty")
    name = _MANIFEST.encode()
    start = bytes(data[: _NAME_AT + len(name)])
    if not (_MARK.startswith(start) if len(start) < len(_MARK) else start.startswith(_MARK)):
        raise ExecutableError(f"{path}: not a vmkit executable; write one with Executable.export")
    if len(start) == _NAME_AT + len(name) and not start.endswith(name):
        raise ExecutableError(f"{path}: a ZIP file, but not a vmkit executable: {_MANIFEST} is not its first member")
    try:
        with zipfile.ZipFile(_Window(data)) as archive:
            seal = archive.comment
            contents = {info.filename: _member(path, data, info) for info in archive.infolist()}
    except ExecutableError:
        raise
    except _ZIP_ERRORS as error:
        raise ExecutableError(f"{path}: the file is truncated or altered: {error}") from error
    manifest = _manifest(path, bytes(contents.pop(_MANIFEST, b"")), seal)
    _compare(path, manifest["members"], contents)
    return manifest, contents


def _read(path: Path) -> memoryview:
    """Return the bytes of a file, in memory that begins at a multiple of ALIGNMENT."""
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            memory = np.empty(size + ALIGNMENT, "uint8")
            start = -memory.ctypes.data % ALIGNMENT
            data = memory[start : start + size].data
            done = 0
            while done < size:
                count = file.readinto(data[done:])
                if not count:
                    break
                done += count
    except FileNotFoundError as error:
        raise ExecutableError(f"{path}: there is no such file") from error
    except OSError as error:
        raise ExecutableError(f"{path}: cannot be read: {error.strerror or error}") from error
    return data[:done]


class _Window(io.RawIOBase):
    """A file over memory that is not copied, from which zipfile reads the list of members."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: len(self._data)}[whence]
        if place < 0:
            raise ValueError(f"there is no place {place}")
        self._place = place
        return place

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer)
        part = self._data[self._place : self._place + len(room)]
        room[: len(part)] = part
        self._place += len(part)
        return len(part)


def _member(path: Path, data: memoryview, info: zipfile.ZipInfo) -> memoryview:
    """Return the bytes of a member, which stand in the file as they are."""
    header = data[info.header_offset : info.header_offset + _NAME_AT]
    if info.compress_type != zipfile.ZIP_STORED or len(header) < _NAME_AT or header[:4] != _MARK:
        raise ExecutableError(f"{path}: the file was altered: {info.filename} is not where it should be")
    start = info.header_offset + _NAME_AT + sum(_LENGTHS.unpack(header))
    return data[start : start + info.file_size]


def _manifest(path: Path, text: bytes, seal: bytes) -> dict[str, Any]:
    if seal != _SEAL + _digest(text).encode():
        raise ExecutableError(
            f"{path}: the file is truncated or altered: {_MANIFEST} does not have the digest recorded for it"
        )
    manifest = json.loads(text)
    if manifest.get("format") != _FORMAT:
        raise ExecutableError(f"{path}: not a vmkit executable: format {manifest.get('format')!r}")
    version = manifest["format_version"]
    if version > FORMAT_VERSION:
        raise ExecutableError(
            f"{path}: format version {version}, written by vmkit {manifest.get('vmkit_version')}; this vmkit reads up "
            f"to {FORMAT_VERSION}: upgrade vmkit, or compile the model again"
        )
    return dict(manifest)


def _compare(path: Path, expected: Mapping[str, Mapping[str, Any]], contents: Mapping[str, memoryview]) -> None:
    for name in sorted(set(expected) ^ set(contents)):
        problem = "is missing" if name in expected else "was added"
        raise ExecutableError(f"{path}: the file was altered: {name} {problem}")
    for name, data in contents.items():
        if _digest(data) != expected[name]["sha256"]:
            raise ExecutableError(f"{path}: the file was altered: {name} does not have the digest recorded for it")


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
