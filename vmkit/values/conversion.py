"""Python values to runtime values and back.

Going in there are two steps. :func:`stage` turns what a caller passes into arrays and tuples of them, without copying
arrays, so that a signature can check them. :func:`to_runtime` then makes tensors on the device of the program. On the
CPU that is free for an array that is C-contiguous, writable, of native byte order and 64-byte aligned; any other is
copied. Where a program's kernels expect less of an address, :mod:`vmkit.values.host_memory` spares arrays that copy.

Coming out, tensors stay tensors, tuples become tuples and ADT values become :class:`ADT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import tvm
import tvm_ffi
from tvm.runtime import Device, Tensor

from .._tvm import CObject, tensor_view
from .element_types import STORED, from_stored, is_stored_type, numpy_dtype, stored_type, to_stored
from .host_memory import copied, to_tensor
from .signature import (
    AnySpec,
    DataSpec,
    OptionalSpec,
    SequenceSpec,
    Spec,
    TensorSpec,
    TupleSpec,
    UnrankedSpec,
    describe,
)
from .texts import StringTensor, call_texts

__all__ = [
    "ADT",
    "RefValue",
    "Release",
    "StoredTensor",
    "StringTensor",
    "from_runtime",
    "holds_adt",
    "holds_strings",
    "restored",
    "restores",
    "stage",
    "to_numpy",
    "to_runtime",
]

_array_item = tvm_ffi.get_global_func("ffi.ArrayGetItem")
Release = Callable[[list[Any]], None]
"""Empties a list on a thread where dropping deeply nested values is safe."""
_Scalar = bool | int | float | complex | np.generic


class ADT(Sequence[Any]):
    """A value of an algebraic data type: the tag of its constructor and its fields.

    Fields are converted when they are asked for, so that a long list costs nothing until it is walked. Equality is
    identity, as for tensors.

    Examples
    --------
    >>> pair = ADT(1, [2.0, 3.0])
    >>> pair.tag, len(pair), pair[-1]
    (1, 2, 3.0)
    """

    __slots__ = ("_fields", "_release", "_runtime", "tag")

    def __init__(self, tag: int, fields: Sequence[Any] = ()) -> None:
        self.tag = int(tag)
        self._fields: tuple[Any, ...] | None = tuple(fields)
        self._runtime: tvm_ffi.Array | None = None
        self._release: Release | None = None

    @staticmethod
    def from_runtime(array: tvm_ffi.Array, release: Release | None = None) -> ADT:
        """Return the ADT value of an array ``[tag, *fields]``.

        `release` is given the array in a list when this value goes, and empties it where the stack is deep: a list
        of 200,000 elements is an array nested as deep, and TVM drops it by recursion.
        """
        value = ADT(array[0])
        value._fields, value._runtime, value._release = None, array, release
        return value

    def __del__(self) -> None:
        if self._release is not None and self._runtime is not None:
            # The list must be the only owner by the time it is emptied.
            owned, self._runtime = [self._runtime], None
            self._release(owned)

    @property
    def runtime(self) -> tvm_ffi.Array | None:
        """The array that a program returned, or None for a value made in Python."""
        return self._runtime

    @property
    def fields(self) -> tuple[Any, ...]:
        """The fields as Python values."""
        if self._fields is None:
            self._fields = tuple(from_runtime(field, self._release) for field in list(self._runtime or ())[1:])
        return self._fields

    def __len__(self) -> int:
        return len(self.fields)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self.fields[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields)

    def __repr__(self) -> str:
        return f"ADT(tag={self.tag}, {len(self)} fields)"


class RefValue:
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
        """What the cell holds now."""
        return self._value if self._cell is None else from_runtime(self._cell[0], self._release)

    def items(self) -> list[Any]:
        """Return all that a list of a running program holds; a reference is one of a single element."""
        cell = self._cell if self._cell is not None else [self._value]
        return [from_runtime(item, self._release) for item in cell]

    def runtime(self, device: Device) -> tvm_ffi.List:
        """Return the cell; it is the same one each time, so that a program's writes are seen."""
        if self._cell is None:
            self._cell = tvm_ffi.List([to_runtime(_stage_any(self._value, "value", {}), device)])
        return self._cell

    def __repr__(self) -> str:
        return f"RefValue({self.value!r})"


class StoredTensor:
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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"StoredTensor({self.dtype}{list(self.shape)})"


def restores(spec: Spec) -> bool:
    """Tell whether the runtime's form of a value that `spec` describes is not what a caller is given."""
    if isinstance(spec, TupleSpec):
        return any(restores(field) for field in spec.fields)
    if isinstance(spec, SequenceSpec | OptionalSpec):
        return True
    return isinstance(spec, TensorSpec) and is_stored_type(spec.dtype)


