"""The file of an executable: an uncompressed ZIP whose first member, the manifest, describes and seals the rest.

``manifest.json`` holds the format version, the versions of vmkit and TVM, the target, the signatures and the SHA-256
of every other member; its own digest is the ZIP's comment. Nothing in a file is used before its digest was compared.
A digest tells of accidents. Who wrote a file is told by a signature of the manifest, which may stand after the digest;
see :mod:`.signing`.

A file whose digests are right may still say anything. Its libraries are code, which runs when they are loaded; all else
is data, and no data ends the process: the bytecode is verified, and what its kernel groups need of their arguments is
told by the libraries themselves (:mod:`vmkit.values.kernel_needs`), so that nothing in the manifest can lie about it.

Members have the names of :data:`MEMBER` and no others, since libraries are loaded from files of those names: machine
code (``.so``), or LLVM IR as text (``.ll``), which is compiled when it is loaded. IR that names a family of processors
in its flag ``tvm_target`` is compiled for the one at hand (:mod:`.portable`), other IR for what it names.

A file is read once, into one buffer or mapping (:mod:`.file_memory`), and its members are parts of that: weights are
used where they lie.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .._deferred import deferred
from ..errors import ExecutableError
from .file_memory import ALIGNMENT, memory_of
from .replacing import replacing

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from . import signing
else:
    # It needs a package that may not be there.
    signing = deferred("vmkit.executable.signing")

__all__ = [
    "ALIGNMENT",
    "CODE",
    "FORMAT_VERSION",
    "HALF_VERSION",
    "LATER_VERSION",
    "PLAIN_VERSION",
    "WEIGHTS",
    "Content",
    "read_archive",
    "write_archive",
]

Content: TypeAlias = "bytes | memoryview | Sequence[bytes | memoryview]"
"""What a member holds: at once, or in parts that follow each other."""

FORMAT_VERSION, HALF_VERSION, LATER_VERSION, PLAIN_VERSION = 5, 4, 3, 2
"""The newest, of whose weights some are put in blocks when a program starts; that of a file without these, some of
whose weights may be stored in 16 bits and widened when they are read; that of one without these, too, whose weights
may be transformed when a program starts; and that of one without any. A file has the version of the oldest reader that
reads it. 1 had weights among the code, which is still read."""

CODE = "code.bin"
WEIGHTS = "weights.bin"

_FORMAT = "vmkit-executable"
_MANIFEST = "manifest.json"
MEMBER = re.compile(rf"{re.escape(CODE)}|{re.escape(WEIGHTS)}|lib\d{{1,4}}\.(so|ll)")
"""The bytecode, the large constants, and libraries of kernels as shared objects or LLVM IR."""
_SEAL = b"sha256:"
# Altered bytes make zipfile fail in all of these ways.
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OSError, struct.error)
# The first member's name follows 26 bytes after the ZIP's four-byte mark.
_MARK, _NAME_AT = b"PK\x03\x04", 30
_LENGTHS = struct.Struct("<26xHH")  # in a member's header: of its name and of the extra fields after it
_PADDING = 0xD935  # the extra field that aligns members, as in Android's packages
_LARGE, _OF_LARGE = 1 << 30, 20  # from what size on a member says it in 64 bits, and the bytes that this takes there


def write_archive(
    path: Path,
    manifest: Mapping[str, Any],
    members: Mapping[str, Content],
    sign: Ed25519PrivateKey | bytes | None = None,
) -> None:
    """Write a file that :func:`read_archive` reads, as :func:`vmkit.executable.replacing.replacing` writes one."""
    parts = {name: _parts(content) for name, content in members.items()}
    sealed = {
        "format": _FORMAT,
        "format_version": PLAIN_VERSION,
        **manifest,
        "members": {name: {"sha256": _digest(*each), "size": sum(map(len, each))} for name, each in parts.items()},
    }
    text = json.dumps(sealed, indent=1).encode()
    seal = _SEAL + _digest(text).encode() + (b"" if sign is None else signing.signed(text, sign))
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = seal
        for name, each in {_MANIFEST: [text], **parts}.items():
            # A fixed date makes equal executables equal files.
            info = zipfile.ZipInfo(name)
            info.file_size = sum(map(len, each))
            is_large = info.file_size >= _LARGE
            if name != _MANIFEST:
                info.extra = _padding(file.tell() + _NAME_AT + len(name.encode()) + _OF_LARGE * is_large)
            with archive.open(info, "w", force_zip64=is_large) as member:
                for part in each:
                    member.write(part)


def _parts(content: Content) -> Sequence[bytes | memoryview]:
    return [content] if isinstance(content, bytes | memoryview) else content


def _padding(place: int) -> bytes:
    """Return an extra field after which a member that would begin at `place` begins at a multiple of ALIGNMENT."""
    size = -(place + 4) % ALIGNMENT
    return struct.pack("<HH", _PADDING, size) + bytes(size)


def read_archive(
    path: Path, trusted: Sequence[Ed25519PublicKey | bytes] | None = None, mapped: bool | None = None
) -> tuple[dict[str, Any], dict[str, memoryview]]:
    """Return the manifest and the members of a file.

    Parameters
    ----------
    path : Path
        Of the file.
    trusted : sequence of Ed25519PublicKey or bytes, optional
        Keys of which one must have signed it.
    mapped : bool, optional
        Whether the members are parts of a mapping of the file, of which no byte that is written to them gets into the
        file; by default if nobody may write to it.

    Raises
    ------
    ExecutableError
        If there is no such file, or it is not an executable, not a whole one, altered, or of a newer format; or if
        keys are given, and none of them signed it.
    """
    data = memory_of(path, mapped, lambda start: _require_begin(path, start), _NAME_AT + len(_MANIFEST))
    try:
        with zipfile.ZipFile(_Window(data)) as archive:
            seal = archive.comment
            infos = archive.infolist()
            contents = {info.filename: _member(path, data, info) for info in infos}
            if len(contents) < len(infos):
                raise ExecutableError(f"{path}: the file was altered: two members have one name")
    except ExecutableError:
        raise
    except _ZIP_ERRORS as error:
        raise ExecutableError(f"{path}: the file is truncated or altered: {error}") from error
    manifest = _manifest(path, bytes(contents.pop(_MANIFEST, b"")), seal, trusted)
    _compare(path, manifest["members"], contents)
    return manifest, contents


def _require_begin(path: Path, start: bytes) -> None:
    """Raise ExecutableError for a file that is something else, by its first bytes."""
    if not start:
        raise ExecutableError(f"{path}: the file is empty")
    if not (_MARK.startswith(start) if len(start) < len(_MARK) else start.startswith(_MARK)):
        raise ExecutableError(f"{path}: not a vmkit executable; write one with Executable.export")
    if len(start) == _NAME_AT + len(_MANIFEST) and not start.endswith(_MANIFEST.encode()):
        raise ExecutableError(f"{path}: a ZIP file, but not a vmkit executable: {_MANIFEST} is not its first member")


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


def _manifest(
    path: Path, text: bytes, seal: bytes, trusted: Sequence[Ed25519PublicKey | bytes] | None
) -> dict[str, Any]:
    digest = _SEAL + _digest(text).encode()
    if not seal.startswith(digest):
        raise ExecutableError(
            f"{path}: the file is truncated or altered: {_MANIFEST} does not have the digest recorded for it"
        )
    if trusted is not None:
        signing.require_signature(path, text, seal.removeprefix(digest), trusted)
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExecutableError(f"{path}: {_MANIFEST} is no JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        said = manifest.get("format") if isinstance(manifest, dict) else manifest
        raise ExecutableError(f"{path}: not a vmkit executable: format {said!r:.80}")
    version, members = manifest.get("format_version"), manifest.get("members")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ExecutableError(f"{path}: the format version is {version!r:.80}, expected a number from 1 on")
    if version > FORMAT_VERSION:
        raise ExecutableError(
            f"{path}: format version {version}, written by vmkit {manifest.get('vmkit_version')}; this vmkit reads up "
            f"to {FORMAT_VERSION}: upgrade vmkit, or compile the model again"
        )
    if not isinstance(members, dict) or not all(isinstance(each, dict) for each in members.values()):
        raise ExecutableError(f"{path}: {_MANIFEST} has no table of members")
    return manifest


def _compare(path: Path, expected: Mapping[str, Mapping[str, Any]], contents: Mapping[str, memoryview]) -> None:
    for name in sorted(set(expected) ^ set(contents)):
        problem = "is missing" if name in expected else "was added"
        raise ExecutableError(f"{path}: the file was altered: {name} {problem}")
    for name, data in contents.items():
        if not MEMBER.fullmatch(name):
            raise ExecutableError(f"{path}: a member is called {name!r:.80}; vmkit writes none of this name")
        if _digest(data) != expected[name].get("sha256"):
            raise ExecutableError(f"{path}: the file was altered: {name} does not have the digest recorded for it")
    if CODE not in contents:
        raise ExecutableError(f"{path}: the manifest is incomplete: there is no {CODE}")


def _digest(*parts: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
