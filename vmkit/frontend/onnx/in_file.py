"""Tensors whose elements lie in a file as numpy has them in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper

from ..._dataclasses import dataclass

__all__ = ["InFile"]


@dataclass(frozen=True)
class InFile:
    """The elements of a tensor in a file.

    Attributes
    ----------
    file : Path
    offset : int
        Where the first byte is.
    data_type : int
        ONNX's element type, one whose elements are whole bytes.
    shape : tuple of int
    """

    file: Path
    offset: int
    data_type: int
    shape: tuple[int, ...]

    def array(self) -> np.ndarray:
        """Return the tensor, read-only, over the file's own pages."""
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(self.data_type))
        count = int(np.prod(self.shape, dtype=object)) * dtype.itemsize
        if count == 0:
            return np.empty(self.shape, dtype)
        # Mapped as bytes, since not every type of ml_dtypes can be asked for by a map.
        raw = np.memmap(self.file, np.uint8, "r", self.offset, (count,))
        return np.asarray(raw).view(dtype).reshape(self.shape)
