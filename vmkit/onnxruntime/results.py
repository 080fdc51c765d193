"""Results as arrays that are the caller's own, copied only where they have to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm.runtime import Tensor

from ..runtime.machine import VirtualMachine

__all__ = ["Owned"]

# Larger results are looked at before they are copied; a machine keeps no larger constant in memory that is not known.
_SMALL = 1 << 18


class Owned:
    """Results of a call without memory that is anyone else's: the caller's, the program's, or another result's."""

    def __init__(self, machine: VirtualMachine, values: Sequence[Any]) -> None:
        self._machine = machine
        self._values = values
        self._seen: list[np.ndarray] = []

    def copied(self, value: Any) -> Any:
        """Return a result, copied where it has to be."""
        if isinstance(value, list | tuple):
            return [self.copied(item) for item in value]
        if not isinstance(value, np.ndarray) or value.dtype == object:
            return value
        if value.nbytes <= _SMALL or not value.flags.writeable or self._is_shared(value):
            return np.array(value)
        self._seen.append(value)
        return value

    def kept(self, value: Any) -> Any:
        """Return a result as the tensor that it is, copied where it has to be."""
        if not isinstance(value, Tensor) or value.device != tvm.cpu():
            return value
        memory = np.from_dlpack(value)
        if not memory.flags.writeable or memory.nbytes <= _SMALL or self._is_shared(memory):
            return np.array(memory)
        self._seen.append(memory)
        return value

    def _is_shared(self, value: np.ndarray) -> bool:
        given = [array for array in map(_memory, self._values) if array is not None]
        shares = any(np.may_share_memory(value, other) for other in (*given, *self._seen))
        return shares or any(np.may_share_memory(value, constant) for constant in self._constants())

    def _constants(self) -> list[np.ndarray]:
        constants = self._machine.executable.program.constants
        datas = (getattr(constant, "data", b"") for constant in constants)
        return [np.frombuffer(data, np.uint8) for data in datas if len(data) > _SMALL]


def _memory(value: Any) -> np.ndarray | None:
    """Return the memory of a value that was fed, where results may be in it."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Tensor) and value.device == tvm.cpu():
        return np.from_dlpack(value)
    return None
