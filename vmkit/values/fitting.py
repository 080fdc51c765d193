"""Arrays in another data type or rank, if every value stays what it is.

Relay's own interfaces took arguments so: an int32 array for a bool, a vector of one element for a scalar, float64 for
float32. Where a caller means just what is declared, as in :meth:`vmkit.VirtualMachine.run`, nothing of this happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tvm.runtime import Tensor

from .element_types import is_stored_type, numpy_dtype
from .kinds import TensorSpec
from .kinds.tensor import dtype_name

if TYPE_CHECKING:
    from .kinds.value import Given

__all__ = ["fits", "fitted_tensor"]


def fitted_tensor(value: Given, spec: TensorSpec, path: str, refused: dict[str, str]) -> Given:
    """Return a value for a tensor in the data type and rank that `spec` declares.

    Parameters
    ----------
    value
        An array or a tensor; numbers and lists have no data type of their own yet and get a rank alone. Anything else
        is returned as it is, as is a value that matches already.
    spec
        What is declared. One element takes the declared rank where every dimension is 1 or unknown.
    refused
        Gets a line under `path` for values that the declared data type does not hold; see :func:`fits`.
    """
    if isinstance(value, np.ndarray | Tensor | np.generic):
        if dtype_name(value.dtype) == spec.dtype:
            return value if len(value.shape) == len(spec.shape) else _ranked(value, spec)
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        # Bits of a type that numpy lacks are no numbers, and strings are none.
        if array.dtype.kind not in "biufc" or is_stored_type(spec.dtype) or spec.dtype == "bfloat16":
            return value
        if not fits(array, spec.dtype):
            refused[path] = f"dtype {value.dtype}, and not all of its values are {spec.dtype}; expected {spec}"
            return value
        return _ranked(array.astype(numpy_dtype(spec.dtype)), spec)
    if isinstance(value, bool | int | float | list | tuple):
        return _ranked(value, spec)
    return value


def _ranked(value: Given, spec: TensorSpec) -> Given:
    """Return one element in the rank of a spec, and all else as it is."""
    if isinstance(value, Tensor):
        array = value.numpy() if len(value.shape) != len(spec.shape) else None
    else:
        try:
            array = np.asarray(value)
        except ValueError:  # a list that is no array is refused where it is staged
            return value
    if array is None or array.ndim == len(spec.shape) or array.size != 1:
        return value
    if any(isinstance(dim, int) and dim != 1 for dim in spec.shape):
        return value
    shape = (1,) * len(spec.shape)
    return array.reshape(shape) if isinstance(value, np.ndarray | Tensor | np.generic) else _nested(value, shape)


def _nested(value: Given, shape: tuple[int, ...]) -> Given:
    """Return a Python number, or one in lists, in as many lists as a shape has dimensions."""
    while isinstance(value, list | tuple):
        (value,) = value
    for _ in shape:
        value = [value]
    return value


def fits(given: np.ndarray, dtype: str) -> bool:
    """Tell whether an array can be of another data type; rounding to a float's precision is the one change allowed."""
    target = numpy_dtype(dtype)
    if given.dtype.kind == "c" and target.kind != "c":
        return False
    with np.errstate(all="ignore"):
        cast = given.astype(target)
        if given.dtype.kind == "f" and target.kind not in "biu":
            return bool(np.array_equal(np.isfinite(given), np.isfinite(cast.astype("float64"))))
        back = cast.astype(given.dtype)
        # An int that wraps twice can come back as itself: its sign tells.
        return bool(np.array_equal(back, given)) and bool(np.array_equal(cast < 0, given < 0))
