"""What nothing uses goes back to the system."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

from vmkit.values.host_memory import return_free_memory


def resident() -> int:
    """Return how many bytes of this process are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc alone keeps it"
)
def test_memory_below_what_is_used_is_given_back() -> None:
    arrays = [np.ones(1 << 13, "uint8") for _ in range(1 << 12)]  # 32 MB, in pieces that are no mappings of their own
    above = np.ones(1 << 13, "uint8")
    arrays.clear()
    before = resident()
    return_free_memory()
    assert above.all() and before - resident() > 1 << 24
