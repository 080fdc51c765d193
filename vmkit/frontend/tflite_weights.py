"""Weights of TFLite files as arrays: those that are stored sparse, and those quantised for an operator of floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["dense", "widened"]


def widened(values: np.ndarray, scales: np.ndarray, zero: int, axis: int) -> np.ndarray:
    """Return in float32 what quantised numbers stand for, by one scale or one for each place of an axis.

    Raises
    ------
    ValueError
        When the scales do not fit the axis.
    """
    if scales.size != 1:
        if not 0 <= axis < values.ndim or values.shape[axis] != scales.size:
            raise ValueError(f"{scales.size} scales along axis {axis} of a weight of shape {values.shape}")
        scales = scales.reshape([-1 if at == axis else 1 for at in range(values.ndim)])
    return ((values.astype("int32") - zero) * scales.astype("float32")).astype("float32")


def dense(tensor: Any, values: np.ndarray) -> np.ndarray:  # noqa: ANN401 - of tflite
    """Return a tensor of which the file has only the elements that are not zero.

    Its levels are the axes, then the axes of blocks, in the order in which they are traversed. A level has all places
    below each place of the level before, or those that are listed: the numbers in `indices`, parted by `segments`.

    Parameters
    ----------
    tensor : tflite.Tensor
        The tensor, which has a sparsity.
    values : np.ndarray
        Its elements in the file, flat.

    Raises
    ------
    ValueError
        When the sparsity contradicts itself, the shape or the number of elements.
    """
    shape = [int(size) for size in tensor.ShapeAsNumpy()] if tensor.ShapeLength() else []
    sparsity = tensor.Sparsity()
    order = _numbers(sparsity.TraversalOrderLength(), sparsity.TraversalOrderAsNumpy)
    blocked = _numbers(sparsity.BlockMapLength(), sparsity.BlockMapAsNumpy)
    if sorted(order) != list(range(len(shape) + len(blocked))) or sparsity.DimMetadataLength() != len(order):
        raise ValueError(f"a sparsity of levels {order} for {len(shape)} axes and {len(blocked)} of blocks")
    if len({*blocked}) != len(blocked) or not {*blocked} <= {*range(len(shape))}:
        raise ValueError(f"blocks along the axes {blocked} of {len(shape)}")
    levels = [sparsity.DimMetadata(at) for at in range(len(order))]
    block = dict.fromkeys(range(len(shape)), 1)
    for at, axis in enumerate(blocked):
        block[axis] = int(levels[order.index(len(shape) + at)].DenseSize())
    if any(size < 1 or shape[axis] % size for axis, size in block.items()):
        raise ValueError(f"blocks of {[*block.values()]} in a tensor of shape {shape}")
    sizes = [shape[axis] // block[axis] for axis in range(len(shape))] + [block[axis] for axis in blocked]
    places = _places(levels, [sizes[level] for level in order], values.size)
    if len(places[0]) != values.size:
        raise ValueError(f"a sparsity of {len(places[0])} elements for {values.size}")
    at_level = dict(zip(order, places, strict=True))
    at_axis = [at_level[axis] * block[axis] for axis in range(len(shape))]
    for at, axis in enumerate(blocked):
        at_axis[axis] = at_axis[axis] + at_level[len(shape) + at]
    made = np.zeros(shape, values.dtype)
    made[tuple(at_axis)] = values
    return made


def _numbers(length: int, read: Any) -> list[int]:  # noqa: ANN401 - of tflite, which gives 0 for a vector that is not there
    return [int(number) for number in read()] if length else []


def _places(levels: Sequence[Any], sizes: Sequence[int], elements: int) -> list[np.ndarray]:
    """Return the place at each level of all of so many elements, in the order in which the file has them."""
    # Places end as elements, or are parted by segments: more of them than both would only take memory.
    listed = (_listed(level.ArraySegments(), level.ArraySegmentsType()) for level in levels if level.Format() != 0)
    most = max([elements, *map(len, listed)])
    found = [np.zeros(1, "int64")]  # of a root above the first level
    for level, size in zip(levels, sizes, strict=True):
        count = len(found[0])
        if level.Format() == 0:
            if level.DenseSize() != size:
                raise ValueError(f"a level of {level.DenseSize()} places where the tensor has {size}")
            if count * size > most:
                raise ValueError(f"a sparsity of at least {count * size} places for {elements} elements")
            below, place = np.full(count, size), np.tile(np.arange(size), count)
        else:
            ends = _listed(level.ArraySegments(), level.ArraySegmentsType())
            place = _listed(level.ArrayIndices(), level.ArrayIndicesType())
            below = np.diff(ends)
            if len(ends) != count + 1 or ends[0] != 0 or ends[-1] != len(place) or (below < 0).any():
                raise ValueError("segments of a sparse level that do not part its indices")
            grows = np.diff(place) > 0
            grows[ends[1:-1][(ends[1:-1] > 0) & (ends[1:-1] < len(place))] - 1] = True
            if ((place < 0) | (place >= size)).any() or not grows.all():
                raise ValueError(f"indices of a sparse level that are not in order, or not below {size}")
        found = [*(np.repeat(each, below) for each in found), place]
    return found[1:]


def _listed(table: Any, kind: int) -> np.ndarray:  # noqa: ANN401 - of tflite
    """Return the numbers of a vector, which the file has in one of three widths."""
    import tflite

    widths = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}
    if kind not in widths or table is None:
        raise ValueError(f"a sparse level whose numbers are of kind {kind}")
    vector = widths[kind]()
    vector.Init(table.Bytes, table.Pos)
    return np.asarray(_numbers(vector.ValuesLength(), vector.ValuesAsNumpy), "int64")
