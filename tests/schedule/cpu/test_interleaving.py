"""Lines that are read in turn from several places are written in turns."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import s_tir, te, tirx

import vmkit
from vmkit import relay
from vmkit.schedule.blocks import kernel_blocks
from vmkit.schedule.cpu import elementwise


def shuffled(channels: int, groups: int) -> s_tir.Schedule:
    """Return a kernel, as its rule schedules it, that shuffles channels of groups."""
    x = te.placeholder((9, channels), "float32", "x")
    per_group = channels // groups
    made = te.compute((9, channels), lambda i, c: x[i, c % groups * per_group + c // groups], "made")
    schedule = s_tir.Schedule(te.create_prim_func([x, made]))
    (block,) = kernel_blocks(schedule)
    elementwise.schedule_spatial(schedule, block)
    return schedule


@pytest.mark.parametrize(
    ("channels", "groups", "is_in_turns"),
    [(272, 4, True), (128, 8, True), (48, 3, True), (48, 4, False), (144, 9, False), (50, 4, False)],
)
def test_a_line_of_few_turns_is_written_turn_by_turn(channels: int, groups: int, is_in_turns: bool) -> None:
    schedule = shuffled(channels, groups)
    (block,) = kernel_blocks(schedule)
    last = schedule.get(schedule.get_loops(block)[-1])
    found = (last.kind == tirx.ForKind.UNROLLED, int(last.extent))
    assert found == ((True, groups) if is_in_turns else (False, channels))


@pytest.mark.parametrize("rows", [7, relay.Any()])
@pytest.mark.parametrize(("channels", "groups"), [(272, 4), (128, 8), (48, 3), (96, 2), (144, 9)])
def test_shuffled_channels_are_where_they_belong(channels: int, groups: int, rows: int | relay.Any) -> None:
    x = relay.var("x", shape=(rows, channels))
    parts = relay.reshape(relay.nn.relu(x), (-1, groups, channels // groups))
    made = relay.reshape(relay.transpose(parts, (0, 2, 1)), (-1, channels))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], made), "native"), "cpu")
    given = np.random.default_rng(0).standard_normal((7, channels)).astype("float32")
    wanted = np.maximum(given, 0).reshape(7, groups, -1).transpose(0, 2, 1).reshape(7, channels)
    np.testing.assert_array_equal(machine.run(given).numpy(), wanted)
