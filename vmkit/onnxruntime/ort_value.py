"""Values with a place in memory, and devices: onnxruntime's OrtValue and OrtDevice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm.runtime import Tensor

from .._dataclasses import dataclass
from .._tvm.running import from_dlpack
from ..target.devices import device as find_device
from ..values.conversion import StoredTensor, StringTensor, to_numpy
from ..values.element_types import is_stored_type, numpy_dtype
from .coverage import with_refused_members
from .element_kinds import dtype_of, element_type_of, type_of_tensor
from .enumerations import OrtDeviceVendorId
from .errors import ArgumentTypeError, Fail, InvalidArgument, told_as_kinds

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["OrtDevice", "OrtValue", "copy_tensors", "find_memory"]

_DEVICE_TYPES = {"cpu": 0, "cuda": 1, "gpu": 1}
_VENDORS = {"cuda": OrtDeviceVendorId.NVIDIA}


@dataclass(frozen=True)
class OrtDevice:
    """A device: its name and its number; made by :meth:`make`."""

    name: str
    number: int = 0
    vendor: int = 0

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """Return the device of a name, ``"cpu"`` or ``"cuda"``, and a number."""
        if ort_device_name not in _DEVICE_TYPES:
            raise InvalidArgument(f"unknown device {ort_device_name!r}, expected one of {', '.join(_DEVICE_TYPES)}")
        vendor = int(_VENDORS.get(ort_device_name, 0)) if vendor_id < 0 else int(vendor_id)
        return OrtDevice(ort_device_name, int(device_id), vendor)

    def device_id(self) -> int:
        """Return which device of its kind it is."""
        return self.number

    def device_type(self) -> int:
        """Return onnxruntime's number of its kind: 0 for the CPU, 1 for a GPU."""
        return _DEVICE_TYPES[self.name]

    def device_vendor_id(self) -> int:
        """Return whose it is, a number of :class:`OrtDeviceVendorId`."""
        return self.vendor

    def device_mem_type(self) -> int:
        """Return what its memory is for: 0, for anything."""
        return 0


def find_memory(device_type: str, device_id: int = 0) -> tvm.runtime.Device:
    """Return the device where a caller wants a value; EPFail where there is none."""
    with told_as_kinds():
        return find_device(f"{str(device_type).lower()}:{device_id}")


