"""Digests: the numbers that stand for the texts of a program's constants, in its code.

A digest is the first 64 bits of BLAKE2b of the text in UTF-8, and 0 for the empty text.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import numpy as np

__all__ = ["LONGEST_WORD", "digest", "digests"]

LONGEST_WORD = 32
"""How many characters a text has at most that is kept for later calls: keys of maps, categories, tokens come again."""


def digest(text: str) -> int:
    """Return what stands for a text in a tensor, as a signed integer of 64 bits."""
    if not text:
        return 0
    return _digest_of_word(text) if len(text) <= LONGEST_WORD else _digest(text)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


_digest_of_word = lru_cache(maxsize=1 << 13)(_digest)


def digests(array: np.ndarray) -> np.ndarray:
    """Return what stands for the texts of an array of str, of its shape."""
    made = np.empty(array.size, "int64")
    made[:] = [digest(text) for text in array.ravel().tolist()]
    return made.reshape(array.shape)
