"""What becomes of Python values at the edge of the machine."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi

from vmkit.values.conversion import ADT, from_runtime, to_numpy, to_runtime
from vmkit.values.host_memory import to_tensor
from vmkit.values.signature import AnySpec, TensorSpec, TupleSpec

CPU = tvm.cpu()
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
]  # fmt: skip


def at_offset(offset: int, shape: tuple[int, ...] = (64, 64), dtype: str = "float32") -> np.ndarray:
    """Return an array whose data starts `offset` bytes after a 64-byte boundary."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(count + 128, "uint8")
    start = -memory.ctypes.data % 64 + offset
    array = memory[start : start + count].view(dtype).reshape(shape)
    array[...] = np.arange(array.size).reshape(shape)
    return array


def staged(value: Any, spec: Any) -> Any:
    refused: dict[str, str] = {}
    result = spec.stage(value, "x", refused)
    assert refused == {}
    return result


def refusal(value: Any, spec: Any) -> dict[str, str]:
    refused: dict[str, str] = {}
    spec.stage(value, "x", refused)
    return refused


def scalar(dtype: str) -> TensorSpec:
    return TensorSpec("x", dtype, ())


def test_an_aligned_array_is_not_copied() -> None:
    array = at_offset(0)
    tensor = to_tensor(array, CPU)
    assert tensor.data_ptr() == array.ctypes.data


@pytest.mark.parametrize("offset", [1, 2, 4, 8, 16, 32])
def test_a_misaligned_array_is_copied_to_aligned_memory(offset: int) -> None:
    array = at_offset(offset)
    tensor = to_tensor(array, CPU)
    assert tensor.data_ptr() % 64 == 0
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_a_tensor_keeps_the_array_alive() -> None:
    array = at_offset(0)
    alive = weakref.ref(array)
    tensor = to_tensor(array, CPU)
    del array
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(tensor.numpy().ravel(), np.arange(4096, dtype="float32"))
    del tensor
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4)[:, ::2],
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::-1],
        np.broadcast_to(np.arange(3.0), (2, 3)),
        np.arange(4, dtype=">f4"),
        np.zeros((0, 3), "float32"),
        np.array(3.5),
    ],
    ids=["strided", "transposed", "reversed", "broadcast", "big-endian", "empty", "0-d"],
)
def test_every_layout_keeps_its_values(array: np.ndarray) -> None:
    tensor = to_tensor(array, CPU)
    assert tensor.is_contiguous() and tensor.data_ptr() % 64 == 0
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_a_read_only_array_is_copied() -> None:
    array = at_offset(0)
    array.flags.writeable = False
    tensor = to_tensor(array, CPU)
    assert tensor.data_ptr() != array.ctypes.data
    np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("offset", [0, 16])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str, offset: int) -> None:
    array = at_offset(offset, (2, 3), dtype)
    tensor = to_tensor(array, CPU)
    assert str(tensor.dtype) == dtype
    np.testing.assert_array_equal(to_numpy(tensor), array)


def test_bfloat16_goes_both_ways() -> None:
    array = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    tensor = to_tensor(array, CPU)
    assert str(tensor.dtype) == "bfloat16"
    assert to_numpy(tensor).dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(to_numpy(tensor), array)


def test_a_foreign_tensor_is_made_readable() -> None:
    strided = tvm_ffi.from_dlpack(np.arange(12.0).reshape(3, 4)[:, ::2])
    np.testing.assert_array_equal(to_tensor(strided, CPU).numpy(), [[0, 2], [4, 6], [8, 10]])
    misaligned = tvm_ffi.from_dlpack(at_offset(16))
    assert to_tensor(misaligned, CPU).data_ptr() % 64 == 0
    empty = to_tensor(tvm_ffi.from_dlpack(np.zeros((0, 3), "int8")), CPU)
    assert (empty.shape, empty.strides) == ((0, 3), tvm.runtime.empty((0, 3), "int8").strides)
    good = tvm.runtime.tensor(np.arange(3))
    assert to_tensor(good, CPU).same_as(good)


def test_anything_with_dlpack_is_imported() -> None:
    class Foreign:
        array = at_offset(0, (2, 2))

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    tensor = staged(Foreign(), TensorSpec("x", "float32", (2, 2)))
    np.testing.assert_array_equal(tensor.numpy(), [[0, 1], [2, 3]])


