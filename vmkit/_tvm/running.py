"""Names of TVM and tvm-ffi that running a program takes, each with the reason why it is here.

What is here needs TVM's runtime alone: a process that only runs programs does not load the compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import tvm_ffi
from tvm.libinfo import find_libtvm_runtime
from tvm.runtime import Device, Module, Tensor
from tvm_ffi.core import CObject, ObjectConvertible
from tvm_ffi.libinfo import find_libtvm_ffi

__all__ = [
    "DEVICE_NAMES",
    "DEVICE_TYPES",
    "RAISED_IN_PYTHON",
    "THREAD_LIMIT_ADDRESS",
    "CObject",
    "ObjectConvertible",
    "allocate_integers",
    "allocate_storage",
    "array_item",
    "array_items",
    "array_size",
    "configure_pool",
    "declare_packed",
    "empty_pools",
    "fail_packed",
    "from_dlpack",
    "limit_threads_of_this_thread",
    "load_bytecode",
    "load_library",
    "pool_size",
    "reference_count",
]

# CObject (tvm_ffi.core): the base of all objects of tvm-ffi, those without a registered Python class too.
# ObjectConvertible (tvm_ffi.core): what may stand for an object in a call; its name has changed once.

# -- devices

# The two tables in which TVM has the names of types of device; its public functions take a name and tell none.
DEVICE_TYPES: Mapping[str, int] = Device._DEVICE_NAME_TO_TYPE
DEVICE_NAMES: Mapping[int, str] = Device._DEVICE_TYPE_TO_NAME


# -- tensors

# TVM registers its own class of tensors with tvm-ffi, which says in its types only that it returns one of its own.
from_dlpack: Callable[[Any], Tensor] = cast("Callable[[Any], Tensor]", tvm_ffi.from_dlpack)


# -- running. Functions that TVM registers from C++ by names alone, without a Python interface.

pool_size: Callable[[], int] = tvm_ffi.get_global_func("runtime.NumThreads")
"""The number of threads that the calling thread's pool has, which is made by asking for it."""

configure_pool: Callable[[int, int], None] = tvm_ffi.get_global_func("runtime.config_threadpool")
"""Make the calling thread's pool anew, from a mode of affinity and a number of threads."""

array_item: Callable[[Any, int], Any] = tvm_ffi.get_global_func("ffi.ArrayGetItem")
"""Element of an array; ``tvm_ffi.Array`` has it too, after a conversion of its own that costs more than the read."""

array_size: Callable[[Any], int] = tvm_ffi.get_global_func("ffi.ArraySize")


def array_items(array: Any) -> list[Any]:
    """Return the elements of an array; ``list(array)`` asks for its size and checks the place before each of them."""
    return [array_item(array, i) for i in range(array_size(array))]


def load_library(path: Path) -> Module:
    """Return the module of a file, which is unmapped once nothing refers to it; TVM's own loader keeps it for ever."""
    return cast(Module, tvm_ffi.load_module(str(path), keep_module_alive=False))


def load_bytecode(code: bytes) -> Module:
    """Return the module of an executable's bytes, which the VM trusts; the public loader takes files alone."""
    return tvm_ffi.get_global_func("ffi.Module.load_from_bytes.relax.VMExecutable")(code)


# runtime::threading::SetMaxConcurrency of TVM's C++ interface, which its Python one lacks: the limit of the calling
# thread alone, from which the thread's pool is made.
limit_threads_of_this_thread: Callable[[int], Any] = ctypes.CDLL(find_libtvm_runtime())[
    "_ZN3tvm7runtime9threading17SetMaxConcurrencyEi"
]

# runtime::threading::MaxConcurrency, which says what that limit is, for runtimes of code generators to call from C++.
THREAD_LIMIT_ADDRESS = cast(
    int,
    ctypes.cast(
        ctypes.CDLL(find_libtvm_runtime())["_ZN3tvm7runtime9threading14MaxConcurrencyEv"], ctypes.c_void_p
    ).value,
)
"""The address of the function that returns how many threads the calling thread's kernels may use."""

# The C interface of tvm-ffi. A packed function in Python costs microseconds a call; one with a C signature does not.
_C_INTERFACE = ctypes.CDLL(find_libtvm_ffi())
_PackedFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t)
_declared: list[Any] = []  # ctypes frees a callback that nobody holds


class _Bytes(ctypes.Structure):
    """TVMFFIByteArray of tvm-ffi's C interface."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


def declare_packed(name: str, function: Callable[[int, int, int, int], int]) -> None:
    """Register a function of (self, arguments, their number, address of the result) by name, without any conversion.

    It returns 0, or -1 after :func:`fail_packed`.
    """
    callback, handle, encoded = _PackedFunction(function), ctypes.c_void_p(), name.encode()
    _declared.append(callback)
    if _C_INTERFACE.TVMFFIFunctionCreate(
        None, callback, None, ctypes.byref(handle)
    ) or _C_INTERFACE.TVMFFIFunctionSetGlobal(ctypes.byref(_Bytes(encoded, len(encoded))), handle, 1):
        raise ImportError(f"{name} cannot be registered with tvm-ffi")


def fail_packed(message: bytes) -> int:
    """Set the RuntimeError that a function of :func:`declare_packed` ends with; return what it returns then."""
    handle = _error(b"RuntimeError", message)
    _C_INTERFACE.TVMFFIErrorSetRaised(handle)
    _C_INTERFACE.TVMFFIObjectDecRef(handle)
    return -1


def _error(kind: bytes, message: bytes) -> ctypes.c_void_p:
    """Return a new error of tvm-ffi, without a backtrace: a process' first reads the symbols of TVM, in 0.2 s."""
    handle = ctypes.c_void_p()
    parts = [ctypes.byref(_Bytes(text, len(text))) for text in (kind, message, b"")]
    if _C_INTERFACE.TVMFFIErrorCreate(*parts, ctypes.byref(handle)):
        raise MemoryError
    return handle


RAISED_IN_PYTHON = cast(int, _error(b"EnvErrorAlreadySet", b"").value)
"""The address of the error which says that what is to be raised is set in Python."""


def allocate_storage(*args: Any) -> tvm_ffi.Object:
    """Return what the VM's own ``alloc_storage`` does for the arguments that bytecode gives it."""
    made: tvm_ffi.Object = tvm_ffi.get_global_func("vm.builtin.alloc_storage")(*args)
    return made


def allocate_integers(*args: Any) -> tvm_ffi.Object:
    """Return what the VM's own ``alloc_shape_heap`` does for the arguments that bytecode gives it."""
    made: tvm_ffi.Object = tvm_ffi.get_global_func("vm.builtin.alloc_shape_heap")(*args)
    return made


def empty_pools() -> None:
    """Give the system what the VM's memory pools keep for the next allocation."""
    tvm_ffi.get_global_func("vm.builtin.memory_manager.clear")()


def reference_count(node: tvm_ffi.Object) -> int:
    """Return how many refer to a node, this one included: the lower half of what a node of tvm-ffi begins with."""
    return ctypes.c_uint32.from_address(node.__chandle__()).value
