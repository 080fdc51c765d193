"""Values that are known while a model is imported: numpy arrays, some with symbolic integers in them.

The arithmetic that a model does on shapes is done at import, so that no shape tensor is left at run time. A constant is
a numpy array; what involves a symbolic dimension is an object array of ints and expressions. Truth values are 0 and 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...relay.ir import Constant, Expr, TensorType, dims, is_call
from ...relay.op import build
from ...relay.op.storage import array_constant, array_value

__all__ = ["constant", "is_symbolic", "known_value", "sizes", "value_of"]


def constant(array: np.ndarray) -> Expr:
    """Return the Relay expression of an array."""
    return array_constant(array)


def sizes(values: Any, dtype: str = "int64") -> Expr:
    """Return the Relay expression of an array of ints and symbolic integers: a constant if all of them are ints."""
    array = np.asarray(values, dtype=object)
    if all(isinstance(v, int) for v in array.ravel().tolist()):
        return constant(array.astype(dtype))
    expr = build("size_tensor", values=array.ravel().tolist(), shape=list(array.shape), dtype=dtype)
    expr.checked_type_ = TensorType(list(array.shape), dtype)
    return expr


def value_of(constant: Constant) -> np.ndarray:
    """Return the array that a constant holds, without a copy where numpy can share the memory."""
    value = array_value(constant)
    assert value is not None
    return value


def is_symbolic(expr: Any) -> bool:
    """Say whether an expression is an array with symbolic integers in it."""
    return is_call(expr, "size_tensor")


def known_value(expr: Any) -> np.ndarray | None:
    """Return the value of an expression, as an object array if symbolic integers are in it; None if it is not known."""
    value = array_value(expr)
    if value is not None:
        return value
    if is_symbolic(expr):
        shape = [int(d) for d in expr.attrs.shape]
        array = np.empty(len(expr.attrs.values), dtype=object)
        array[:] = [dims.simplify(v) for v in expr.attrs.values]
        return array.reshape(shape)
    return None
