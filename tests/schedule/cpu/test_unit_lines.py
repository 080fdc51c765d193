"""Lines of unknown size that axes of one place follow are the innermost loops, and are padded right."""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, te, tirx
from tvm.script import tirx as T

import vmkit
from tests.schedule.kernels import call, kernel
from vmkit import relay
from vmkit.schedule import cpu as rules

TARGET = tvm.target.Target("llvm")


def test_places_of_a_line_are_not_divided() -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")

    def doubled(x: te.Tensor) -> te.Tensor:
        return te.compute((m, 1, n, 1, 1), lambda i, _, k, *ones: x(i, k, *ones, 0) * T.float32(2))

    module = rules.schedule_kernels(kernel(doubled, (m, n, 1, 1, 1)).mod, TARGET)
    divided: list[tirx.FloorDiv] = []
    loops: list[tirx.For] = []
    tvm_ffi.structural_walk(module["main"].body, [(tirx.FloorDiv, divided.append), (tirx.For, loops.append)])
    lines = [loop.extent for loop in loops if isinstance(loop.body, s_tir.SBlockRealize)]
    assert lines
    assert all(extent.same_as(n) for extent in lines)
    assert not divided


def test_blocks_of_one_place_and_lines_of_known_size_keep_their_values() -> None:
    for shape in ((1, 1), (3, 1), (3, 5, 1)):
        sch = kernel(lambda x, shape=shape: te.compute(shape, lambda *i: x(*i) + T.float32(1)), shape)
        scheduled = s_tir.Schedule(rules.schedule_kernels(sch.mod, TARGET))
        data = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        np.testing.assert_array_equal(call(scheduled, data, shape=shape), data + 1)


def test_one_channel_is_padded_channels_last() -> None:
    x = relay.var("x", shape=(relay.Any(), 1, relay.Any(), 1))
    padded = relay.nn.pad(x, ((0, 0), (0, 0), (3, 4), (0, 0)), pad_value=-1)
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], padded)), "cpu")
    for shape in ((1, 1, 1, 1), (2, 1, 5, 1), (3, 1, 7000, 1)):
        data = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        expected = np.pad(data, ((0, 0), (0, 0), (3, 4), (0, 0)), constant_values=-1)
        np.testing.assert_array_equal(machine.run(data).numpy(), expected)
