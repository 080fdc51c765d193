"""The attributes of a node as Python values; long lists of numbers stay as compact as the file has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import onnx
from onnx import AttributeProto

__all__ = ["Attributes", "LongList"]

_LONG = 1 << 12  # from here on, a list of Python's numbers takes more memory than is worth the speed of reading it
_ELEMENTS = {AttributeProto.INTS: ("ints", "int64"), AttributeProto.FLOATS: ("floats", "float32")}


class LongList(Sequence[Any]):
    """Numbers that read as a list of Python's do, kept as an array, which ``numpy.asarray`` gives without a copy.

    >>> numbers = LongList(np.array([3, 1, 2]))
    >>> len(numbers), numbers[0], list(numbers[1:]), sorted(numbers)
    (3, 3, [1, 2], [1, 2, 3])
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> LongList: ...
    def __getitem__(self, index: int | slice) -> Any:
        return LongList(self._array[index]) if isinstance(index, slice) else self._array[index].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is None:
            return self._array if dtype is None else self._array.astype(dtype, copy=False)
        return np.array(self._array, dtype, copy=copy)


class Attributes(Mapping[str, Any]):
    """The attributes of a node by name, as Python values; strings are str."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self._values = {a.name: _python_value(a) for a in node.attribute}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _python_value(attribute: AttributeProto) -> Any:
    if attribute.type == AttributeProto.STRINGS:
        return _texts(attribute.strings)
    if attribute.type in _ELEMENTS:
        name, dtype = _ELEMENTS[attribute.type]
        elements = getattr(attribute, name)
        is_long = len(elements) >= _LONG
        return LongList(np.fromiter(elements, dtype, len(elements))) if is_long else list(elements)
    value = onnx.helper.get_attribute_value(attribute)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _texts(values: Iterable[bytes]) -> list[str]:
    """Return texts, of which equal ones are one object: there may be millions of a few."""
    known: dict[bytes, str] = {}
    return [known.setdefault(v, v.decode("utf-8", "replace")) if v not in known else known[v] for v in values]
