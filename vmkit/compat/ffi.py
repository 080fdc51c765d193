"""TVM's old private package for its C interface, where scripts found TVM's error and its table of functions."""

from __future__ import annotations

from tvm_ffi import get_global_func, register_object
from tvm_ffi import register_global_func as register_func

__all__ = ["TVMError", "get_global_func", "register_func", "register_object"]

# As in Relay's time every error of TVM is one.
TVMError = RuntimeError
