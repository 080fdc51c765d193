"""The file of an executable: an uncompressed ZIP whose first member, the manifest, describes and seals the rest.

``manifest.json`` holds the format version, the versions of vmkit and TVM, the target, the signatures and the SHA-256
of every other member; its own digest is the ZIP's comment. Nothing in a file is used before its digest was compared.
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
from typing import Any

from .errors import ExecutableError

__all__ = ["FORMAT_VERSION", "read_archive", "write_archive"]

FORMAT_VERSION = 1
_FORMAT = "vmkit-executable"
_MANIFEST = "manifest.json"
_SEAL = b"sha256:"
# Altered bytes make zipfile fail in all of these ways.
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OSError, struct.error)
# The first member's name follows 26 bytes after the ZIP's four-byte mark.
_MARK, _NAME_AT = b"PK\x03\x04", 30


def write_archive(path: Path, manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
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
                    archive.writestr(zipfile.ZipInfo(name), data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise ExecutableError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and the members of a file.

    Raises
    ------
    ExecutableError
        If there is no such file, or it is not an executable, not a whole one, altered, or of a newer format.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ExecutableError(f"{path}: there is no such file") from error
    except OSError as error:
        raise ExecutableError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not data:
        raise ExecutableError(f"{path}: the file is empty")
    name = _MANIFEST.encode()
    start = data[: _NAME_AT + len(name)]
    if not (_MARK.startswith(start) if len(start) < len(_MARK) else start.startswith(_MARK)):
        raise ExecutableError(f"{path}: not a vmkit executable; write one with Executable.export")
    if len(start) == _NAME_AT + len(name) and not start.endswith(name):
        raise ExecutableError(f"{path}: a ZIP file, but not a vmkit executable: {_MANIFEST} is not its first member")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            seal = archive.comment
            contents = {info.filename: _member(path, archive, info) for info in archive.infolist()}
    except ExecutableError:
        raise
    except _ZIP_ERRORS as error:
        raise ExecutableError(f"{path}: the file is truncated or altered: {error}") from error
    manifest = _manifest(path, contents.pop(_MANIFEST, b""), seal)
    _compare(path, manifest["members"], contents)
    return manifest, contents


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        return archive.read(info)
    except _ZIP_ERRORS as error:
        raise ExecutableError(f"{path}: the file was altered: {info.filename}: {error}") from error


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


def _compare(path: Path, expected: Mapping[str, Mapping[str, Any]], contents: Mapping[str, bytes]) -> None:
    for name in sorted(set(expected) ^ set(contents)):
        problem = "is missing" if name in expected else "was added"
        raise ExecutableError(f"{path}: the file was altered: {name} {problem}")
    for name, data in contents.items():
        if _digest(data) != expected[name]["sha256"]:
            raise ExecutableError(f"{path}: the file was altered: {name} does not have the digest recorded for it")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
