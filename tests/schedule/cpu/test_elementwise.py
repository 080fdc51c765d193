"""Lines that are too long for one loop are cut where short ones within them end, so that they stay in a row."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.cpu.kernels import called, doubled, loops_of
from vmkit.schedule.blocks import extent, kernel_blocks
from vmkit.schedule.cpu import elementwise

# By shape: how many of the last loops become one, and the elements of its parts.
PARTS = {
    (4, 256, 14, 14): (3, 3136),
    (3, 512, 7, 7): (3, 3136),
    (2, 96, 28, 28): (3, 3136),
    (2, 128, 49): (2, 3136),
    (3, 4000, 3): (2, 2400),
    (2, 3, 5, 7): (4, None),
    (2, 4, 11, 13, 17): (3, None),
}


@pytest.mark.parametrize("shape", PARTS)
def test_parts_of_a_long_line_are_whole_short_ones(shape: tuple[int, ...]) -> None:
    together, part = PARTS[shape]
    sch = doubled(*shape)
    elementwise.schedule_spatial(sch, kernel_blocks(sch)[0], parallel_size=1 << 40)
    sizes = [extent(sch, loop) for loop in loops_of(sch)]
    line = int(np.prod(shape[-together:]))
    assert sizes == [*shape[:-together], *([line] if part is None else [line // part, part])]
    data = np.random.default_rng(0).standard_normal(shape).astype("float32")
    np.testing.assert_array_equal(called(sch.mod["main"], [data], shape), data * 2)
