"""Ending a process with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any

__all__ = ["end_with_children"]


def end_with_children(process: subprocess.Popen[Any]) -> None:
    """End a process, which was started with ``start_new_session=True``, and what it started, such as a linker."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
