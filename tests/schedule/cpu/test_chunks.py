"""Chunks of tiles go by all blocks of a weight before the next chunk does."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from tests.schedule.cpu.kernels import called, doubled, loops_in, loops_of
from vmkit.schedule.cpu.chunks import in_chunks, with_chunks

n = tirx.Var("n", "int64")


@pytest.mark.parametrize(
    ("tiles", "chunk", "count", "largest"), [(10, 4, 2, 5), (8, 4, 2, 4), (7, 4, 1, 7), (3, 4, 1, 3), (9, 2, 3, 3)]
)
def test_chunks_have_at_least_as_many_tiles_and_less_than_twice_as_many(
    tiles: int, chunk: int, count: int, largest: int
) -> None:
    sch = doubled(3, tiles)
    in_chunks(sch, loops_of(sch)[0], chunk)
    made = with_chunks(sch.mod["main"])
    loops = dict(loops_in(made))
    assert list(loops) == ["i1_chunk", "i0", "i1_part"]
    assert loops["i1_chunk"] == str(count) and loops["i1_part"].startswith(f"T.min({largest}, ")
    x = np.arange(3 * tiles, dtype="float32").reshape(3, tiles)
    assert called(made, [x], x.shape).tolist() == (2 * x).tolist()


def test_a_number_of_tiles_that_is_known_when_it_runs() -> None:
    sch = doubled(3, n)
    in_chunks(sch, loops_of(sch)[0], 4)
    made = with_chunks(sch.mod["main"])
    # What is divided is computed once: in each index it would be simplified again and again.
    assert dict(loops_in(made))["i1_part"] == "T.min(size, tiles - i1_chunk * size)"
    for tiles in (0, 1, 4, 7, 8, 21):
        x = np.arange(3 * tiles, dtype="float32").reshape(3, tiles)
        assert called(made, [x], x.shape).tolist() == (2 * x).tolist()


def test_loops_without_a_mark_stay() -> None:
    function = doubled(3, 10).mod["main"]
    assert dict(loops_in(with_chunks(function))) == dict(loops_in(function))
