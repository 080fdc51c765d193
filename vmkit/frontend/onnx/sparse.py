"""Sparse tensors of a model as the dense arrays that they stand for."""

from __future__ import annotations

import math

import numpy as np
import onnx

from ...errors import ModelError
from .dtype import numpy_tensor

__all__ = ["dense_array"]

# A sparse tensor of a few bytes may stand for any number of elements.
_MOST_ELEMENTS = 1 << 31


def dense_array(tensor: onnx.SparseTensorProto, where: str) -> np.ndarray:
    """Return the dense array of a sparse tensor.

    Parameters
    ----------
    tensor : SparseTensorProto
        Values of shape (count,), and their positions: of shape (count,) in the flattened array, or (count, rank).
    where : str
        What to call it in messages.

    Raises
    ------
    ModelError
        When positions are out of range or not as many as the values, or the shape is too large.
    """
    values = numpy_tensor(tensor.values, f"the values of {where}")
    positions = numpy_tensor(tensor.indices, f"the indices of {where}")
    shape = tuple(tensor.dims)
    if any(d <= 0 for d in shape) or math.prod(shape) > _MOST_ELEMENTS:
        raise ModelError(f"{where} has the shape {list(shape)}")
    if values.ndim != 1 or positions.dtype != np.int64 or positions.shape[:1] != values.shape:
        raise ModelError(
            f"{where} has values of shape {list(values.shape)} and indices {positions.dtype}{list(positions.shape)}; "
            "expected (count,), and int64 (count,) or (count, rank)"
        )
    if positions.ndim == 2 and positions.shape[1] == len(shape):
        limits = np.array(shape)
    elif positions.ndim == 1:
        limits = np.array([math.prod(shape)])
        positions = positions[:, None]
    else:
        raise ModelError(f"{where} has indices of shape {list(positions.shape)} for the shape {list(shape)}")
    if positions.size and not ((positions >= 0) & (positions < limits)).all():
        raise ModelError(f"{where} has indices that are out of its shape {list(shape)}")
    dense = np.zeros(shape, values.dtype)
    if positions.shape[1] == len(shape):
        dense[tuple(positions.T)] = values
    else:
        dense.reshape(-1)[positions[:, 0]] = values
    return dense
