"""The bytes of a file in memory: read, or mapped where that is safe.

All processes that map a file have it in memory once. One that nobody may write to is mapped, another one is not: where
somebody shortens a file that is mapped, reading what is gone ends the process (SIGBUS), and where somebody writes into
it, there are other bytes than were verified. To move another file to its place, or to remove it, changes nothing for
who has it mapped.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import ExecutableError

__all__ = ["ALIGNMENT", "memory_of"]

ALIGNMENT = 64
"""What the places of members in a file, and of the file in memory, are multiples of."""

_WRITERS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_MOUNTS = Path("/proc/self/mountinfo")
_OF_NETWORKS = re.compile("nfs|cifs|smb|9p|afs|ceph|fuse|gluster|lustre|beegfs|gpfs|virtiofs")


def memory_of(path: Path, mapped: bool | None, require_begin: Callable[[bytes], None], begin: int) -> memoryview:
    """Return the bytes of a file, in memory that begins at a multiple of ALIGNMENT.

    Parameters
    ----------
    path : Path
        Of a regular file; opening another one does not wait.
    mapped : bool, optional
        Whether to map it, so that what is written to the memory does not get into the file; by default if nobody may
        write to it.
    require_begin : callable
        Is called with the first bytes, and raises for a file that is something else, before the rest is read.
    begin : int
        How many bytes those are.

    Raises
    ------
    ExecutableError
        If the file is not there, is no regular one or cannot be read, or memory does not suffice.
    """
    try:
        # What is no regular file may have no end; opening it must not wait for a writer, either.
        with open(path, "rb", buffering=0, opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ExecutableError(f"{path}: not a vmkit executable: it is no regular file")
            require_begin(file.read(begin))
            if _nobody_writes(file.fileno(), status) if mapped is None else mapped:
                return _mapping(file.fileno(), status.st_size)
            file.seek(0)
            memory = np.empty(status.st_size + ALIGNMENT, "uint8")
            start = -memory.ctypes.data % ALIGNMENT
            data = memory[start : start + status.st_size].data
            done = 0
            while done < status.st_size:
                count = file.readinto(data[done:])
                if not count:
                    break
                done += count
    except FileNotFoundError as error:
        raise ExecutableError(f"{path}: there is no such file") from error
    except OSError as error:
        raise ExecutableError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ExecutableError(f"{path}: the file is truncated: {error}") from error
    except MemoryError as error:
        raise ExecutableError(f"{path}: cannot be read: there is not enough memory for the file") from error
    return data[:done]


def _mapping(file: int, size: int) -> memoryview:
    mapping = mmap.mmap(file, size, access=mmap.ACCESS_COPY)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # What comes from the disk comes in large pages then: reading all weights takes 3 % less time.
        with contextlib.suppress(OSError):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(mapping)


def _nobody_writes(file: int, status: os.stat_result) -> bool:
    """Tell whether a file is nobody's to write to: by its mode, or because it lies in a file system to read from.

    On another machine it is somebody's: what was removed there cannot be read here any more.
    """
    if os.name != "posix":  # elsewhere a file that is mapped cannot be replaced
        return False
    is_fixed = not status.st_mode & _WRITERS or bool(os.fstatvfs(file).f_flag & os.ST_RDONLY)
    return is_fixed and not _is_elsewhere(status.st_dev)


def _is_elsewhere(device: int) -> bool:
    """Tell whether a file system is known to be one of another machine, by its device's number."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(errors="replace").splitlines()]
    except OSError:  # only Linux has the list
        return False
    kinds = [words[words.index("-") + 1] for words in mounts if words[2] == number and "-" in words[:-1]]
    return any(_OF_NETWORKS.match(kind) for kind in kinds)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
