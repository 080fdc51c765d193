"""Python values as arrays and tuples of them, which a signature can check: the first step into a program.

Nothing is copied here but what is no array yet, and no value changes: what does not fit is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tvm_ffi
from tvm.runtime import Tensor

from .._tvm.running import CObject, from_dlpack
from .element_types import numpy_dtype
from .fitting import fits
from .kinds import ADT, TensorSpec, Value
from .kinds.spec import describe
from .stored import StoredTensor
from .texts import StringTensor

if TYPE_CHECKING:
    from .kinds.value import Given, Scalar, Staged

__all__ = ["staged_any", "staged_tensor"]

_SCALARS = (bool, int, float, complex, np.generic)


def staged_tensor(value: Given, spec: TensorSpec, path: str, refused: dict[str, str]) -> Staged:
    """Return a value for a tensor, numbers in the dtype that `spec` declares; what is none is put into `refused`."""
    if spec.dtype == "string":
        return _staged_strings(value, spec, path, refused)
    if isinstance(value, Tensor):
        return _of_known_type(value, path, refused)
    if isinstance(value, (np.ndarray, StoredTensor)):
        return value
    if isinstance(value, (*_SCALARS, list, tuple)) and not isinstance(value, (str, bytes)):
        return _cast(value, spec.dtype, path, refused, spec)
    if hasattr(value, "__dlpack__"):
        return _import(value, path, refused)
    refused[path] = f"{describe(value)}, expected {spec}"
    return value


def _staged_strings(value: Given, spec: TensorSpec, path: str, refused: dict[str, str]) -> Staged:
    if isinstance(value, StringTensor):
        return value
    try:
        if isinstance(value, np.ndarray | list | tuple | str | bytes):
            return StringTensor(value)
    except ValueError as error:
        refused[path] = f"{error}; expected {spec}"
        return value
    refused[path] = f"{describe(value)}, expected {spec}: an array of objects that are str"
    return value


def staged_any(value: Given, path: str, refused: dict[str, str]) -> Staged:
    """Return a value of which nothing is declared; numbers are int32 or float32, as in Relay."""
    if isinstance(value, tvm_ffi.Array) and len(value) and type(value[0]) is int:
        return ADT.from_runtime(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSUT":
        return _staged_strings(value, TensorSpec("", "string", ()), path, refused)
    if isinstance(value, Tensor):
        return _of_known_type(value, path, refused)
    if isinstance(value, np.ndarray) and value.dtype.kind in "cmM":
        refused[path] = f"an array of {value.dtype}, which is no data type of programs"
        return value
    if isinstance(value, (np.ndarray, Value, str, tvm_ffi.Object)) or value is None:
        return value
    if isinstance(value, tuple | list):
        return tuple(staged_any(item, f"{path}[{index}]", refused) for index, item in enumerate(value))
    if isinstance(value, _SCALARS):
        return _cast(value, _relay_dtype(value), path, refused, _relay_dtype(value))
    if hasattr(value, "__dlpack__"):
        return _import(value, path, refused)
    if isinstance(value, CObject):
        return value
    refused[path] = f"{describe(value)}, which is not a value of a program: expected arrays, numbers, tuples of them"
    return value


def _relay_dtype(value: Scalar) -> str:
    if isinstance(value, np.float16):
        return "float16"
    return "int32" if isinstance(value, bool | int | np.bool_ | np.integer) else "float32"


def _cast(value: Given, dtype: str, path: str, refused: dict[str, str], expected: TensorSpec | str) -> Staged:
    """Return a scalar or list as an array of `dtype`; rounding to a float's precision is the one change allowed."""
    try:
        given = np.asarray(value)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        refused[path] = f"{describe(value)} that is no array ({error}), expected {expected}"
        return value
    if given.dtype.kind not in "biufc" or not fits(given, dtype):
        said = repr(value)
        said = said if len(said) <= 60 else f"{said[:57]}..."
        refused[path] = f"{said} does not fit {dtype}, expected {expected}"
        return value
    return given.astype(numpy_dtype(dtype))


def _of_known_type(tensor: Tensor, path: str, refused: dict[str, str]) -> Staged:
    """Return a tensor as it is. TVM has no name for some types of DLPack and ends the process where it needs one."""
    try:
        tensor.dtype  # noqa: B018 - it is looked up when it is asked for
    except ValueError:
        refused[path] = "a tensor of a data type that TVM does not know, such as complex numbers"
    return tensor


def _import(value: Given, path: str, refused: dict[str, str]) -> Staged:
    try:
        return _of_known_type(from_dlpack(value), path, refused)
    except Exception as error:  # each library raises its own kind
        refused[path] = f"{describe(value)} that DLPack does not hand over: {error}"
        return value
