"""Numbers as texts and texts as numbers, as onnxruntime writes and reads them, whole lists of them at once."""

from __future__ import annotations

import re

import numpy as np

from ..errors import VMError

__all__ = ["float_texts", "floats_of", "integers_of"]

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)\s*", re.ASCII | re.I)
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
# What Python takes in a number and C does not: digits in groups, and four controls for blanks. Of texts in ASCII
# without these both take the same.
_OF_PYTHON = "_\x1c\x1d\x1e\x1f"


def float_texts(numbers: np.ndarray) -> list[str]:
    """Return floats with 8 digits at most.

    >>> float_texts(np.array([0.5, 1e20, np.inf, np.nan]))
    ['0.5', '1e+20', 'INF', 'NaN']
    """
    texts = ("%.8g " * numbers.size % tuple(numbers.tolist())).split()
    for place in np.flatnonzero(~np.isfinite(numbers)).tolist():
        texts[place] = "NaN" if texts[place] == "nan" else texts[place].upper()
    return texts


def floats_of(texts: list[str]) -> np.ndarray:
    """Return the numbers of texts as float64.

    Raises
    ------
    VMError
        With the first text that is no number.
    """
    if _are_as_in_c(texts):
        try:
            return np.array([*map(float, texts)], "float64")
        except ValueError:
            pass
    return np.array([_float(text) for text in texts], "float64")


def integers_of(texts: list[str], dtype: np.dtype) -> np.ndarray:
    """Return the numbers of texts as integers of a type, which wrap around, or whether they are not 0 for bool.

    Raises
    ------
    VMError
        With the first text that is no number that can be cut off behind the point.
    """
    if _are_as_in_c(texts):
        try:
            found = np.array([*map(int, texts)], "int64")
            return found != 0 if dtype.kind == "b" else found.astype(dtype)
        except (ValueError, OverflowError):  # a point, no number, or more than 64 bits
            pass
    numbers = [_integer(text) for text in texts]
    if dtype.kind == "b":
        return np.array([number != 0 for number in numbers], dtype)
    bits, least = 8 * dtype.itemsize, int(np.iinfo(dtype).min)
    return np.array([(number - least) % (1 << bits) + least for number in numbers], dtype)


def _are_as_in_c(texts: list[str]) -> bool:
    joined = "\n".join(texts)
    return joined.isascii() and not any(map(joined.__contains__, _OF_PYTHON))


def _float(text: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise VMError(f"the string {text!r} is not a number")
    return float(text)


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is not None:
        try:
            return int(text)
        except ValueError:
            raise VMError(f"the string {text[:40]!r}... has more digits than a number can have") from None
    number = _float(text)
    if number - number != 0:
        raise VMError(f"the string {text!r} is not an integer")
    return int(number)
