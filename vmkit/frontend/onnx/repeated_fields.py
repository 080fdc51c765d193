"""Long repeated fields of a message, read by numpy from the file that they lie in.

As a message holds them, numbers take eight bytes and texts about fifty, whatever they are; trees have millions of them.
Here each element is the field's key and the element, as in ONNX's own files; nothing is read that is anything else.

Source: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto

from ..._dataclasses import dataclass

__all__ = ["KINDS", "RepeatedField", "Unreadable"]

_INT_KEY, _FLOAT_KEY, _TEXT_KEY = 8 << 3, 7 << 3 | 5, 9 << 3 | 2
_CHUNK = 1 << 20  # bytes that are decoded at a time
_MORE = 0x80  # set in all bytes of a number of variable length but the last
_MOST_BYTES = 10  # of a number
_MOST_TEXTS = 64  # different ones, each of which is looked for

Array = np.ndarray[Any, Any]


class Unreadable(Exception):
    """The bytes are not elements of the field alone."""


@dataclass(frozen=True)
class RepeatedField:
    """The elements of a list in a file.

    Attributes
    ----------
    file : Path
    offset, size : int
        Where the elements lie, in bytes.
    kind : int
        The type of the attribute that they are of: one of KINDS.
    """

    file: Path
    offset: int
    size: int
    kind: int

    def numbers(self) -> Array:
        """Return integers in the narrowest of int32 and int64 that holds them, or float32."""
        return np.concatenate([KINDS[self.kind](chunk) for chunk in _Chunks(self)])

    def texts(self) -> tuple[Array, list[bytes]]:
        """Return the number of each text, and the texts by these numbers."""
        known: list[bytes] = []
        codes = [_coded(data, starts, known) for data, starts in _Chunks(self).of_texts()]
        return np.concatenate(codes), known


class _Chunks:
    """What a field's elements are decoded from, some at a time, each whole."""

    def __init__(self, field: RepeatedField) -> None:
        self._field, self._left, self.rest = field, field.size, b""

    def __iter__(self) -> Iterator[_Chunks]:
        for _ in self._blocks():
            yield self
        if self.rest:
            raise Unreadable

    def _blocks(self) -> Iterator[bytes]:
        with self._field.file.open("rb") as opened:
            opened.seek(self._field.offset)
            while self._left:
                block = opened.read(min(_CHUNK, self._left))
                if not block:
                    raise Unreadable
                self._left -= len(block)
                self.rest += block
                yield block

    def taken(self, size: int) -> Array:
        """Return the first bytes of what is at hand, which do not come again."""
        data, self.rest = np.frombuffer(self.rest, np.uint8, size), self.rest[size:]
        return data

    def of_texts(self) -> Iterator[tuple[Array, Array]]:
        """Yield bytes, and where in them the key of each text stands."""
        for _ in self:
            data = np.frombuffer(self.rest, np.uint8)
            # No text may hold what is the key: then keys stand where the texts before them end.
            starts = np.flatnonzero(data == _TEXT_KEY)
            is_cut = not len(starts) or starts[-1] + 1 >= len(data) or _ends(data, starts[-1:])[0] > len(data)
            starts = starts[:-1] if is_cut else starts
            ends = _ends(data, starts)
            size = int(ends[-1]) if len(ends) else 0
            if (starts != np.concatenate([[0], ends[:-1]])[: len(starts)]).any() or (data[starts + 1] >= _MORE).any():
                raise Unreadable
            # A text that holds what is the key, and is cut behind that, ends further on.
            if size > len(data) or (size == 0 and len(data) > _CHUNK):
                raise Unreadable
            yield self.taken(size), starts


def _ends(data: Array, starts: Array) -> Array:
    """Return where texts end of which the keys, and behind these the lengths, stand in some places."""
    return starts + 2 + data[starts + 1]


def _integers(chunk: _Chunks) -> Array:
    data = np.frombuffer(chunk.rest, np.uint8)
    last = np.flatnonzero(data < _MORE)  # of keys and numbers in turn
    last = last[: len(last) // 2 * 2]
    keys, stops = last[::2], last[1::2]
    if not len(keys):
        if len(data) > _CHUNK:
            raise Unreadable
        return np.empty(0, "int32")
    lengths = stops - keys
    is_regular = keys[0] == 0 and (keys[1:] == stops[:-1] + 1).all() and (data[keys] == _INT_KEY).all()
    if not is_regular or lengths.max() > _MOST_BYTES:
        raise Unreadable
    data = chunk.taken(int(stops[-1]) + 1)
    values = np.zeros(len(keys), "uint64")
    for at in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > at)
        values[longer] |= (data[keys[longer] + 1 + at] & np.uint8(_MORE - 1)).astype("uint64") << np.uint64(7 * at)
    signed = values.view("int64")
    narrow = signed.astype("int32")
    return narrow if (narrow == signed).all() else signed


def _floats(chunk: _Chunks) -> Array:
    pairs = chunk.taken(len(chunk.rest) // 5 * 5).view([("key", "u1"), ("value", "<f4")])
    if (pairs["key"] != _FLOAT_KEY).any():
        raise Unreadable
    return pairs["value"].copy()


def _coded(data: Array, starts: Array, known: list[bytes]) -> Array:
    """Return the numbers of texts; those that are not `known` are added there."""
    codes = np.full(len(starts), _MOST_TEXTS, "uint8")
    lengths = data[starts + 1]
    number = 0
    while (codes == _MOST_TEXTS).any():
        if number == len(known):
            if number == _MOST_TEXTS:
                raise Unreadable
            at = starts[(codes == _MOST_TEXTS).argmax()] + 2
            known.append(data[at : at + data[at - 1]].tobytes())
        left = np.flatnonzero((codes == _MOST_TEXTS) & (lengths == len(known[number])))
        for at, letter in enumerate(known[number]):
            left = left[data[starts[left] + 2 + at] == letter]
        codes[left] = number
        number += 1
    return codes


KINDS: dict[int, Callable[[_Chunks], Array]] = {AttributeProto.INTS: _integers, AttributeProto.FLOATS: _floats}
"""By the type of an attribute, what decodes the numbers at hand."""