@with_refused_members
class OrtValue:
    """A value: a tensor on a device, a list of tensors, a map, or nothing.

    On the CPU the memory of a numpy array, or of what DLPack hands over, is taken as it is.

    Parameters
    ----------
    value
        What it holds: a numpy array, a tensor of TVM, or what a program returned.

    Examples
    --------
    >>> value = OrtValue.ortvalue_from_numpy(np.ones((2, 3), "float32"))
    >>> value.shape(), value.data_type(), value.device_name()
    ([2, 3], 'tensor(float)', 'cpu')
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Return an array as a value, on the CPU over its own memory, if it is contiguous."""
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "OSUT":
            what = f"of {numpy_obj.dtype}" if isinstance(numpy_obj, np.ndarray) else type(numpy_obj).__name__
            raise ArgumentTypeError(f"an OrtValue is made from an array of numpy, not of strings; got {what}")
        memory = find_memory(device_type, device_id)
        array = np.ascontiguousarray(numpy_obj).reshape(numpy_obj.shape)
        return cls(array if memory == tvm.cpu() else tvm.runtime.tensor(array, memory))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> OrtValue:
        """Return an array as a value of another data type of the same size, its bits taken as they are."""
        dtype = numpy_dtype(dtype_of(int(onnx_element_type)))
        if dtype.itemsize != data.dtype.itemsize:
            raise InvalidArgument(f"elements of {data.dtype} have another size than those of {dtype}")
        return cls.ortvalue_from_numpy(np.ascontiguousarray(data).view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: object,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Return a tensor whose elements are not set, at an address where programs write results without a copy.

        Parameters
        ----------
        element_type
            A data type of numpy, or ONNX's number of one.
        """
        dtype = dtype_of(element_type)
        if dtype == "string":
            raise InvalidArgument("strings have no memory to be set aside; bind the output without a value")
        memory = find_memory(device_type, device_id)
        if is_stored_type(dtype) and memory == tvm.cpu():
            return cls(np.empty(tuple(shape), numpy_dtype(dtype)))
        return cls(tvm.runtime.empty(tuple(shape), dtype, memory))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """Return a tensor of another library as a value over its memory."""
        with told_as_kinds():
            try:
                return cls(data if isinstance(data, Tensor) else from_dlpack(data))
            except (TypeError, AttributeError, BufferError) as error:
                raise ArgumentTypeError(f"DLPack does not hand over a {type(data).__name__}: {error}") from error

    @property
    def value(self) -> Any:
        """What it holds, as a program takes it."""
        return self._value

    @property
    def target(self) -> Tensor | None:
        """The tensor that a program may write to; None for memory that DLPack does not hand over, or is not one."""
        if isinstance(self._value, Tensor):
            return self._value
        try:
            return from_dlpack(self._value) if isinstance(self._value, np.ndarray) else None
        except (BufferError, RuntimeError):
            return None

    def _tensor(self) -> Any:
        if not self.is_tensor():
            raise Fail(f"the OrtValue holds a {type(self._value).__name__}, and not a tensor")
        return self._value

    @property
    def _dtype(self) -> str:
        dtype = self._tensor().dtype
        return "string" if isinstance(dtype, np.dtype) and dtype.kind in "OSUT" else str(dtype)

    def shape(self) -> list[int]:
        """Return the sizes of the dimensions."""
        return [int(size) for size in self._tensor().shape]

    def element_type(self) -> int:
        """Return ONNX's number of the data type."""
        return element_type_of(self._dtype)

    def data_type(self) -> str:
        """Return the type, such as ``tensor(float)``."""
        return _type_of_value(self._value)

    def device_name(self) -> str:
        """Return where it is: ``cpu`` or ``cuda``."""
        return str(self._value.device).partition(":")[0] if isinstance(self._value, Tensor) else "cpu"

    def data_ptr(self) -> int:
        """Return the address of the elements."""
        value = self._tensor()
        if isinstance(value, np.ndarray):
            return int(value.ctypes.data)
        if isinstance(value, Tensor) and value.device == tvm.cpu():
            return int(np.from_dlpack(value).ctypes.data)
        raise Fail(f"the address of a {type(value).__name__} on {self.device_name()} is not known here; use DLPack")

    def tensor_size_in_bytes(self) -> int:
        """Return how many bytes the elements take."""
        return int(np.prod(self.shape(), dtype=np.int64)) * numpy_dtype(self._dtype).itemsize

    def has_value(self) -> bool:
        """Say whether there is a value; an optional output may have none."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Say whether it is a tensor."""
        return isinstance(self._value, np.ndarray | Tensor | StoredTensor | StringTensor)

    def is_sparse_tensor(self) -> bool:
        """Say whether it is a sparse tensor: never."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Say whether it is a list of tensors."""
        return isinstance(self._value, list) and not any(isinstance(item, dict) for item in self._value)

    def numpy(self) -> np.ndarray:
        """Return a tensor as an array with memory of its own."""
        return np.array(to_numpy(self._tensor()))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def to_dlpack(self) -> object:
        """Return a capsule of DLPack over the memory."""
        return self.__dlpack__()

    def __dlpack__(self, **options: Any) -> object:
        return self._tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._tensor().__dlpack_device__()
        return int(kind), int(number)

    def update_inplace(self, data: np.ndarray | OrtValue) -> None:
        """Write other elements, of the same data type and shape, into the memory of the value."""
        given = data.value if isinstance(data, OrtValue) else data
        if not isinstance(given, np.ndarray | Tensor):
            raise ArgumentTypeError(f"data is a {type(data).__name__}, expected an array of numpy or an OrtValue")
        own = self._tensor()
        if str(given.dtype) != self._dtype or list(given.shape) != self.shape():
            raise InvalidArgument(
                f"the value is {self._dtype}{self.shape()}, but the data {given.dtype}{list(given.shape)}"
            )
        if isinstance(own, np.ndarray):
            np.copyto(own, given if isinstance(given, np.ndarray) else given.numpy())
        elif isinstance(given, Tensor):
            given.copyto(own)
        else:
            own.copyfrom(np.ascontiguousarray(given))


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: None = None) -> None:
    """Copy the elements of each value of one list into the value of the other."""
    if stream is not None:
        raise InvalidArgument("copies are made on the device's current stream; pass no other")
    if len(src) != len(dst):
        raise InvalidArgument(f"{len(src)} values to copy, but {len(dst)} to copy them to")
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source)


def _type_of_value(value: Any) -> str:
    match value:
        case None:
            return ""
        case list():
            return f"seq({_type_of_value(value[0]) if value else ''})"
        case dict():
            key, item = next(iter(value.items()), (0, 0.0))
            return f"map({'string' if isinstance(key, str) else 'int64'},{_type_of_value(np.asarray(item))})"
        case np.ndarray() if value.dtype.kind in "OSUT":
            return type_of_tensor("string")
    return type_of_tensor(str(value.dtype))
