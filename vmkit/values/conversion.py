"""Python values to runtime values and back.

Going in there are two steps. Staging (:meth:`vmkit.values.kinds.Spec.stage`) turns what a caller passes into arrays and
tuples of them, without copying arrays, so that a signature can check them. :func:`to_runtime` then makes tensors on the
device of the program. On the CPU that is free for an array that is C-contiguous, writable, of native byte order and
64-byte aligned; any other is copied. Where a program's kernels expect less of an address,
:mod:`vmkit.values.host_memory` spares arrays that copy.

Coming out, tensors stay tensors, tuples become tuples and ADT values become :class:`ADT`. What the runtime's form of a
result does not tell, its spec does (:meth:`vmkit.values.kinds.Spec.from_runtime`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tvm_ffi
from tvm.runtime import Device, Tensor

from .._tvm.running import array_item, array_size
from .element_types import to_stored
from .host_memory import copied, to_tensor
from .kinds import ADT, RefValue, Value
from .kinds.value import Release
from .stored import StoredTensor, as_stored
from .texts import StringTensor

if TYPE_CHECKING:
    from .kinds.value import NumpyValue, Result, RuntimeValue, Staged

__all__ = [
    "ADT",
    "RefValue",
    "Release",
    "StoredTensor",
    "StringTensor",
    "from_runtime",
    "holds_adt",
    "holds_strings",
    "is_adt",
    "to_numpy",
    "to_runtime",
]


def to_runtime(value: Staged, device: Device, *, share: bool = True) -> RuntimeValue:
    """Return a staged value as the runtime takes it, with every tensor on `device`.

    Parameters
    ----------
    share
        Whether the tensor of a numpy array may share the array's memory.
    """
    if isinstance(value, np.ndarray):
        value = to_stored(value)
        return to_tensor(value if share else copied(value), device)
    if isinstance(value, Tensor):
        return to_tensor(as_stored(value), device)
    if isinstance(value, Value):
        return value.to_runtime(device, share=share)
    if isinstance(value, (tuple, tvm_ffi.Array)):
        return tvm_ffi.Array([to_runtime(item, device, share=share) for item in value])
    if value is None:
        return to_tensor(np.empty((0,), "float32"), device)
    return value  # type: ignore[return-value]  # what is none of the runtime's was refused


def from_runtime(value: RuntimeValue, release: Release | None = None) -> Result:
    """Return what a program returned: tensors as they are, tuples as tuples, ADT values as :class:`ADT`."""
    if isinstance(value, tvm_ffi.Array):
        # Array's own iterator asks for the size before each item.
        items = [array_item(value, index) for index in range(array_size(value))]
        for item in items:
            if type(item) is not Tensor:
                break
        else:
            return tuple(items)
        if type(items[0]) is int:
            return ADT.from_runtime(value, release)
        return tuple([from_runtime(item, release) for item in items])
    if isinstance(value, tvm_ffi.List):
        return RefValue.from_runtime(value, release)
    return value


def is_adt(array: tvm_ffi.Array) -> bool:
    """Tell whether an array of the runtime is an ADT value, which begins with its tag, and not a tuple."""
    return len(array) > 0 and type(array[0]) is int


def to_numpy(value: Result) -> NumpyValue:
    """Return `value` with every tensor in it as a numpy array, sharing memory where the device is the CPU."""
    if isinstance(value, Tensor):
        try:
            return np.from_dlpack(value)
        except (RuntimeError, BufferError):
            return value.numpy()
    if isinstance(value, Value):
        return value.to_numpy()
    if isinstance(value, list):
        return [to_numpy(item) for item in value]
    if isinstance(value, (tuple, tvm_ffi.Array)):
        return tuple(to_numpy(item) for item in value)
    return value


def holds_adt(value: Staged) -> bool:
    """Tell whether a staged value is an ADT value or a tuple with one in it."""
    if isinstance(value, tuple):
        return any(holds_adt(item) for item in value)
    return isinstance(value, (ADT, tvm_ffi.Array))


def holds_strings(value: Staged) -> bool:
    """Tell whether a staged value is a tensor of strings or a tuple with one in it."""
    if isinstance(value, tuple):
        return any(holds_strings(item) for item in value)
    return isinstance(value, StringTensor)
