"""The last of several tiles begins earlier where tiles do not divide an axis."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from tests.schedule.cpu.kernels import called, doubled, loops_in, loops_of
from vmkit.schedule.cpu.overlap import tiles, tiles_of_any, with_overlaps

n = tirx.Var("n", "int64")


@pytest.mark.parametrize(("size", "tile"), [(10, 4), (12, 4), (4, 4), (7, 1), (5, 3)])
def test_all_tiles_are_whole_and_test_nothing(size: int, tile: int) -> None:
    sch = doubled(size)
    tiles(sch, loops_of(sch)[0], tile)
    made = with_overlaps(sch.mod["main"])
    assert [count for _, count in loops_in(made)] == [str(-(-size // tile)), str(tile)]
    assert "T.where" not in made.script() and ("T.min" in made.script()) == (size % tile > 0)
    x = np.arange(size, dtype="float32")
    assert called(made, [x], (size,)).tolist() == (2 * x).tolist()


def test_a_size_that_is_known_when_it_runs_is_given() -> None:
    sch = doubled(n)
    size = sch.get(loops_of(sch)[0]).extent
    tiles(sch, loops_of(sch)[0], 4)
    made = with_overlaps(sch.mod["main"], size)
    for count in (4, 5, 8, 11):
        x = np.arange(count, dtype="float32")
        assert called(made, [x], (count,)).tolist() == (2 * x).tolist()


def test_tiles_of_any_size_test_only_at_the_end() -> None:
    sch = doubled(n)
    tiles_of_any(sch, loops_of(sch)[0], 4)
    made = with_overlaps(sch.mod["main"])
    assert "pragma_loop_partition_hint" in made.script() and "T.min" not in made.script()
    for count in (0, 1, 4, 7):
        x = np.arange(count, dtype="float32")
        assert called(made, [x], (count,)).tolist() == (2 * x).tolist()


def test_tiles_of_any_size_overlap_where_it_is_known() -> None:
    sch = doubled(10)
    tiles_of_any(sch, loops_of(sch)[0], 4)
    assert "T.min(i0_0 * 4, 6)" in with_overlaps(sch.mod["main"]).script()
