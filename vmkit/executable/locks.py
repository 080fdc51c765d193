"""Locks on files, which end with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyhow
    fcntl = None  # type: ignore[assignment]

__all__ = ["changing", "is_locked_here"]

_PATIENCE = 1.0  # seconds for others to make or remove a file


def is_locked_here(file: int) -> bool:
    """Lock an open file until it is closed; say whether nobody else has it locked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[bool]:
    """Keep others from making or removing files of ours in a folder meanwhile; gives whether that succeeded.

    Who makes a file and locks it, and who removes what nobody has locked, do so within this: a file that was made a
    moment ago is not taken for an abandoned one.
    """
    if fcntl is None:
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + _PATIENCE
        while not (alone := is_locked_here(handle)) and time.monotonic() < end:
            time.sleep(0.005)
        yield alone
    finally:
        os.close(handle)
