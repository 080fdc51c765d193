"""Read an ONNX file without its weights: their bytes stay in the file until each is used.

A model file is one protocol buffer; parsed whole it is held twice, as bytes and as message, before anything is
imported. Here the fields that lead to the weights (``ModelProto.graph``, ``GraphProto.initializer``,
``TensorProto.raw_data``) are followed in the mapped file, and the rest is what the parser gets.

Source: https://protobuf.dev/programming-guides/encoding and onnx.proto3 for the numbers of fields.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from ...errors import ModelError
from .in_file import InFile

__all__ = ["without_weights"]

_GRAPH, _INITIALIZER, _DIMS, _DATA_TYPE, _NAME, _RAW_DATA, _LOCATION = 7, 5, 1, 2, 8, 9, 14
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_MOST_BYTES = 1 << 31  # what a protocol buffer may have at most
_LARGE = 1 << 12  # what is smaller steers the import more often than it is a weight
# Types whose elements lie in the file as numpy has them in memory.
_PLAIN = {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
    TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip


class _Unexpected(Exception):
    """The bytes are not what a model is made of; the parser says what they are."""


def without_weights(file: Path) -> tuple[bytes, dict[str, InFile]]:
    """Return the bytes of a model file without its large initializers' data, and these by name.

    A file that does not look like a model is returned whole; ModelError for one that is too large for any.
    """
    whole = file.read_bytes() if file.stat().st_size < _LARGE else None
    if whole is not None:
        return whole, {}
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        weights: dict[str, InFile] = {}
        try:
            return _model(data, file, weights), weights
        except _Unexpected:
            if len(data) >= _MOST_BYTES:
                raise ModelError(
                    f"{file.name} is no ONNX model: it has {len(data)} bytes that are none of one"
                ) from None
            return data[:], {}


def _model(data: mmap.mmap, file: Path, weights: dict[str, InFile]) -> bytes:
    kept = []
    for number, kind, start, begin, end in _fields(data, 0, len(data)):
        is_graph = (number, kind) == (_GRAPH, _LENGTH)
        kept.append(_message(_GRAPH, _graph(data, begin, end, file, weights)) if is_graph else data[start:end])
    return b"".join(kept)


def _graph(data: mmap.mmap, begin: int, end: int, file: Path, weights: dict[str, InFile]) -> bytes:
    kept = []
    for number, kind, start, first, last in _fields(data, begin, end):
        is_large = (number, kind) == (_INITIALIZER, _LENGTH) and last - first >= _LARGE
        kept.append(_tensor(data, (start, first, last), file, weights) if is_large else data[start:last])
    return b"".join(kept)


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
