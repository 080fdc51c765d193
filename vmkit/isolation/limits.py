"""How long work in another process may take, and how much memory."""

from __future__ import annotations

import sys
from pathlib import Path

from .._dataclasses import dataclass
from ..errors import OptionError, UnavailableError

__all__ = ["Limits", "resident_bytes"]


@dataclass(frozen=True)
class Limits:
    """What work in another process is given.

    Attributes
    ----------
    timeout : float, optional
        Seconds that it may take, the start of the process included; None for any time.
    max_memory : int, optional
        Bytes of memory that the process may have resident, which is looked at fifty times a second; None for any.

    Raises
    ------
    OptionError
        If one is not a positive number.
    UnavailableError
        For a limit of memory where the system does not tell how much a process has.
    """

    timeout: float | None = None
    max_memory: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("timeout", self.timeout), ("max_memory", self.max_memory)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
                unit = "seconds" if name == "timeout" else "bytes"
                raise OptionError(f"{name} is {value!r}, expected a positive number of {unit}, or None for no limit")
        if self.max_memory is not None and not sys.platform.startswith("linux"):
            raise UnavailableError("max_memory needs Linux, which tells the memory of other processes; leave it out")


def resident_bytes(pid: int) -> int:
    """Return the bytes that a process has resident; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)
