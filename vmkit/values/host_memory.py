"""Tensors over the memory of arrays, or over copies of it where kernels could not read it as it lies."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np
from tvm import runtime
from tvm.runtime import Device, Tensor

from .._tvm import tensor_view
from .._tvm.running import from_dlpack
from ..errors import InputError

__all__ = [
    "ALIGNMENT",
    "Scratch",
    "aligned_array",
    "aligned_empty",
    "aligned_part",
    "as_array",
    "copied",
    "integer_tensor",
    "native_array",
    "over_memory",
    "readable",
    "return_free_memory",
    "to_cpu_tensor",
    "to_tensor",
]

ALIGNMENT = 64
"""The alignment in bytes that kernels assume of every tensor; a tensor with less kills the process."""

_SIZE, _POINTER = ctypes.c_size_t, ctypes.c_void_p
# glibc takes blocks of less than 128 KiB out of a heap whatever there was before; LLVM leaves up to so many there.
_BLOCK, _BLOCKS = 120 << 10, 100
_BYTE = np.dtype("uint8")
_INTEGERS = ALIGNMENT // 8


class _NoMemory(InputError, MemoryError):
    """As numpy has it, a MemoryError."""


def _references_of_a_local() -> int:
    """Return what ``getrefcount`` says of an array that nothing but a local variable refers to.

    An interpreter that counts references of several threads at once does not know that number: there 0, below any.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0
    arrays = [np.empty(0)]
    kept = arrays.pop()
    # 2 with the argument; interpreters that lend local variables to their callees do not count it.
    return getrefcount(kept)


_UNSHARED = _references_of_a_local()
_CPU_TYPE = runtime.cpu().dlpack_device_type()
_CPU = (_CPU_TYPE, 0)


def to_tensor(value: np.ndarray | Tensor, device: Device) -> Tensor:
    """Return `value` as a tensor on `device` that kernels can read.

    Without a copy where possible: the tensor then shares the caller's memory and keeps it alive.
    """
    if isinstance(value, np.ndarray):
        tensor = to_cpu_tensor(value)
    else:
        readable = value.data_ptr() % ALIGNMENT == 0 and value.is_contiguous() and value.numel() > 0
        tensor = value if readable or value.device.dlpack_device_type() != _CPU_TYPE else copied(value)
    return tensor if tensor.device == device else tensor.copyto(device)


def readable(
    values: Sequence[Any], alignments: Sequence[int], dtypes: Sequence[np.dtype], scratches: Sequence[Scratch]
) -> list[Tensor] | None:
    """Return arrays and tensors as tensors on the CPU that kernels can read, or None if one is anything else.

    This is the short way of a call: a tensor that kernels can read goes in as it is, an array without a copy if they
    can read that, and otherwise by its scratch. It looks at no value twice and at no shape. `alignments` are what
    kernels expect of each address, in bytes.

    Arrays are of just the data types `dtypes`: a program that finds another one says so, but TVM ends the process where
    it has no name for it, as for complex numbers.
    """
    tensors = []
    for value, alignment, dtype, scratch in zip(values, alignments, dtypes, scratches):  # noqa: B905 - strict costs time
        kind = type(value)
        if kind is np.ndarray:
            # Nearly always it is the very same object, which is quick to tell; arrays that were pickled have their own.
            if value.dtype is not dtype and value.dtype != dtype:
                return None
            try:
                tensor = from_dlpack(value)
            except (BufferError, RuntimeError):
                return None  # read-only, of foreign byte order, or of a dtype that DLPack lacks
        elif kind is Tensor and value.__dlpack_device__() == _CPU:
            tensor = value
        else:
            return None
        # Empty arrays have strides that kernels refuse, and no address.
        if tensor.data_ptr() % alignment == 0 and tensor.is_contiguous() and tensor.numel():
            tensors.append(tensor)
        elif kind is np.ndarray:
            tensors.append(scratch.copy(value))
        else:
            return None
    return tensors


class Scratch:
    """Aligned memory for copies of one input, used again once nothing refers to the last copy.

    Safe with several threads: what one of them has taken out, no other sees. Without the interpreter's lock nothing can
    tell that no reference is left, and every copy has memory of its own.
    """

    __slots__ = ("_arrays", "_empty")
    _LARGEST = 1 << 20

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []
        self._empty: tuple[tuple[int, ...], np.dtype, Tensor] | None = None

    def copy(self, array: np.ndarray) -> Tensor:
        """Return a tensor of a copy of `array`."""
        if not array.size:
            return self._without_elements(array)
        try:
            kept = self._arrays.pop()
        except IndexError:
            kept = None
        # Tensors over the memory, and arrays over those, count as references.
        if kept is None or kept.shape != array.shape or kept.dtype != array.dtype or getrefcount(kept) > _UNSHARED:
            kept = _aligned_copy(array)
            if kept.nbytes > self._LARGEST or kept.dtype.kind not in "biufc":
                return _over(kept)
        else:
            kept[...] = array
        tensor = from_dlpack(kept)
        self._arrays.append(kept)
        return tensor

    def _without_elements(self, array: np.ndarray) -> Tensor:
        """Return a tensor like `array`, which may be the last one again, since nobody can write to it."""
        last = self._empty
        if last is None or last[0] != array.shape or last[1] != array.dtype:
            last = self._empty = (array.shape, array.dtype, copied(array))
        return last[2]