def restored(value: Any, spec: Spec) -> Any:
    """Return a result of :func:`from_runtime` as `spec` declares it.

    Tensors whose element type is stored as another are :class:`StoredTensor`, sequences lists, and optional values
    what they hold, or None.
    """
    match spec:
        case TupleSpec() if isinstance(value, tuple):
            return tuple(restored(item, field) for item, field in zip(value, spec.fields, strict=True))
        case SequenceSpec():
            return [restored(item, spec.element) for item in value.items()]
        case OptionalSpec():
            held = value.items()
            return restored(held[0], spec.element) if held else None
        case TensorSpec() if is_stored_type(spec.dtype) and isinstance(value, Tensor):
            if spec.dtype == "string":
                return StringTensor(call_texts().read(value.numpy()))
            return StoredTensor(value, spec.dtype)
    return value


def stage(value: Any, spec: Spec, path: str, refused: dict[str, str]) -> Any:
    """Return `value` as something a signature can check: arrays, and tuples of them.

    Python scalars and lists take the dtype that `spec` declares, if no value changes by that; where `spec` declares
    none, bools and ints become int32 and other numbers float32, as in Relay. Arrays are not converted. What cannot
    be staged is described in `refused` under its path.
    """
    match spec:
        case TupleSpec():
            if isinstance(value, ADT) or not isinstance(value, tuple | list | tvm_ffi.Array):
                return value
            if len(value) != len(spec.fields):
                return tuple(value)
            pairs = enumerate(zip(value, spec.fields, strict=True))
            return tuple(stage(item, field, f"{path}[{index}]", refused) for index, (item, field) in pairs)
        case SequenceSpec():
            if isinstance(value, ADT) or not isinstance(value, tuple | list | tvm_ffi.Array | tvm_ffi.List):
                return value
            below = (stage(item, spec.element, f"{path}[{index}]", refused) for index, item in enumerate(value))
            return _Elements(below)
        case OptionalSpec():
            return _Elements(() if value is None else (stage(value, spec.element, path, refused),))
        case UnrankedSpec():
            return _stage_tensor(value, TensorSpec("", spec.dtype, ()), path, refused)
        case TensorSpec():
            return _stage_tensor(value, spec, path, refused)
        case AnySpec() | DataSpec():
            return _stage_any(value, path, refused)


class _Elements(tuple[Any, ...]):
    """A staged sequence, or an optional value: to a program, a list."""


def holds_adt(value: Any) -> bool:
    """Tell whether a staged value is an ADT value or a tuple with one in it."""
    if isinstance(value, tuple):
        return any(holds_adt(item) for item in value)
    return isinstance(value, ADT | tvm_ffi.Array)


def _stage_tensor(value: Any, spec: TensorSpec, path: str, refused: dict[str, str]) -> Any:
    if spec.dtype == "string":
        return _stage_strings(value, spec, path, refused)
    if isinstance(value, np.ndarray | Tensor | StoredTensor):
        return value
    if isinstance(value, _Scalar | list | tuple) and not isinstance(value, str | bytes):
        return _cast(value, spec.dtype, path, refused, str(spec))
    if hasattr(value, "__dlpack__"):
        return _import(value, path, refused)
    refused[path] = f"{describe(value)}, expected {spec}"
    return value


def _stage_strings(value: Any, spec: TensorSpec, path: str, refused: dict[str, str]) -> Any:
    if isinstance(value, StringTensor):
        return value
    try:
        if isinstance(value, np.ndarray | list | tuple | str | bytes):
            return StringTensor(value)
    except ValueError as error:
        refused[path] = f"{error}; expected {spec}"
        return value
    refused[path] = f"{describe(value)}, expected {spec}: an array of objects that are str"
    return value


