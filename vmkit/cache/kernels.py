"""Kernels of a cache: machine code by what it was made from, so that a changed model takes along what stayed."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path

from ..executable.replacing import replacing
from .key import Key
from .ownership import is_own

__all__ = ["Kernels"]

_DIGEST_SIZE = 32

logger = logging.getLogger(__name__)


class Kernels:
    """The kernels that lie in the folder of a cache, each in a file ``KEY.o``: a SHA-256, and the object that it is of.

    Parameters
    ----------
    folder : Path
        One that :func:`vmkit.cache.folder.private_folder` made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: Key) -> bytes | None:
        """Return the object of a key, or None; one that was altered is removed."""
        path = self._path(key)
        try:
            data = path.read_bytes() if is_own(path) else b""
        except OSError:  # there is none, or another process has just dropped it
            return None
        made = data[_DIGEST_SIZE:]
        if hashlib.sha256(made).digest() != data[:_DIGEST_SIZE]:
            logger.warning("%s: the kernel was altered and is removed", path)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return made

    def put(self, key: Key, made: bytes) -> None:
        """Keep an object; ExecutableError if it cannot be written."""
        with replacing(self._path(key)) as file:
            file.write(hashlib.sha256(made).digest() + made)

    def _path(self, key: Key) -> Path:
        return self._folder / f"{key.digest}.o"