def test_a_dlpack_refusal_is_reported() -> None:
    class Refusing:
        def __dlpack__(self, **options: Any) -> Any:
            raise RuntimeError("requires grad")

        def __dlpack_device__(self) -> Any:
            return (1, 0)

    text = refusal(Refusing(), scalar("float32"))["x"]
    assert text.startswith("a Refusing that DLPack does not hand over: ") and "requires grad" in text


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, "float32", 1.0),
        (1.0, "int64", 1),
        (0.1, "float32", np.float32(0.1)),
        (True, "bool", True),
        (1, "bool", True),
        (-1, "int8", -1),
        (float("inf"), "float16", np.inf),
        (np.float64(0.5), "float32", 0.5),
        (2**63, "uint64", 2**63),
        ([[1, 2], [3, 4]], "float64", [[1.0, 2.0], [3.0, 4.0]]),
        ((1, 2), "int8", [1, 2]),
        ([], "float32", []),
    ],
)
def test_scalars_and_lists_take_the_declared_dtype(value: Any, dtype: str, expected: Any) -> None:
    array = staged(value, scalar(dtype))
    assert array.dtype == dtype
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.5, "int32", "1.5 does not fit int32, expected int32"),
        (300, "int8", "300 does not fit int8"),
        (-1, "uint8", "-1 does not fit uint8"),
        (2, "bool", "2 does not fit bool"),
        (1e300, "float32", r"1e\+300 does not fit float32"),
        (float("nan"), "int32", "nan does not fit int32"),
        (2**24 + 1, "float32", "16777217 does not fit float32"),
        (2**100, "int64", "does not fit int64"),
        (1j, "float32", "1j does not fit float32"),
        ([1, [2, 3]], "int32", "a list that is no array"),
        (["a"], "int32", r"\['a'\] does not fit int32"),
        ("a", "int32", "a str, expected int32"),
        (None, "int32", "None, expected int32"),
        ({}, "int32", "a dict, expected int32"),
    ],
)
def test_values_that_would_change_are_refused(value: Any, dtype: str, text: str) -> None:
    import re

    assert re.search(text, refusal(value, scalar(dtype))["x"])


def test_without_a_declaration_numbers_follow_relay() -> None:
    any_value = AnySpec("x")
    assert staged(1, any_value).dtype == "int32"
    assert staged(True, any_value).dtype == "int32"
    assert staged(1.5, any_value).dtype == "float32"
    assert staged(np.float16(1.5), any_value).dtype == "float16"
    assert staged("text", any_value) == "text"
    assert [item.dtype for item in staged((1, [2.0]), any_value)[1]] == [np.float32]
    assert to_runtime(None, CPU).shape == (0,)
    assert "which is not a value of a program" in refusal((1, {}), any_value)["x[1]"]
    assert "does not fit int32" in refusal(2**70, any_value)["x"]


def test_tuples_are_staged_by_field() -> None:
    spec = TupleSpec("x", (scalar("int8"), TupleSpec("", (scalar("float32"),))))
    first, (second,) = staged([1, (2,)], spec)
    assert (first.dtype, second.dtype) == (np.int8, np.float32)
    runtime = to_runtime((first, (second,)), CPU)
    assert to_numpy(from_runtime(runtime)) == (1, (2.0,))


def test_adt_values_go_both_ways() -> None:
    cons, nil = 1, 0
    value = ADT(cons, [1.5, ADT(cons, [2, ADT(nil)])])
    back = from_runtime(to_runtime(value, CPU))
    assert isinstance(back, ADT)
    assert (back.tag, len(back), float(back[0].numpy())) == (cons, 2, 1.5)
    assert back[1].fields[0].numpy() == 2
    assert (back[-1][-1].tag, len(back[-1][-1])) == (nil, 0)
    assert to_numpy(back)[1][0] == 2
    assert repr(back) == "ADT(tag=1, 2 fields)"


def test_a_long_list_neither_recurses_nor_copies_what_it_shares() -> None:
    value = ADT(0)
    for number in range(50_000):
        value = ADT(1, [np.int32(number), value])
    array = to_runtime(value, CPU)
    assert to_runtime(from_runtime(array), CPU).same_as(array)