def to_cpu_tensor(array: np.ndarray, scratch: Scratch | None = None) -> Tensor:
    """Return an array as a tensor on the CPU, over its own memory if kernels can read that.

    Otherwise over a copy, in the memory of `scratch` if given.
    """
    # Asking from_dlpack itself for the alignment costs 20 us where it is not met: the error carries a C++ trace.
    try:
        tensor = from_dlpack(array)
    except (BufferError, RuntimeError):
        return copied(array)  # read-only, of foreign byte order, or of a dtype that DLPack lacks
    # numpy gives empty arrays strides that kernels refuse, and no address.
    if array.size and tensor.data_ptr() % ALIGNMENT == 0 and tensor.is_contiguous():
        return tensor
    return scratch.copy(array) if scratch is not None else copied(array)


def copied(value: np.ndarray | Tensor) -> Tensor:
    """Return an aligned copy on the CPU."""
    array = value if isinstance(value, np.ndarray) else as_array(value)
    if not array.size:
        return runtime.empty(array.shape, str(array.dtype.newbyteorder("=")), runtime.cpu())
    return _over(_aligned_copy(array))


def integer_tensor(values: Sequence[int] | np.ndarray, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor of int64 on the CPU, of so many values as its shape has elements."""
    count = len(values)
    if not count:
        return runtime.empty(shape, "int64", runtime.cpu())
    aligned = _slots.take()[:count] if count <= _SLOT else _aligned_integers(count)
    aligned[:] = values
    return from_dlpack(aligned if len(shape) == 1 else aligned.reshape(shape))


def _aligned_integers(count: int) -> np.ndarray:
    memory = np.empty(count + _INTEGERS, _INT64)
    start = -from_dlpack(memory).data_ptr() % ALIGNMENT // 8
    return memory[start : start + count]


class _Slots:
    """Memory for few integers, whose place is found once for many of them; what was taken is not given again."""

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []

    def take(self) -> np.ndarray:
        """Return the memory of one slot."""
        try:
            return self._free.pop()
        except IndexError:
            first, *others = _aligned_integers(_SLOTS * _SLOT).reshape(_SLOTS, _SLOT)
            self._free += others
            return first


_INT64 = np.dtype("int64")
_SLOT, _SLOTS = 32, 64
_slots = _Slots()


def aligned_empty(size: int) -> np.ndarray:
    """Return so many bytes, not set to anything, which begin at a multiple of ALIGNMENT."""
    return aligned_part(np.empty(size + ALIGNMENT, _BYTE), size)


def aligned_part(memory: np.ndarray, size: int) -> np.ndarray:
    """Return the first bytes of memory that begin at a multiple of ALIGNMENT."""
    start = -from_dlpack(memory).data_ptr() % ALIGNMENT
    return memory[start : start + size]


def aligned_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array, not set to anything, over memory that begins at a multiple of ALIGNMENT."""
    return np.ndarray(shape, dtype, aligned_empty(math.prod(shape) * dtype.itemsize))


def _aligned_copy(array: np.ndarray) -> np.ndarray:
    native = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    try:
        aligned = aligned_array(array.shape, native)
    except MemoryError as error:
        raise _NoMemory(
            f"no memory for a copy of {array.dtype}{list(array.shape)}, {array.nbytes} bytes: arrays are copied that "
            f"are not contiguous, cannot be written to, or do not begin at a multiple of {ALIGNMENT}"
        ) from error
    aligned[...] = array
    return aligned


def _over(array: np.ndarray) -> Tensor:
    """Return a tensor over an aligned array, also of a dtype that DLPack does not know from numpy."""
    if array.dtype.kind in "biufc":
        return from_dlpack(array)
    raw = from_dlpack(array.view(f"uint{8 * array.dtype.itemsize}"))
    return tensor_view(raw, array.shape, str(array.dtype))


def over_memory(raw: np.ndarray, shape: Sequence[int], dtype: str) -> Tensor:
    """Return bytes as a tensor on the CPU, over their own memory if that is aligned and may be written to."""
    if not raw.flags.writeable or raw.ctypes.data % ALIGNMENT:
        raw = _aligned_copy(raw)
    return tensor_view(from_dlpack(raw), shape, dtype)


def as_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor's values as numpy sees them, strides and all; off the CPU, as a copy."""
    if tensor.device.dlpack_device_type() == _CPU_TYPE and str(tensor.dtype) != "bfloat16":
        return np.from_dlpack(tensor)
    return tensor.numpy()


def native_array(tensor: Tensor) -> np.ndarray | None:
    """Return a tensor on the CPU as an array over its memory; None off it, and of what numpy does not hold alike.

    Such as bfloat16 or numbers of 8 and 4 bits with a point.
    """
    try:
        kind = np.dtype(str(tensor.dtype)).kind
    except TypeError:
        return None
    is_here = tensor.device.dlpack_device_type() == _CPU_TYPE
    return np.from_dlpack(tensor) if is_here and kind in "biuf" else None


def return_free_memory() -> None:
    """Give memory that nothing uses back to the system, where the C library keeps it: glibc does.

    It keeps all that lies below what is in use, such as the weights before they were packed. Of what lies on top of a
    thread's heap ``malloc_trim`` gives nothing back, so for this thread's a block is put there first.
    """
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    trim = getattr(libc, "malloc_trim", None)
    if libc is None or trim is None:
        return
    allocate, free = libc.malloc, libc.free
    allocate.argtypes, allocate.restype, free.argtypes, free.restype = [_SIZE], _POINTER, [_POINTER], None
    *blocks, last = [allocate(_BLOCK) for _ in range(_BLOCKS)]
    for block in blocks:
        free(block)
    trim(_SIZE(0))
    free(last)
