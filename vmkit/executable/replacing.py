"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import ExecutableError
from .locks import changing, is_locked_here

__all__ = ["remove_abandoned", "replacing"]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a new file to write to, which takes its place at the end; a write that fails leaves nothing behind.

    A file that is there keeps its mode, and a link to one stays a link. What writers of the same file left that were
    killed is removed.

    Raises
    ------
    ExecutableError
        If the place cannot be written to, is full, or is no regular file. A file that was there before is still there.
    """
    try:
        place = _resolved(path)
        mode = _mode_of(path, place)
        beside = place.with_name(f".{place.name}.{secrets.token_hex(6)}.part")
        try:
            with contextlib.ExitStack() as held:
                with changing(place.parent) as alone:
                    if alone:
                        remove_abandoned(place.parent, re.compile(rf"\.{re.escape(place.name)}\.[0-9a-f]{{12}}\.part"))
                    file = held.enter_context(open(beside, "xb"))
                    # As long as this process lives nobody else takes the file for an abandoned one.
                    is_locked_here(file.fileno())
                if mode is not None:
                    beside.chmod(mode)
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(beside, place)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
    except OSError as error:
        raise ExecutableError(f"cannot write {path}: {error.strerror or error}") from error


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError as error:  # links in a circle
        raise ExecutableError(f"cannot write {path}: {error}") from error


def _mode_of(path: Path, place: Path) -> int | None:
    """Return the permissions of a file that is to be replaced; None if there is none."""
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ExecutableError(f"cannot write {path}: it is no regular file")
    return stat.S_IMODE(mode)


def remove_abandoned(folder: Path, pattern: re.Pattern[str]) -> None:
    """Remove files that processes left which were killed: names that match, and no process holds a lock on them.

    To be called within :func:`vmkit.executable.locks.changing`.
    """
    for entry in os.scandir(folder):
        if not pattern.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
            continue
        with contextlib.suppress(OSError), open(entry.path, "rb") as file:
            if is_locked_here(file.fileno()):
                os.unlink(entry.path)
