"""ONNX's element types and their names in Relay."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ...errors import ModelError

__all__ = ["declared_name", "dtype_name", "element_type", "numpy_tensor"]

_NAMES = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "BOOL": "bool",
    "STRING": "string",
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "FLOAT8E8M0": "float8_e8m0fnu",
    "FLOAT6E2M3": "float6_e2m3fn",
    "FLOAT6E3M2": "float6_e3m2fn",
    "FLOAT4E2M1": "float4_e2m1fn",
    "INT4": "int4",
    "UINT4": "uint4",
    "INT2": "int2",
    "UINT2": "uint2",
}
# An older onnx lacks some of them.
_CODES = {code: _NAMES[name] for name, code in TensorProto.DataType.items() if name in _NAMES}


def dtype_name(code: int, where: str) -> str:
    """Return the Relay name of an ONNX element type; ModelError for one that is unknown or not supported."""
    name = _CODES.get(code)
    if name is None:
        known = TensorProto.DataType.keys()[code] if 0 <= code < len(TensorProto.DataType.keys()) else "no type"
        raise ModelError(f"{where} has the element type {code} ({known}); supported are {', '.join(_NAMES.values())}")
    return name


def declared_name(word: str) -> str | None:
    """Return the Relay name of an element type that ONNX declares, such as ``float``; None if it has none."""
    return _NAMES.get(word.upper())


def element_type(dtype: str) -> int:
    """Return the ONNX element type of a Relay data type."""
    for code, name in _CODES.items():
        if name == dtype:
            return int(code)
    raise ModelError(f"ONNX has no element type for {dtype}")


def numpy_tensor(tensor: onnx.TensorProto, where: str) -> np.ndarray:
    """Return the value of a tensor in the file; ModelError when data and shape disagree.

    Types that numpy lacks are those of ``ml_dtypes``; those of less than a byte have one element in each byte.
    """
    dtype_name(tensor.data_type, where)
    if any(d < 0 for d in tensor.dims):
        raise ModelError(f"{where} has the shape {list(tensor.dims)}")
    try:
        return numpy_helper.to_array(tensor)
    except Exception as error:
        raise ModelError(
            f"{where}: its data does not fill {dtype_name(tensor.data_type, where)}{list(tensor.dims)}: {error}"
        ) from error
