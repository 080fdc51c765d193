"""Tensors of element types that no kernel computes in, as a caller sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tvm
from tvm.runtime import Device, Tensor

from .._tvm import tensor_view
from .element_types import STORED, from_stored, stored_type, to_stored
from .host_memory import to_tensor
from .kinds.value import Value
from .texts import StringTensor, call_texts

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["StoredTensor", "as_stored", "restored_tensor"]


class StoredTensor(Value):
    """A tensor of an element type that is stored as another, such as ``int4``: what a program returned.

    It reads like a tensor: :meth:`numpy` gives its values, and a program takes it as an input.

    Parameters
    ----------
    stored
        The tensor that holds it.
    dtype
        Its element type.

    Examples
    --------
    >>> StoredTensor(tvm.runtime.tensor(np.array([-8, 7], "int8")), "int4").numpy()
    array([-8, 7], dtype=int4)
    """

    __slots__ = ("dtype", "stored")

    def __init__(self, stored: Tensor, dtype: str) -> None:
        self.stored = stored
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims."""
        return tuple(self.stored.shape)

    @property
    def device(self) -> Device:
        """Where the tensor is."""
        return self.stored.device

    def numpy(self) -> np.ndarray:
        """Return the values as an array of the type that ``ml_dtypes`` has for them."""
        return from_stored(self.stored.numpy(), self.dtype)

    def to_runtime(self, device: Device, *, share: bool = True) -> Tensor:
        return to_tensor(self.stored, device)

    def to_numpy(self) -> np.ndarray:
        return self.numpy()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"StoredTensor({self.dtype}{list(self.shape)})"


def restored_tensor(tensor: Tensor, dtype: str) -> StoredTensor | StringTensor:
    """Return what a program gave for a tensor of a type that is stored as another, as a tensor of that type."""
    if dtype == "string":
        return StringTensor.over(call_texts().listed(tensor), tuple(tensor.shape))
    return StoredTensor(tensor, dtype)


def as_stored(tensor: Tensor) -> Tensor:
    """Return a tensor as programs store its element type; TVM packs what has less than 8 bits, programs do not."""
    dtype = str(tensor.dtype)
    if dtype not in STORED:
        return tensor
    if tvm.runtime.DataType(dtype).bits == 8:
        return tensor_view(tensor, tensor.shape, stored_type(dtype))
    return tvm.runtime.tensor(to_stored(tensor.numpy()))
