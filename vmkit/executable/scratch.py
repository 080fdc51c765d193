"""Private folders for files that tools want to see. What a killed process left goes with the next one."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import ExecutableError, VMKitError
from .locks import changing, is_locked_here

__all__ = ["scratch_folder"]

_LOCK = "in-use"
_NAME = re.compile(r"vmkit-[a-z0-9_]{8}-scratch")


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give a folder that nobody else writes to, and remove it with what is in it.

    Raises
    ------
    ExecutableError
        If there is no folder for temporary files, or it cannot be written to.
    """
    try:
        parent = Path(tempfile.gettempdir())
        with contextlib.ExitStack() as held:
            with changing(parent) as alone:
                if alone:
                    _remove_abandoned(parent)
                made = tempfile.TemporaryDirectory(prefix="vmkit-", suffix="-scratch", ignore_cleanup_errors=True)
                folder = Path(held.enter_context(made))
                is_locked_here(held.enter_context(open(folder / _LOCK, "wb")).fileno())
            yield folder
    except VMKitError:  # some are OSErrors, too
        raise
    except OSError as error:
        place = os.environ.get("TMPDIR") or "the folder for temporary files"
        raise ExecutableError(
            f"temporary files cannot be written to {place}: {error.strerror or error}; set TMPDIR to a folder with room"
        ) from error


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes that were killed: those whose lock nobody holds."""
    for entry in os.scandir(parent):
        if not _NAME.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(OSError):
            if entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            with open(Path(entry.path) / _LOCK, "rb") as lock:
                if is_locked_here(lock.fileno()):
                    shutil.rmtree(entry.path, ignore_errors=True)
