"""Memory for copies of arrays: used again only when nothing refers to the last copy."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

from vmkit.errors import InputError
from vmkit.values import host_memory
from vmkit.values.host_memory import ALIGNMENT, Scratch, integer_tensor

GIVEN = np.arange(4, dtype="float32")


def addresses(scratch: Scratch, count: int) -> list[int]:
    """Return where copies are, none of which is kept until the next."""
    return [scratch.copy(GIVEN).data_ptr() for _ in range(count)]


def test_a_copy_that_nothing_refers_to_gives_its_memory_to_the_next() -> None:
    assert len(set(addresses(Scratch(), 4))) == 1


def test_a_tensor_and_an_array_over_one_keep_it() -> None:
    scratch = Scratch()
    first = scratch.copy(GIVEN)
    second = scratch.copy(GIVEN + 1)
    over = np.from_dlpack(second)
    del second
    third = scratch.copy(GIVEN + 2)
    assert len({first.data_ptr(), over.ctypes.data, third.data_ptr()}) == 3
    assert (first.numpy()[0], over[0], third.numpy()[0]) == (0, 1, 2)


def test_a_view_of_an_array_over_it_keeps_it() -> None:
    scratch = Scratch()
    part = np.from_dlpack(scratch.copy(GIVEN))[1:2]
    for value in range(3):
        scratch.copy(GIVEN + 10 + value)
    assert part.tolist() == [1]


def test_where_references_cannot_be_counted_no_memory_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert host_memory._references_of_a_local() == 0
    monkeypatch.setattr(host_memory, "_UNSHARED", 0)
    scratch, made = Scratch(), []
    aligned_copy = host_memory._aligned_copy
    monkeypatch.setattr(host_memory, "_aligned_copy", lambda array: made.append(1) or aligned_copy(array))
    addresses(scratch, 3)
    assert len(made) == 3 and len(scratch._arrays) == 1


def test_with_the_lock_a_local_is_counted_as_the_interpreter_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    assert host_memory._references_of_a_local() == host_memory._UNSHARED in (1, 2)


def test_an_array_that_was_pickled_is_as_quick_to_hand_over_as_any() -> None:
    # Its data type is equal to numpy's own, and another object.
    array = pickle.loads(pickle.dumps(np.arange(6, dtype="float32")))
    assert array.dtype is not np.dtype("float32")
    values = host_memory.readable([array], [64], [np.dtype("float32")], [Scratch()])
    assert values is not None
    np.testing.assert_array_equal(values[0].numpy(), array)
    assert host_memory.readable([array], [64], [np.dtype("int32")], [Scratch()]) is None


def test_a_copy_that_there_is_no_memory_for_is_an_error_of_the_input() -> None:
    huge = np.lib.stride_tricks.as_strided(np.ones(1, "float32"), (1 << 59, 3), (0, 0))
    for kind in (InputError, MemoryError):
        with pytest.raises(kind, match=r"no memory for a copy of float32\[\d+, 3\], 6917529027641081856 bytes"):
            host_memory.copied(huge)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (1,), (7,), (2, 3), (1, 1, 9), ()])
def test_integers_lie_where_kernels_can_read_them(shape: tuple[int, ...]) -> None:
    values = [(-1) ** k * (1 << 62) + k for k in range(int(np.prod(shape)))]
    made = integer_tensor(values, shape)
    assert tuple(made.shape) == shape and made.dtype == "int64" and made.is_contiguous()
    assert made.data_ptr() % ALIGNMENT == 0 or not values
    assert made.numpy().ravel().tolist() == values
