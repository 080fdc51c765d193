"""Have every tensor of a machine, and every copy of an array, be an allocation of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import runtime

from vmkit.runtime import start
from vmkit.values import host_memory

__all__ = ["pytest_configure"]


def pytest_configure(config: pytest.Config) -> None:
    """Leave pools aside, which round sizes to pages, and numpy's memory, which is not allocated for vectors."""
    del config
    start._ALLOCATORS = dict.fromkeys(start._ALLOCATORS, start._ALLOCATORS["naive"])
    host_memory.aligned_empty = _allocated


class _Bytes:
    """The memory of a tensor, for numpy; of its own arrays numpy may refer to weakly, of DLPack's it may not."""

    def __init__(self, size: int) -> None:
        self._array = np.from_dlpack(runtime.empty((size,), "uint8", runtime.cpu()))
        self.__array_interface__: dict[str, Any] = self._array.__array_interface__


def _allocated(size: int) -> np.ndarray:
    return np.asarray(_Bytes(size)) if size else np.empty(0, "uint8")
