"""Archives of the Model Library Format: uncompressed tars of regular files, written so that a change is noticed.

An archive that vmkit writes begins with a global header of POSIX (as ``git archive`` writes one) whose comment is the
SHA-256 of all that follows. One that TVM wrote has none, and is taken without. Nothing of an archive is used, and
nothing written, before all of it is known to be in order: what lies outside of the folder that it is unpacked to is
never touched, links and devices are refused, and nothing grows by being unpacked.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import ExecutableError
from ..executable.replacing import replacing

__all__ = ["METADATA", "extract", "read_archive", "write_archive"]

METADATA = "metadata.json"
_SEAL = re.compile(r"vmkit sha256:([0-9a-f]{64})")
_GROUP = "vmkit"
"""The group of members of an archive that has to have a seal."""
_MOST_BYTES = 4 << 30
_MOST_MEMBERS = 10_000
_LONGEST_NAME = 250
# What systems of some kind read as a part of a path, or not at all.
_NO_NAME = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')


def write_archive(path: Path, metadata: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write an archive, whole or not at all; see :func:`vmkit.executable.replacing.replacing`."""
    text = json.dumps(metadata, indent=2).encode()
    members = _members({METADATA: text, **dict(sorted(files.items()))})
    header = tarfile.TarInfo.create_pax_global_header({"comment": f"vmkit sha256:{_digest(members)}"})
    with replacing(path) as file:
        file.write(header + members)


def _members(files: Mapping[str, bytes]) -> bytes:
    """Return the tar of some files, which belong to nobody in particular and are of no date."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for place, data in files.items():
            info = tarfile.TarInfo(f"./{place}")
            info.size, info.mode, info.gname = len(data), 0o644, _GROUP
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the metadata and all files of an archive, by their places in it.

    Raises
    ------
    ExecutableError
        If there is no such file, or it is no archive that may be unpacked, or altered.
    """
    data = _contents(path)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            members = _checked_members(path, archive)
            files = {place: _data_of(archive, member) for place, member in members.items()}
            headers = dict(archive.pax_headers)
    except ExecutableError:
        raise
    except (tarfile.TarError, ValueError, OverflowError, MemoryError, RecursionError, EOFError) as error:
        raise ExecutableError(f"{path}: no tar archive, or a damaged one: {error}") from error
    _require_seal(path, data, headers, any(member.gname == _GROUP for member in members.values()))
    return _metadata(path, files), files


def _contents(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise ExecutableError(f"{path}: {size} bytes, and an archive has {_MOST_BYTES} at most")
        return path.read_bytes()
    except OSError as error:
        raise ExecutableError(f"cannot read {path}: {error.strerror or error}") from error


def _checked_members(path: Path, archive: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Return the files of an archive, each by a place that is below the folder it is unpacked to."""
    found: dict[str, tarfile.TarInfo] = {}
    for count, member in enumerate(archive):
        if count >= _MOST_MEMBERS:
            raise ExecutableError(f"{path}: more than {_MOST_MEMBERS} members")
        place = _place(path, member.name)
        if member.isdir():
            continue
        if not member.isreg() or member.issparse():
            raise ExecutableError(f"{path}: {member.name!r} is no regular file: links and devices are refused")
        if member.offset_data + member.size > _size_of(archive):
            raise ExecutableError(f"{path}: {member.name!r} is cut off: the archive is truncated")
        if place in found or any(parent in found for parent in map(str, PurePosixPath(place).parents)):
            raise ExecutableError(f"{path}: two members are at {place!r}")
        found[place] = member
    nested = {str(parent) for place in found for parent in PurePosixPath(place).parents}
    if nested & set(found):
        raise ExecutableError(f"{path}: {sorted(nested & set(found))[0]!r} is a file and a folder")
    return found


def _size_of(archive: tarfile.TarFile) -> int:
    assert isinstance(archive.fileobj, io.BytesIO)
    return archive.fileobj.getbuffer().nbytes


def _place(path: Path, name: str) -> str:
    """Return the place of a member, without ``./`` in front."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or len(name) > _LONGEST_NAME or _NO_NAME.search(name):
        raise ExecutableError(f"{path}: a member's name {name[:80]!r} leads out of the archive's folder, or is no name")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ExecutableError(f"{path}: a member's name {name[:80]!r} is not in UTF-8") from error
    return "/".join(parts)


def _data_of(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def _require_seal(path: Path, data: bytes, headers: Mapping[str, str], is_own: bool) -> None:
    """Raise ExecutableError if an archive has a seal, or had one, and is not what it was sealed as."""
    if not headers and not is_own:
        return
    seal = _SEAL.fullmatch(headers.get("comment", ""))
    if seal is None or set(headers) != {"comment"}:
        raise ExecutableError(f"{path}: the archive was altered: its global header is {dict(headers)!r:.120}")
    header = tarfile.TarInfo.create_pax_global_header(dict(headers))
    if data[: len(header)] != header or _digest(data[len(header) :]) != seal[1]:
        raise ExecutableError(f"{path}: the archive was altered: its digest is another one than it was written with")


def _metadata(path: Path, files: Mapping[str, bytes]) -> dict[str, Any]:
    if METADATA not in files:
        raise ExecutableError(f"{path}: there is no {METADATA}, so it is no Model Library Format archive")
    try:
        metadata = json.loads(files[METADATA])
    except (ValueError, RecursionError) as error:
        raise ExecutableError(f"{path}: {METADATA} is no JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise ExecutableError(f"{path}: {METADATA} holds no object but a {type(metadata).__name__}")
    return metadata


def extract(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of an archive that was read below a folder, which is made if need be; it has to be empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ExecutableError(f"{folder}: expected an empty folder to unpack to")
        for place, data in files.items():
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "xb") as file:
                file.write(data)
    except OSError as error:
        raise ExecutableError(f"cannot unpack to {folder}: {error.strerror or error}") from error
