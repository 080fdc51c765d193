"""TVM's old private package for its C interface, where scripts found TVM's error and its table of functions."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Number
from typing import Any

import tvm
import tvm_ffi
from tvm.runtime import Device
from tvm_ffi import register_global_func as register_func
from tvm_ffi import register_object

from vmkit.errors import UnsupportedOperatorError
from vmkit.relay import transform

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


# Functions of Relay's compiler that scripts took by name, and what there is instead.
_GONE = {
    "relay.tec.LowerTE": "vmkit lowers Relay to Relax; VMCompiler().lower(mod, target) gives what it lowers to",
    "relay._transform.RemoveStandaloneReshapes": "it worked on what LowerTE made; a reshape costs nothing in the VM",
    "relay.transform.ManifestAlloc": "Relax plans memory; Executable.stats and the profiler tell of it",
}
# The names under which Relay's passes were in that table.
_PASSES = ("relay._transform.", "relay.transform.")


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """Return a function that is registered under a name, or one of Relay's passes under the name it had there.

    What has no counterpart is refused when it is called.
    """
    if name in _GONE:

        def refused(*args: Any, **kwargs: Any) -> None:
            raise UnsupportedOperatorError(f"{name} is gone: {_GONE[name]}")

        return refused
    found: Callable[..., Any] | None = tvm_ffi.get_global_func(name, allow_missing=True)
    prefix = next((p for p in _PASSES if name.startswith(p)), None)
    if found is None and prefix is not None:
        found = getattr(transform, name.removeprefix(prefix), None)
    return found if found is not None or allow_missing else tvm_ffi.get_global_func(name)
