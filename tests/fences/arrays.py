"""Arrays between closed pages: a read of any byte before or behind one ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

__all__ = ["fenced"]

_NO_ACCESS = 0


def fenced(array: np.ndarray, *, is_last: bool) -> np.ndarray:
    """Return a copy of an array that begins where a page does, or ends where one does; its neighbours are closed."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, size + 2 * page)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for closed in (begin, begin + page + size):
        if protect(ctypes.c_void_p(closed), ctypes.c_size_t(page), _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = page + (size - array.nbytes if is_last else 0)
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy
