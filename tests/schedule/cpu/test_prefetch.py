"""Weights are asked for before they are needed."""

from __future__ import annotations

import re

import numpy as np
from tvm import s_tir, te

from tests.schedule.cpu.kernels import called, loops_in, loops_of
from vmkit.schedule.blocks import Loop
from vmkit.schedule.cpu.prefetch import prefetch_ahead, prefetch_next_block, with_prefetches

ROWS, COUNT, INNER, WIDTH = 6, 4, 40, 16


def product() -> tuple[s_tir.Schedule, tuple[Loop, Loop, Loop]]:
    """Return a product of rows with a packed weight, and its loops over blocks, tiles of two rows and steps."""
    x, w = te.placeholder((ROWS, INNER), name="x"), te.placeholder((COUNT, INNER, WIDTH), name="w")
    k = te.reduce_axis((0, INNER), "k")
    made = te.compute(
        (ROWS, COUNT * WIDTH), lambda i, j: te.sum(x[i, k] * w[j // WIDTH, k, j % WIDTH], axis=k), name="product"
    )
    sch = s_tir.Schedule(te.create_prim_func([x, w, made]))
    i, j, k_loop = loops_of(sch)
    tile, row = sch.split(i, [None, 2])
    block, lane = sch.split(j, [None, WIDTH])
    step, unrolled = sch.split(k_loop, [None, 4])
    sch.reorder(block, tile, step, unrolled, row, lane)
    return sch, (block, tile, step)


def assert_is_product(sch: s_tir.Schedule) -> None:
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype("float32") for shape in ((ROWS, INNER), (COUNT, INNER, WIDTH)))
    expected = x @ w.transpose(1, 0, 2).reshape(INNER, -1)
    result = called(with_prefetches(sch.mod["main"]), [x, w], (ROWS, COUNT * WIDTH))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_each_step_asks_for_some_lines_of_the_next_block() -> None:
    sch, loops = product()
    prefetch_next_block(sch, loops, 1, 3)
    made = with_prefetches(sch.mod["main"])
    text = made.script()
    # Locality 2 is the second cache; the block after the last one is the first one again.
    assert len(re.findall(r"T\.prefetch\(.*, 0, 2, 1\)", text)) == 1
    assert "% 4" in text and "vmkit.prefetch" not in text
    assert dict(loops_in(made))["line"] == "3"
    assert_is_product(sch)


def test_each_step_asks_for_the_lines_that_a_later_one_reads() -> None:
    sch, (block, _, step) = product()
    prefetch_ahead(sch, (block, step), 1, 1)
    made = with_prefetches(sch.mod["main"])
    # Four rows of a line each, for the nearest cache.
    assert len(re.findall(r"T\.prefetch\(.*, 0, 3, 1\)", made.script())) == 1
    loops = dict(loops_in(made))
    assert (loops["line"], loops["side"]) == ("4", "1")
    assert_is_product(sch)


def test_a_kernel_without_marks_stays() -> None:
    sch, _ = product()
    assert with_prefetches(sch.mod["main"]).same_as(sch.mod["main"])
