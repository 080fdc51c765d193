"""TVM's old private package for its C interface, where scripts found TVM's error and its table of functions."""

from __future__ import annotations

from numbers import Integral, Number

import tvm
from tvm.runtime import Device
from tvm_ffi import get_global_func, register_object
from tvm_ffi import register_global_func as register_func

__all__ = [
    "Device",
    "TVMError",
    "get_global_func",
    "integer_types",
    "numeric_types",
    "py_str",
    "register_func",
    "register_object",
    "string_types",
]

# As in Relay's time every error of TVM is one.
TVMError = RuntimeError
string_types, integer_types, numeric_types = (str,), (int, Integral), (float, int, Number)
DataType = tvm.DataType


def py_str(text: bytes) -> str:
    """Return bytes of TVM's C interface as text."""
    return text.decode("utf-8")
