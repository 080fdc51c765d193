"""Tensors as they stand in a program: numbers in lists where people read them, else the bytes."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from tvm.runtime import Tensor

from .syntax import call, text

__all__ = ["literal"]

_MOST_READ = 64
_PLAIN = {"bool", "float16", "float32", "float64", *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64))}


def literal(tensor: Tensor) -> ast.expr:
    """Return the expression that makes a tensor of the same data type, shape and values."""
    dtype, array = str(tensor.dtype), tensor.numpy()
    shape = ast.Tuple([ast.Constant(int(d)) for d in array.shape], ast.Load())
    if dtype in _PLAIN and 0 < array.size <= _MOST_READ and bool(np.isfinite(array).all()):
        return call("tensor", _nested(array.tolist()), text(dtype), shape)
    return call("tensor", ast.Constant(np.ascontiguousarray(array).tobytes()), text(dtype), shape)


def _nested(value: float | list[Any]) -> ast.expr:
    if isinstance(value, list):
        return ast.List([_nested(each) for each in value], ast.Load())
    return ast.Constant(value)
