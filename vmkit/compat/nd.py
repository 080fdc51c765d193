"""``tvm.nd``: arrays under their old names."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import tvm
from tvm.runtime import Device, Tensor, cpu, empty

from .devices import device

__all__ = ["Device", "NDArray", "array", "cpu", "device", "empty", "from_dlpack", "gpu", "numpyasarray"]

NDArray = Tensor
gpu = tvm.cuda
from_dlpack = tvm.runtime.from_dlpack


def array(value: npt.ArrayLike | Tensor, device: Device | None = None, mem_scope: str | None = None) -> Tensor:
    """Return a copy of an array, or of what numpy makes one of, on a device; by default on the CPU."""
    if isinstance(value, Tensor):
        return value.copyto(device or cpu())
    return tvm.runtime.tensor(np.asarray(value), device or cpu(), mem_scope)


def numpyasarray(value: np.ndarray) -> Tensor:
    """Return a tensor that holds a copy of a numpy array."""
    return array(value)
