"""Read an ONNX file without its weights: their bytes stay in the file until each is used.

A model file is one protocol buffer; parsed whole it is held twice, as bytes and as message, before anything is
imported. Here the fields that lead to the weights (``ModelProto.graph``, ``GraphProto.initializer``,
``TensorProto.raw_data``), and to the lists that trees are, are followed in the mapped file, and the rest is what the
parser gets.

Source: https://protobuf.dev/programming-guides/encoding and onnx.proto3 for the numbers of fields.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
from onnx import AttributeProto, TensorProto, helper

from ...errors import ModelError
from .in_file import InFile
from .long_lists import LongList, long_list

__all__ = ["without_weights"]

_GRAPH, _INITIALIZER, _DIMS, _DATA_TYPE, _NAME, _RAW_DATA, _LOCATION = 7, 5, 1, 2, 8, 9, 14
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_MOST_BYTES = 1 << 31  # what a protocol buffer may have at most
_NODE, _OUTPUT, _ATTRIBUTE, _DOMAIN, _TYPE = 1, 2, 5, 7, 20
_LISTS = {7: AttributeProto.FLOATS, 8: AttributeProto.INTS, 9: AttributeProto.STRINGS}  # by the field
_TREES = b"ai.onnx.ml"  # whose operators have lists as long as others have weights
_LARGE_LIST = 1 << 16
_LARGE = 1 << 12  # what is smaller steers the import more often than it is a weight
# Types whose elements lie in the file as numpy has them in memory.
_PLAIN = {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
    TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip


class _Unexpected(Exception):
    """The bytes are not what a model is made of; the parser says what they are."""


Lists: TypeAlias = dict[tuple[str, str], LongList]


def without_weights(file: Path) -> tuple[bytes, dict[str, InFile], Lists]:
    """Return the bytes of a model file without its large initializers' data, these by name, and lists of attributes.

    The lists lie by a node's first output and the attribute's name, which has no elements in the bytes.

    A file that does not look like a model is returned whole; ModelError for one that is too large for any.
    """
    whole = file.read_bytes() if file.stat().st_size < _LARGE else None
    if whole is not None:
        return whole, {}, {}
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        weights: dict[str, InFile] = {}
        lists: Lists = {}
        try:
            return _model(data, file, weights, lists), weights, lists
        except _Unexpected:
            if len(data) >= _MOST_BYTES:
                raise ModelError(
                    f"{file.name} is no ONNX model: it has {len(data)} bytes that are none of one"
                ) from None
            return data[:], {}, {}


def _model(data: mmap.mmap, file: Path, weights: dict[str, InFile], lists: Lists) -> bytes:
    kept = []
    for number, kind, start, begin, end in _fields(data, 0, len(data)):
        is_graph = (number, kind) == (_GRAPH, _LENGTH)
        kept.append(_message(_GRAPH, _graph(data, begin, end, file, weights, lists)) if is_graph else data[start:end])
    return b"".join(kept)


def _graph(data: mmap.mmap, begin: int, end: int, file: Path, weights: dict[str, InFile], lists: Lists) -> bytes:
    kept = []
    for number, kind, start, first, last in _fields(data, begin, end):
        if (number, kind) == (_INITIALIZER, _LENGTH) and last - first >= _LARGE:
            kept.append(_tensor(data, (start, first, last), file, weights))
        elif (number, kind) == (_NODE, _LENGTH) and last - first >= _LARGE_LIST:
            kept.append(_node(data, (start, first, last), file, lists))
        else:
            kept.append(data[start:last])
    return b"".join(kept)


def _node(data: mmap.mmap, place: tuple[int, int, int], file: Path, lists: Lists) -> bytes:
    """Return a node of an ensemble of trees without its long lists, which are noted; any other whole."""
    start, begin, end = place
    fields = list(_fields(data, begin, end))
    domain = [data[first:last] for number, _, _, first, last in fields if number == _DOMAIN]
    outputs = [data[first:last] for number, _, _, first, last in fields if number == _OUTPUT]
    output = outputs[0].decode("utf-8", "replace") if outputs else ""
    if domain != [_TREES] or not output or any(output == other for other, _ in lists):
        return data[start:end]
    kept = []
    for number, kind, at, first, last in fields:
        found = None
        if (number, kind) == (_ATTRIBUTE, _LENGTH) and last - first >= _LARGE_LIST:
            found = _list(data, first, last, file)
        if found is None or (output, found[0]) in lists:
            kept.append(data[at:last])
        else:
            name, elements, rest = found
            lists[output, name] = elements
            kept.append(_message(_ATTRIBUTE, rest))
    return _message(_NODE, b"".join(kept))


def _list(data: mmap.mmap, begin: int, end: int, file: Path) -> tuple[str, LongList, bytes] | None:
    """Return an attribute's name, its elements, and the attribute without them; None where it is not laid out so.

    Where it is, the name comes first, then the elements, then the attribute's type.
    """
    start = list(islice(_fields(data, begin, end), 2))
    number, _, _, first, last = start[0]
    kind = _LISTS.get(start[1][0]) if len(start) == 2 else None
    tail = b"" if kind is None else _varint_bytes(_TYPE << 3 | _VARINT) + _varint_bytes(kind)
    if number != 1 or kind is None or data[end - len(tail) : end] != tail:
        return None
    elements = long_list(file, last, end - len(tail) - last, kind)
    if elements is None:
        return None
    return data[first:last].decode("utf-8", "replace"), elements, data[begin:last] + tail


def _tensor(data: mmap.mmap, place: tuple[int, int, int], file: Path, weights: dict[str, InFile]) -> bytes:
    """Return an initializer without its data, which is noted; or whole, if it is not plain or noted already."""
    start, begin, end = place
    fields = list(_fields(data, begin, end))
    raw = [f for f in fields if f[0] == _RAW_DATA]
    others = [f for f in fields if f[0] != _RAW_DATA]
    rest = b"".join(data[s:e] for _, _, s, _, e in others)
    if len(raw) != 1 or sum(f[4] - f[2] for f in others) >= _LARGE or any(f[0] == _LOCATION for f in others):
        return data[start:end]
    try:
        tensor = TensorProto.FromString(rest)
    except Exception as error:  # the parser will say of the whole file what is wrong
        raise _Unexpected from error
    _, kind, _, first, last = raw[0]
    if tensor.data_type not in _PLAIN or kind != _LENGTH or not tensor.name or tensor.name in weights:
        return data[start:end]
    if tensor.HasField("segment"):
        return data[start:end]  # a part of a tensor, which is refused
    shape = tuple(tensor.dims)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if any(d <= 0 for d in shape) or int(np.prod(shape, dtype=object)) * dtype.itemsize != last - first:
        return data[start:end]
    weights[tensor.name] = InFile(file, first, tensor.data_type, shape)
    return _message(_INITIALIZER, rest)


def _message(number: int, content: bytes) -> bytes:
    return _varint_bytes(number << 3 | _LENGTH) + _varint_bytes(len(content)) + content


def _fields(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield each field of a message: number, wire type, where it starts, and where its content begins and ends."""
    while at < end:
        start = at
        key, at = _varint(data, at, end)
        number, kind = key >> 3, key & 7
        begin = at
        if kind == _VARINT:
            _, at = _varint(data, at, end)
        elif kind == _LENGTH:
            size, begin = _varint(data, at, end)
            at = begin + size
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise _Unexpected
        if at > end or number == 0:
            raise _Unexpected
        yield number, kind, start, begin, at


def _varint(data: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise _Unexpected


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
