"""Numbers and arrays as tensors, with the data types that Relay gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm.runtime import Tensor

from ..errors import InputError
from .element_types import numpy_dtype
from .host_memory import copied
from .kinds.spec import describe

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["as_tensor", "as_tensors"]

_OF_PYTHON = {"i": "int32", "u": "int32", "f": "float32", "b": "bool"}


def as_tensor(value: ArrayLike | Tensor, dtype: str | None = None) -> Tensor:
    """Return a number, nested numbers, an array or a tensor as a tensor on the CPU.

    Parameters
    ----------
    value : bool, int, float, sequence, numpy.ndarray or tvm.runtime.Tensor
        The value. An array keeps its own data type unless `dtype` is given; Python integers become int32, floats
        float32 and booleans bool. A tensor of the wanted type is shared, not copied.
    dtype : str, optional
        The data type wanted; as ``"bool"``, every number but 0 is true.

    Raises
    ------
    TypeError
        When the value is no tensor, an integer does not fit `dtype`, or that is a type of strings.
    """
    if isinstance(value, tvm.runtime.Tensor):
        if dtype is None or str(value.dtype) == dtype:
            return value
        value = value.numpy()
    if dtype is None:
        dtype = _default_dtype(value)
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"a constant must be a number or an array of numbers, not {type(value).__name__}")
    # numpy's form of it is a pointer to an object.
    if dtype == "string":
        raise TypeError(f"data type {dtype!r} not understood")
    converted = array.astype(numpy_dtype(dtype), copy=False)
    # Any number is a truth value.
    if isinstance(value, int) and dtype != "bool" and int(converted) != int(value):
        raise TypeError(f"the value {value} does not fit {dtype}; pass a wider dtype")
    return copied(converted)


def as_tensors(params: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return arrays, tensors and numbers as tensors by name.

    Raises
    ------
    InputError
        Listing all values that are none of these.
    """
    if not isinstance(params, Mapping):
        raise InputError(f"params map names to arrays, got {describe(params)}")
    tensors, problems = {}, []
    for name, value in params.items():
        try:
            # A constant of a program is its tensor.
            tensors[str(name)] = as_tensor(getattr(value, "data", value) if isinstance(value, tvm.ir.Expr) else value)
        except (TypeError, ValueError, OverflowError) as error:
            problems.append(f"  {name}: {describe(value)} is no tensor: {error}")
    if problems:
        raise InputError("\n".join([f"{len(problems)} of the params cannot be used", *problems]))
    return tensors


def _default_dtype(value: ArrayLike) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return str(value.dtype)
    array = np.asarray(value)
    return _OF_PYTHON.get(array.dtype.kind, str(array.dtype))
