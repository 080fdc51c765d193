"""The attributes of a node as Python values; long lists of numbers stay as compact as the file has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto

from .long_lists import LongList

__all__ = ["Attributes"]

_LONG = 1 << 12  # from here on, a list of Python's numbers takes more memory than is worth the speed of reading it
_ELEMENTS = {AttributeProto.INTS: ("ints", "int64"), AttributeProto.FLOATS: ("floats", "float32")}


class Attributes(Mapping[str, Any]):
    """The attributes of a node by name, as Python values; strings are str.

    Lists that were left in the model's file lie by the node's first output and the attribute's name.
    """

    def __init__(self, node: onnx.NodeProto, lists: Mapping[tuple[str, str], LongList] = MappingProxyType({})) -> None:
        self._values = {a.name: _python_value(a) for a in node.attribute}
        if lists and node.output:
            left = {a.name: lists.get((node.output[0], a.name)) for a in node.attribute}
            self._values.update((name, found) for name, found in left.items() if found and not self._values[name])

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
