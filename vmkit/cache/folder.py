"""The folder of a cache: where it is, and that nobody else writes to it, since loading runs what lies there."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from ..errors import OptionError

__all__ = ["default_folder", "private_folder"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def default_folder() -> Path:
    """Return the folder for caches of this user, by the system's convention, and in it vmkit's.

    ``$XDG_CACHE_HOME/vmkit``, or ``~/.cache/vmkit``; on macOS ``~/Library/Caches/vmkit``, on Windows
    ``%LOCALAPPDATA%\\vmkit\\Cache``.
    """
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "vmkit" / "Cache"
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # the convention is to ignore others
        return Path(named) / "vmkit"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "vmkit"
    return Path.home() / ".cache" / "vmkit"


def private_folder(path: Path) -> Path:
    """Return a folder that only this user writes to; it is made if it is not there.

    Raises
    ------
    OptionError
        If it is no folder or cannot be made, or belongs to somebody else, or others may write to it.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise OptionError(f"the cache {path} cannot be used: {error.strerror or error}") from error
    if hasattr(os, "getuid"):
        if status.st_uid != os.getuid():
            raise OptionError(
                f"the cache {path} belongs to user {status.st_uid}, and this is user {os.getuid()}: loading an entry "
                "runs its code; choose a folder of your own"
            )
        if status.st_mode & _OTHERS_WRITE:
            raise OptionError(
                f"the cache {path} has mode {stat.S_IMODE(status.st_mode):04o}, so others may write to it: loading an "
                f"entry runs its code; run chmod 700 {path}, or choose another folder"
            )
    return path
