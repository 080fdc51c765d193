"""What nothing uses goes back to the system."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vmkit.values.host_memory import return_free_memory


def resident() -> int:
    """Return how many bytes of this process are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


of_glibc = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc alone keeps it"
)


@of_glibc
def test_memory_below_what_is_used_is_given_back() -> None:
    arrays = [np.ones(1 << 13, "uint8") for _ in range(1 << 12)]  # 32 MB, in pieces that are no mappings of their own
    above = np.ones(1 << 13, "uint8")
    arrays.clear()
    before = resident()
    return_free_memory()
    assert above.all() and before - resident() > 1 << 24


_ON_TOP = """
import ctypes, threading
from pathlib import Path
from vmkit.values.host_memory import return_free_memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
def used_and_freed():
    # Such a block that ends has glibc keep more of what lies on top of each heap from then on.
    libc.free(libc.malloc(16 << 20))
    resident()
    blocks = (ctypes.c_void_p * 100)()  # a list of Python would come to lie among them
    for at in range(100):
        blocks[at] = libc.malloc(100 << 10)
    for block in blocks:
        ctypes.memset(block, 1, 100 << 10)
    for block in blocks:
        libc.free(block)
    before = resident()
    return_free_memory()
    print(before - resident())
thread = threading.Thread(target=used_and_freed)
thread.start()
thread.join()
"""


@of_glibc
def test_memory_on_top_of_a_threads_heap_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", _ON_TOP], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 8 << 20
