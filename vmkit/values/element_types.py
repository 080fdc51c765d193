"""Element types that no kernel computes in, and as what a tensor of one is stored.

A program's types say ``float8_e4m3fn`` or ``int4``; at run time such a tensor is one of the type that the table gives,
one element in each place: an integer of less than a byte as an integer of 8 bits, a small float as its bits, a string
as a digest of 64 bits. Whoever lowers a type or meets a value at the boundary of a program asks here.

>>> stored_type("int4"), stored_type("float8_e5m2"), stored_type("float32")
('int8', 'uint8', 'float32')
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from tvm.runtime import DataType

__all__ = [
    "ELEMENTS",
    "STORED",
    "element_bytes",
    "from_stored",
    "is_stored_type",
    "numpy_dtype",
    "small_integer_bits",
    "stored_type",
    "to_stored",
]

ELEMENTS = "elements"
"""What an executable's ``info.alignment`` says if all of its kernels read data at addresses of whole elements."""

STORED = {
    "float4_e2m1fn": "uint8",
    "float6_e2m3fn": "uint8",
    "float6_e3m2fn": "uint8",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
    "int2": "int8",
    "int4": "int8",
    "string": "int64",
    "uint2": "uint8",
    "uint4": "uint8",
}
"""As what a tensor of each of these types is stored; a type that is not here is computed in as it is."""


def is_stored_type(dtype: str) -> bool:
    """Say whether tensors of an element type are stored as another one."""
    return dtype in STORED


def stored_type(dtype: str) -> str:
    """Return the element type that tensors of a type have at run time."""
    return STORED.get(dtype, dtype)


def element_bytes(dtype: str) -> int:
    """Return the bytes of an element as it is stored, which its address is a multiple of."""
    return max(1, DataType(stored_type(dtype)).bits // 8)


def small_integer_bits(dtype: str) -> int | None:
    """Return the bits of an integer type of less than a byte, whose stored values are the integers; None for others."""
    return int(dtype[-1]) if dtype in ("int2", "int4", "uint2", "uint4") else None


@lru_cache(maxsize=64)
def numpy_dtype(dtype: str) -> np.dtype:
    """Return numpy's form of an element type, of ``ml_dtypes`` where numpy itself has none; strings are objects."""
    if dtype == "string":
        return np.dtype(object)
    if dtype not in STORED and dtype != "bfloat16":
        return np.dtype(dtype)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, dtype))


def to_stored(array: np.ndarray) -> np.ndarray:
    """Return an array as it is stored, without a copy where its elements are bits already; a plain one as it is."""
    if array.dtype.isbuiltin == 1:
        return array  # of numpy's own, which kernels compute in; to print its name takes long
    dtype = str(array.dtype)
    if dtype not in STORED:
        return array
    if small_integer_bits(dtype) is not None:
        return array.astype(STORED[dtype])
    bits = array.view(STORED[dtype])
    # ml_dtypes ignores what is above the bits of a small float; a kernel would not.
    width = int(dtype[5])
    return bits if width == 8 else bits & np.uint8((1 << width) - 1)


def from_stored(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array of an element type from how it is stored, without a copy where that is its bits."""
    if dtype not in STORED or str(array.dtype) == dtype:
        return array
    if small_integer_bits(dtype) is not None:
        return array.astype(numpy_dtype(dtype))
    return np.asarray(array).view(numpy_dtype(dtype))
