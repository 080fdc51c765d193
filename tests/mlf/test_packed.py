"""The entry as TVM's C runtime calls it, and the names of that runtime that an archive brings."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import vmkit
from tests.mlf.built import Built, build
from tests.mlf.graphs import DLTensor, call
from vmkit import relay
from vmkit.errors import OptionError


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """An archive with a packed entry: of two inputs, their sum and their difference."""
    path = tmp_path_factory.mktemp("packed") / "model.tar"
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    vmkit.mlf.export(relay.Function([x, y], relay.Tuple([x + y, x - y])), path, interface="packed")
    return build(path)


def test_a_packed_entry_takes_tensors_inputs_first_each_from_its_offset(built: Built) -> None:
    memory = np.array([9, 1, 2, 3], "float32")
    x, y, total, less = memory[1:], np.array([4, 4, 4], "float32"), *np.zeros((2, 3), "float32")
    tensors = [DLTensor(memory.ctypes.data, byte_offset=4), *[DLTensor(each.ctypes.data) for each in (y, total, less)]]
    assert call(built.library.tvmgen_default_run, tensors) == 0
    np.testing.assert_array_equal([total, less], [x + y, x - y])


def test_an_archive_with_a_packed_entry_is_built_and_wrapped_as_any(built: Built) -> None:
    x, y = np.array([[1, 2, 3], [4, 4, 4]], "float32")
    again = vmkit.mlf.load(built.folder.with_suffix(".tar")).build()
    np.testing.assert_array_equal(again.run(x, y), [x + y, x - y])
    library = built.library
    library.TVMWrap_GetInputPtr.restype = library.TVMWrap_GetOutputPtr.restype = ctypes.c_void_p
    for place, value in enumerate((x, y)):
        ctypes.memmove(library.TVMWrap_GetInputPtr(place), value.ctypes.data, value.nbytes)
    assert library.TVMWrap_Run() == 0
    less = np.frombuffer(ctypes.string_at(library.TVMWrap_GetOutputPtr(1), 12), "float32")
    np.testing.assert_array_equal(less, x - y)


class Stack(ctypes.Structure):
    """As ``tvm/runtime/crt/stack_allocator.h`` has it."""

    _fields_ = (("next", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("size", ctypes.c_size_t))


def test_memory_of_the_stack_is_aligned_and_no_more_than_there_is(built: Built) -> None:
    library, stack, block = built.library, Stack(), ctypes.c_void_p()
    allocate, free = library.StackMemoryManager_Allocate, library.StackMemoryManager_Free
    memory = np.zeros(64 + 16, "uint8")
    start = memory.ctypes.data + 1 + -(memory.ctypes.data + 1) % 16
    size = 49 + start - (memory.ctypes.data + 1)
    assert library.StackMemoryManager_Init(ctypes.byref(stack), ctypes.c_void_p(memory.ctypes.data + 1), size) == 0
    assert (stack.workspace, stack.size) == (start, 49)
    taken = []
    for nbytes in (1, 16, 0, 16):
        assert allocate(ctypes.byref(stack), nbytes, ctypes.byref(block)) == 0
        taken.append((block.value or 0) - start)
    assert taken == [0, 16, 32, 32]
    # One byte is left, and blocks end at multiples of 16.
    assert [allocate(ctypes.byref(stack), nbytes, ctypes.byref(block)) for nbytes in (1, 2, -1)] == [0x503] * 3
    bad = [start + 48, start - 16, start + 8]
    assert [free(ctypes.byref(stack), ctypes.c_void_p(each)) for each in bad] == [0x505] * 3
    assert free(ctypes.byref(stack), ctypes.c_void_p(start + 16)) == 0 and stack.next == start + 16


def test_interfaces_that_there_are_not(tmp_path: Path) -> None:
    x = relay.var("x", shape=(3,))
    with pytest.raises(OptionError, match="interface: expected 'c' or 'packed', got 'cpp'"):
        vmkit.mlf.export(relay.Function([x], x), tmp_path / "m.tar", interface="cpp")
    with pytest.raises(OptionError, match="interface 'packed': a graph's functions are packed"):
        vmkit.mlf.export(relay.Function([x], x), tmp_path / "m.tar", executor="graph", interface="packed")