def _stage_any(value: Any, path: str, refused: dict[str, str]) -> Any:
    if isinstance(value, tvm_ffi.Array) and len(value) and type(value[0]) is int:
        return ADT.from_runtime(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSUT":
        return _stage_strings(value, TensorSpec("", "string", ()), path, refused)
    if isinstance(value, np.ndarray | Tensor | StoredTensor | StringTensor | str | ADT | RefValue) or value is None:
        return value
    if isinstance(value, tvm_ffi.Object):
        return value
    if isinstance(value, tuple | list):
        return tuple(_stage_any(item, f"{path}[{index}]", refused) for index, item in enumerate(value))
    if isinstance(value, _Scalar):
        return _cast(value, _relay_dtype(value), path, refused, _relay_dtype(value))
    if hasattr(value, "__dlpack__"):
        return _import(value, path, refused)
    if isinstance(value, CObject):
        return value
    refused[path] = f"{describe(value)}, which is not a value of a program: expected arrays, numbers, tuples of them"
    return value


def _relay_dtype(value: Any) -> str:
    if isinstance(value, np.float16):
        return "float16"
    return "int32" if isinstance(value, bool | int | np.bool_ | np.integer) else "float32"


def _cast(value: Any, dtype: str, path: str, refused: dict[str, str], expected: str) -> Any:
    """Return a scalar or list as an array of `dtype`; rounding to a float's precision is the one change allowed."""
    try:
        given = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        refused[path] = f"{describe(value)} that is no array ({error}), expected {expected}"
        return value
    if given.dtype.kind not in "biufc" or not _fits(given, dtype):
        said = repr(value)
        said = said if len(said) <= 60 else f"{said[:57]}..."
        refused[path] = f"{said} does not fit {dtype}, expected {expected}"
        return value
    return given.astype(numpy_dtype(dtype))


def _fits(given: np.ndarray, dtype: str) -> bool:
    target = numpy_dtype(dtype)
    if given.dtype.kind == "c" and target.kind != "c":
        return False
    with np.errstate(all="ignore"):
        cast = given.astype(target)
        if given.dtype.kind == "f" and target.kind not in "biu":
            return bool(np.array_equal(np.isfinite(given), np.isfinite(cast.astype("float64"))))
        back = cast.astype(given.dtype)
        # An int that wraps twice can come back as itself: its sign tells.
        return bool(np.array_equal(back, given)) and bool(np.array_equal(cast < 0, given < 0))


def _import(value: Any, path: str, refused: dict[str, str]) -> Any:
    try:
        return tvm_ffi.from_dlpack(value)
    except Exception as error:  # each library raises its own kind
        refused[path] = f"{describe(value)} that DLPack does not hand over: {error}"
        return value


def holds_strings(value: Any) -> bool:
    """Tell whether a staged value is a tensor of strings or a tuple with one in it."""
    if isinstance(value, tuple):
        return any(holds_strings(item) for item in value)
    return isinstance(value, StringTensor)


def to_runtime(value: Any, device: Device, *, share: bool = True) -> Any:
    """Return a staged value as the runtime takes it, with every tensor on `device`.

    Parameters
    ----------
    share
        Whether the tensor of a numpy array may share the array's memory.
    """
    if isinstance(value, np.ndarray):
        value = to_stored(value)
        return to_tensor(value if share else copied(value), device)
    if isinstance(value, StoredTensor):
        return to_tensor(value.stored, device)
    if isinstance(value, StringTensor):
        return to_tensor(value.stored(), device)
    if isinstance(value, Tensor):
        return to_tensor(_as_stored(value), device)
    if isinstance(value, ADT):
        return _adt_to_runtime(value, device)
    if isinstance(value, RefValue):
        return value.runtime(device)
    if isinstance(value, _Elements):
        return tvm_ffi.List([to_runtime(item, device, share=share) for item in value])
    if isinstance(value, tuple | tvm_ffi.Array):
        return tvm_ffi.Array([to_runtime(item, device, share=share) for item in value])
    if value is None:
        return to_tensor(np.empty((0,), "float32"), device)
    return value


def _as_stored(tensor: Any) -> Tensor:
    """Return a tensor as programs store its element type; TVM packs what has less than 8 bits, programs do not."""
    dtype = str(tensor.dtype)
    if dtype not in STORED:
        return tensor
    if tvm.DataType(dtype).bits == 8:
        return tensor_view(tensor, tensor.shape, stored_type(dtype))
    return tvm.runtime.tensor(to_stored(tensor.numpy()))


def _adt_to_runtime(value: ADT, device: Device) -> tvm_ffi.Array:
    """Return an ADT value as an array; by a stack, because a list in Python nests as deep as it is long."""
    stack: list[tuple[ADT, list[Any]]] = [(value, [value.tag])]
    while True:
        node, done = stack[-1]
        if node.runtime is not None:
            result = node.runtime
        elif len(done) - 1 < len(node):
            field = node[len(done) - 1]
            if isinstance(field, ADT):
                stack.append((field, [field.tag]))
            else:
                done.append(to_runtime(_stage_any(field, "field", {}), device))
            continue
        else:
            result = tvm_ffi.Array(done)
        stack.pop()
        if not stack:
            return result
        stack[-1][1].append(result)


def from_runtime(value: Any, release: Release | None = None) -> Any:
    """Return what a program returned: tensors as they are, tuples as tuples, ADT values as :class:`ADT`."""
    if isinstance(value, tvm_ffi.Array):
        # Array's own iterator asks for the size before each item.
        items = [_array_item(value, index) for index in range(len(value))]
        if items and type(items[0]) is int:
            return ADT.from_runtime(value, release)
        return tuple([item if type(item) is Tensor else from_runtime(item, release) for item in items])
    if isinstance(value, tvm_ffi.List):
        return RefValue.from_runtime(value, release)
    return value


def to_numpy(value: Any) -> Any:
    """Return `value` with every tensor in it as a numpy array, sharing memory where the device is the CPU."""
    if isinstance(value, Tensor):
        try:
            return np.from_dlpack(value)
        except (RuntimeError, BufferError):
            return value.numpy()
    if isinstance(value, StoredTensor | StringTensor):
        return value.numpy()
    if isinstance(value, ADT):
        return ADT(value.tag, [to_numpy(field) for field in value])
    if isinstance(value, list):
        return [to_numpy(item) for item in value]
    if isinstance(value, tuple | tvm_ffi.Array):
        return tuple(to_numpy(item) for item in value)
    return value
