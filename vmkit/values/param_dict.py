"""Weights by name as bytes, in the format of every release of TVM."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import tvm

from ..errors import ModelError
from .dltensor import next_dltensor, write_dltensor
from .tensors import as_tensors

__all__ = ["load_param_dict", "save_param_dict"]

_MAGIC = 0xF7E58D4F05049CB7
# magic, reserved, number of names
_HEADER = struct.Struct("<QQQ")
_COUNT = struct.Struct("<Q")


def save_param_dict(params: Mapping[str, Any]) -> bytearray:
    """Return bytes that hold weights, as ``relay.save_param_dict`` of TVM 0.14 wrote them.

    Parameters
    ----------
    params : mapping of str to array
        numpy arrays, TVM tensors or numbers.

    Returns
    -------
    bytearray
        The names and the tensors, in the order of the mapping; booleans as ``uint1``, all as of the CPU.

    Raises
    ------
    InputError
        Listing all values that are no tensors.
    """
    tensors = as_tensors(params)
    parts = [_HEADER.pack(_MAGIC, 0, len(tensors))]
    for name in tensors:
        encoded = name.encode()
        parts += [_COUNT.pack(len(encoded)), encoded]
    parts.append(_COUNT.pack(len(tensors)))
    parts += [write_dltensor(tensor) for tensor in tensors.values()]
    return bytearray(b"".join(parts))


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, tvm.runtime.Tensor]:
    """Return the weights that bytes hold, by name.

    Parameters
    ----------
    param_bytes : bytes or bytearray
        What ``save_param_dict`` of any release wrote.

    Raises
    ------
    ModelError
        When they are cut short, or hold something else.

    Examples
    --------
    >>> from vmkit import relay
    >>> list(relay.load_param_dict(relay.save_param_dict({"w": 1.0})))
    ['w']
    """
    if not isinstance(param_bytes, bytes | bytearray | memoryview):
        raise ModelError(f"weights are read from bytes, not {type(param_bytes).__name__}")
    blob = bytes(param_bytes)
    if len(blob) < _HEADER.size:
        raise ModelError(f"a file of weights has at least {_HEADER.size} bytes, got {len(blob)}")
    magic, _, count = _HEADER.unpack_from(blob)
    if magic != _MAGIC:
        raise ModelError(f"a file of weights begins with {_MAGIC:#x}, got {magic:#x}")
    names, at = _names(blob, count)
    if len(blob) < at + _COUNT.size:
        raise ModelError("the file of weights ends before its tensors")
    (tensor_count,) = _COUNT.unpack_from(blob, at)
    if tensor_count != len(names):
        raise ModelError(f"the file of weights has {len(names)} names for {tensor_count} tensors")
    at += _COUNT.size
    loaded: dict[str, tvm.runtime.Tensor] = {}
    for name in names:
        try:
            loaded[name], at = next_dltensor(blob, at)
        except ModelError as error:
            raise ModelError(f"weight {name!r}: {error}") from None
    if at != len(blob):
        raise ModelError(f"{len(blob) - at} bytes follow the last of the weights")
    return loaded


def _names(blob: bytes, count: int) -> tuple[list[str], int]:
    """Return so many names, and where what follows them begins."""
    at, names = _HEADER.size, []
    for position in range(count):
        if len(blob) < at + _COUNT.size:
            raise ModelError(f"the file of weights ends in name {position} of {count}")
        (size,) = _COUNT.unpack_from(blob, at)
        at += _COUNT.size
        if size > len(blob) - at:
            raise ModelError(f"the file of weights ends in name {position} of {count}")
        try:
            names.append(blob[at : at + size].decode())
        except UnicodeDecodeError as error:
            raise ModelError(f"name {position} of the weights is no text: {error}") from None
        at += size
    if len(set(names)) != len(names):
        raise ModelError("the file of weights has a name twice")
    return names, at
