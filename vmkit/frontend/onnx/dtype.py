"""ONNX's element types and their names in Relay."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ...errors import ModelError

__all__ = ["dtype_name", "element_type", "numpy_tensor"]

_NAMES = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.BOOL: "bool",
}


def dtype_name(code: int, where: str) -> str:
    """Return the Relay name of an ONNX element type; ModelError for one that is unknown or not supported."""
    name = _NAMES.get(code)
    if name is None:
        known = TensorProto.DataType.keys()[code] if 0 <= code < len(TensorProto.DataType.keys()) else "no type"
        raise ModelError(f"{where} has the element type {code} ({known}); supported are {', '.join(_NAMES.values())}")
    return name


def element_type(dtype: str) -> int:
    """Return the ONNX element type of a Relay data type."""
    for code, name in _NAMES.items():
        if name == dtype:
            return int(code)
    raise ModelError(f"ONNX has no element type for {dtype}")


def numpy_tensor(tensor: onnx.TensorProto, where: str) -> np.ndarray:
    """Return the value of a tensor in the file; ModelError when data and shape disagree."""
    dtype_name(tensor.data_type, where)
    if any(d < 0 for d in tensor.dims):
        raise ModelError(f"{where} has the shape {list(tensor.dims)}")
    try:
        return numpy_helper.to_array(tensor)
    except Exception as error:
        raise ModelError(
            f"{where}: its data does not fill {dtype_name(tensor.data_type, where)}{list(tensor.dims)}: {error}"
        ) from error
