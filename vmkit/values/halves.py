"""Numbers of float32 that are ones of 16 bits, and these as what they are stored in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["HALVES", "half_type", "narrowed", "widened"]

HALVES = ("float16", "bfloat16")
"""Floating-point types of 16 bits, in which numbers are stored that kernels compute with in float32."""

_PIECE = 1 << 16  # numbers that are looked at together; most arrays are told by the first of them


def half_type(array: np.ndarray[Any, Any], types: Sequence[str]) -> str | None:
    """Return the first of some types of 16 bits that holds every number of a float32 array as it is; None without one.

    Every bit counts: of zeros the sign, and what is no number has to be the same one afterwards.

    >>> half_type(np.array([1.5, -0.0], "float32"), ["float16", "bfloat16"])
    'float16'
    >>> half_type(np.array([1.5, 2.0**-100], "float32"), ["float16", "bfloat16"])
    'bfloat16'
    >>> half_type(np.array([0.1], "float32"), ["float16", "bfloat16"]) is None
    True
    """
    bits = np.ascontiguousarray(array).view("uint32").reshape(-1)
    pieces = range(0, bits.size, _PIECE)
    return next((each for each in types if all(_HOLDS[each](bits[at : at + _PIECE]) for at in pieces)), None)


def narrowed(array: np.ndarray[Any, Any], half: str) -> np.ndarray[Any, Any]:
    """Return the numbers of a float32 array, all of which :func:`half_type` has found to be ones of a type, as these.

    Of bfloat16, which numpy lacks, the bits come as uint16.
    """
    if half == "float16":
        return array.astype("float16")
    return (np.ascontiguousarray(array).view("uint32") >> np.uint32(16)).astype("uint16")


def widened(array: np.ndarray[Any, Any], made: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """Return numbers of float16, or the bits of bfloat16 as uint16, as float32; in the memory of `made` if it is given.

    Nothing else of their size is allocated.
    """
    made = np.empty(array.shape, "float32") if made is None else made
    if array.dtype == "float16":
        made[...] = array
        return made
    bits = made.view("uint32")
    bits[...] = array
    bits <<= np.uint32(16)
    return made


def _is_float16(bits: np.ndarray[Any, Any]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        back = bits.view("float32").astype("float16").astype("float32")
    return bool((back.view("uint32") == bits).all())


def _is_bfloat16(bits: np.ndarray[Any, Any]) -> bool:
    return not (bits & np.uint32(0xFFFF)).any()


_HOLDS = {"float16": _is_float16, "bfloat16": _is_bfloat16}
