"""References: cells that programs read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._deferred import deferred
from .value import Release, Value

if TYPE_CHECKING:
    import tvm_ffi
    from tvm.runtime import Device

    from .. import conversion, staging
    from .value import RuntimeValue
else:
    tvm_ffi = deferred("tvm_ffi")
    conversion = deferred("vmkit.values.conversion")
    staging = deferred("vmkit.values.staging")

__all__ = ["RefValue"]


class RefValue(Value):
    """A reference: a cell that programs read and write.

    Parameters
    ----------
    value
        What the cell holds: an array, a number, or what a program returned.

    Examples
    --------
    >>> RefValue(3.0).value
    3.0
    """

    __slots__ = ("_cell", "_release", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value
        self._cell: tvm_ffi.List | None = None
        self._release: Release | None = None

    @staticmethod
    def from_runtime(cell: tvm_ffi.List, release: Release | None = None) -> RefValue:
        """Return the reference over a cell of a running program."""
        reference = RefValue(None)
        reference._cell, reference._release = cell, release
        return reference

    @property
    def value(self) -> Any:
        """What the cell holds now; it is written here as long as no program has the cell."""
        return self._value if self._cell is None else conversion.from_runtime(self._cell[0], self._release)

    @value.setter
    def value(self, value: Any) -> None:
        if self._cell is not None:
            raise ValueError("a reference that a program was given is written by programs alone")
        self._value = value

    def to_runtime(self, device: Device, *, share: bool = True) -> RuntimeValue:
        """Return the cell; it is the same one each time, so that a program's writes are seen."""
        if self._cell is None:
            staged = staging.staged_any(self._value, "value", {})
            self._cell = tvm_ffi.List([conversion.to_runtime(staged, device)])
        return self._cell

    def __repr__(self) -> str:
        return f"RefValue({self.value!r})"
