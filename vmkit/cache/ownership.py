"""Whose a file in a cache is: one that another user made could run that user's code."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["is_own"]


def is_own(path: Path) -> bool:
    """Tell whether a path is a regular file, and no link to one, of this user; FileNotFoundError if there is none."""
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and (not hasattr(os, "getuid") or status.st_uid == os.getuid())
