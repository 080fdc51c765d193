"""Values in the three forms that they have: as a caller gives them, staged for the check of a call, in the runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    import tvm_ffi
    from tvm.runtime import Device, Tensor

    from ..._tvm.running import CObject

__all__ = ["Release", "Value"]

Release = Callable[[list[Any]], None]
"""Empties a list on a thread where dropping deeply nested values is safe."""


class Value:
    """A value that vmkit has a class of its own for. What numpy, Python and TVM have classes for is none."""

    __slots__ = ()

    def to_runtime(self, device: Device, *, share: bool = True) -> RuntimeValue:
        """Return what a program takes; `share` says whether its tensors may be over memory of the caller's arrays."""
        raise NotImplementedError

    def to_numpy(self) -> NumpyValue:
        """Return the value with every tensor in it as a numpy array."""
        return self


if TYPE_CHECKING:

    class SupportsDLPack(Protocol):
        """An array of another library."""

        def __dlpack__(self) -> Any: ...

    RuntimeValue: TypeAlias = Tensor | tvm_ffi.Array | tvm_ffi.List | tvm_ffi.Object | CObject | str | int | None
    Scalar: TypeAlias = bool | int | float | complex | np.generic
    Given: TypeAlias = (
        np.ndarray
        | Tensor
        | Value
        | tvm_ffi.Object
        | CObject
        | Scalar
        | SupportsDLPack
        | bytes
        | Sequence["Given"]
        | Mapping[Any, Any]
        | None
    )
    Staged: TypeAlias = Given  # what was refused goes on as it was given, and no further than to the error
    Result: TypeAlias = (
        Tensor
        | Value
        | tuple["Result", ...]
        | list["Result"]
        | dict[Any, Any]
        | tvm_ffi.Object
        | CObject
        | str
        | int
        | None
    )
    NumpyValue: TypeAlias = (
        np.ndarray | Value | tuple["NumpyValue", ...] | list["NumpyValue"] | dict[Any, Any] | CObject | str | int | None
    )
