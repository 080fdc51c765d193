"""Graphs run as TVM's graph executor does, and the tensors that packed functions take."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

__all__ = ["DLTensor", "call", "run"]


class DLTensor(ctypes.Structure):
    """As DLPack and TVM's C runtime have it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


def call(function: Any, tensors: list[DLTensor]) -> int:
    """Call a packed function."""
    values = (ctypes.c_void_p * len(tensors))(*[ctypes.addressof(tensor) for tensor in tensors])
    return int(function(values, None, len(tensors), None, None, None))


def run(
    graph: dict[str, Any], library: ctypes.CDLL, given: dict[str, np.ndarray], sizes: list[int]
) -> list[np.ndarray]:
    """Run a graph as TVM's graph executor does."""
    attrs = {name: values for name, (_, values) in graph["attrs"].items()}
    memories = [np.zeros(size, "uint8") for size in sizes]

    def row(entry: list[int]) -> int:
        return int(graph["node_row_ptr"][entry[0]] + entry[1])

    def array(place: int) -> np.ndarray:
        dtype, shape = np.dtype(attrs["dltype"][place]), attrs["shape"][place]
        return memories[attrs["storage_id"][place]][: int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)

    for number, node in enumerate(graph["nodes"]):
        if node["op"] == "null":
            array(row([number, 0]))[...] = given[node["name"]]
            continue
        outputs = [row([number, k]) for k in range(int(node["attrs"]["num_outputs"]))]
        tensors = [DLTensor(array(p).ctypes.data) for p in (*map(row, node["inputs"]), *outputs)]
        assert call(getattr(library, node["attrs"]["func_name"]), tensors) == 0
    return [array(row(head)).copy() for head in graph["heads"]]
