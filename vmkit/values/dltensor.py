"""Tensors as TVM stores them in files: a header, the shape, the bytes."""

from __future__ import annotations

import math
import struct

import numpy as np
import tvm
from tvm.runtime import Tensor

from ..errors import ModelError

__all__ = ["next_dltensor", "read_dltensor", "write_dltensor"]

_MAGIC = 0xDD5E40F096B4A13F
# magic, reserved, device type and id, rank, data type code, bits and lanes
_HEADER = struct.Struct("<QQiiiBBH")
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_CPU = 1
# What numpy holds.
_LARGEST_RANK = 32


def read_dltensor(blob: bytes) -> Tensor:
    """Return the ``tvm.runtime.Tensor`` that bytes hold; the data is copied.

    Raises
    ------
    ModelError
        When the bytes are cut short, or hold something else.
    """
    tensor, end = next_dltensor(blob, 0)
    if end != len(blob):
        raise ModelError(f"a stored tensor of {end} bytes does not fit {len(blob)} bytes")
    return tensor


def next_dltensor(blob: bytes, at: int) -> tuple[Tensor, int]:
    """Return the tensor that begins at a place in bytes, and where it ends; the data is copied.

    Raises
    ------
    ModelError
        When the bytes are cut short, or hold something else.
    """
    left = len(blob) - at
    if left < _HEADER.size:
        raise ModelError(f"a stored tensor has at least {_HEADER.size} bytes, got {left}")
    magic, _, _, _, rank, code, bits, lanes = _HEADER.unpack_from(blob, at)
    if magic != _MAGIC:
        raise ModelError(f"a stored tensor begins with {_MAGIC:#x}, got {magic:#x}")
    dtype = _numpy_dtype(code, bits, lanes)
    if not 0 <= rank <= _LARGEST_RANK or left < _HEADER.size + 8 * (rank + 1):
        raise ModelError(f"a stored tensor of rank {rank} does not fit {left} bytes")
    at += _HEADER.size
    *shape, size = struct.unpack_from(f"<{rank + 1}q", blob, at)
    at += 8 * (rank + 1)
    # No element at all beside a size beyond any address is no tensor either.
    largest = math.prod(max(extent, 1) for extent in shape) * dtype.itemsize
    if min(shape, default=0) < 0 or largest >= 1 << 48:
        raise ModelError(f"a stored tensor has the shape {tuple(shape)}")
    if size != math.prod(shape) * dtype.itemsize or len(blob) - at < size:
        raise ModelError(f"a stored tensor of shape {tuple(shape)} and {dtype} does not fit {left} bytes")
    array = np.frombuffer(blob, dtype, count=math.prod(shape), offset=at) if size else np.empty(0, dtype)
    array = array.reshape(shape)
    return tvm.runtime.tensor(array.astype("bool") if _is_bool(code, bits) else array.copy()), at + size


def _is_bool(code: int, bits: int) -> bool:
    return (_CODES.get(code) == "uint" and bits == 1) or _CODES.get(code) == "bool"


def _numpy_dtype(code: int, bits: int, lanes: int) -> np.dtype:
    if lanes != 1 or code not in _CODES:
        raise ModelError(f"a stored tensor has the data type code {code} with {lanes} lanes, which is not supported")
    if _is_bool(code, bits):
        return np.dtype("uint8")
    name = f"{_CODES[code]}{bits}"
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    try:
        return np.dtype(name)
    except TypeError:
        raise ModelError(f"a stored tensor has the data type {name}, which is not supported") from None


def write_dltensor(data: Tensor) -> bytes:
    """Return the bytes that hold a ``tvm.runtime.Tensor``, readable by every release that had Relay.

    Booleans are stored as ``uint1``, as those releases did.
    """
    array = np.ascontiguousarray(data.numpy())
    dtype = str(data.dtype)
    if dtype == "bool":
        code, bits = 1, 1
    else:
        family = dtype.rstrip("0123456789")
        code = next((c for c, name in _CODES.items() if name == family), -1)
        if code < 0:
            raise ModelError(f"a tensor of {dtype} cannot be stored")
        bits = int(dtype.removeprefix(family))
    shape = tuple(data.shape)
    header = _HEADER.pack(_MAGIC, 0, _CPU, 0, len(shape), code, bits, 1)
    return header + struct.pack(f"<{len(shape) + 1}q", *shape, array.nbytes) + array.tobytes()
