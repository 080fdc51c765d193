"""Lists of millions of elements that read as those of Python do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from .repeated_fields import KINDS, RepeatedField, Unreadable

__all__ = ["LongList", "LongNumbers", "LongTexts", "long_list"]


class LongList(Sequence[Any]):
    """A list as an array, which ``numpy.asarray`` gives without a copy.

    >>> numbers = LongList(np.array([3, 1, 2]))
    >>> len(numbers), numbers[0], list(numbers[1:]), sorted(numbers)
    (3, 3, [1, 2], [1, 2, 3])
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def array(self) -> np.ndarray[Any, Any]:
        """Return the numbers."""
        return self._array

    def __len__(self) -> int:
        return len(self.array())

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> LongList: ...
    def __getitem__(self, index: int | slice) -> Any:
        return LongList(self.array()[index]) if isinstance(index, slice) else self.array()[index].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array().tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.array()
        if copy is None:
            return array if dtype is None else array.astype(dtype, copy=False)
        return np.array(array, dtype, copy=copy)


class LongNumbers(LongList):
    """Numbers that are read from their file whenever they are asked for, and held by nobody meanwhile."""

    def __init__(self, field: RepeatedField, count: int) -> None:
        self._field, self._count = field, count

    def __len__(self) -> int:
        return self._count

    def array(self) -> np.ndarray[Any, Any]:
        return self._field.numbers()


class LongTexts(LongList):
    """Few texts, many times each.

    Attributes
    ----------
    codes : array of uint8
        For each element, the number of its text.
    known : list of str
        The texts by these numbers.
    """

    def __init__(self, codes: np.ndarray[Any, Any], known: list[str]) -> None:
        self.codes, self.known = codes, known

    def __len__(self) -> int:
        return len(self.codes)

    def array(self) -> np.ndarray[Any, Any]:
        return np.array(self.known, object)[self.codes]

    def __getitem__(self, index: Any) -> Any:
        return LongTexts(self.codes[index], self.known) if isinstance(index, slice) else self.known[self.codes[index]]


def long_list(file: Path, offset: int, size: int, kind: int) -> LongList | None:
    """Return the elements of an attribute that lie in a file; None where something else lies there, too.

    Parameters
    ----------
    offset, size : int
        Where, in bytes.
    kind : int
        The type of the attribute.
    """
    field = RepeatedField(file, offset, size, kind)
    try:
        if kind in KINDS:
            return LongNumbers(field, len(field.numbers()))
        codes, texts = field.texts()
    except Unreadable:
        return None
    return LongTexts(codes, [text.decode("utf-8", "replace") for text in texts])
