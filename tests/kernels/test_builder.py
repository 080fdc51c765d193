"""The words that kernels are written in: what a kernel of them computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import tirx

from tests.kernels.written_kernels import Run, built, normal
from tests.places import TOP
from vmkit.kernels.builder import (
    T,
    add_to,
    broadcast,
    either,
    fetch_ahead,
    in_parallel,
    in_register,
    integer,
    kernel,
    loop,
    memory,
    ramp,
    register,
    shuffled,
    splat,
    when,
    zeros,
)

LANES = 4


def written(write: Callable[[tirx.Buffer, tirx.Buffer, tirx.Var], None]) -> Run:
    """Return the kernel of a vector ``x`` of any length, and of a result as long."""
    with kernel() as builder:
        n = tirx.Var("n", "int64")
        x, out = (T.match_buffer(T.arg(name, T.handle()), (n,), "float32", layout=None) for name in ("x", "out"))
        write(x, out, n)
    return built(builder.get())


def test_loops_tests_and_memory() -> None:
    def write(x: tirx.Buffer, out: tirx.Buffer, n: tirx.Var) -> None:
        copied = memory(n)
        with in_parallel(n) as i:
            T.buffer_store(copied, x[i] * 2, [i])
        with loop(n) as i:
            at = in_register(n - 1 - i)
            fetch_ahead(copied[at])
            T.buffer_store(out, copied[at], [i])
            with when(i >= n - 2):
                T.buffer_store(out, T.float32(0), [i])

    x = normal(9)
    (got,) = written(write)([x], [(9,)])
    np.testing.assert_array_equal(got, np.concatenate([2 * x[:1:-1], [0, 0]]))


def test_vectors() -> None:
    def write(x: tirx.Buffer, out: tirx.Buffer, n: tirx.Var) -> None:
        total = register(LANES)
        T.buffer_store(total, zeros(LANES), [integer(0)])
        with loop(n // LANES) as part:
            add_to(total, x[ramp(part * LANES, LANES)] * splat(0.5, LANES))
        swapped = shuffled(total[0], broadcast(x[0], LANES), [1, 0, 3, LANES])
        T.buffer_store(out, swapped, [ramp(0, LANES)])
        T.buffer_store(out, total[0], [ramp(LANES, LANES)])

    x = normal(8)
    (got,) = written(write)([x], [(8,)])
    total = (x[:4] + x[4:]) / 2
    np.testing.assert_allclose(got, [total[1], total[0], total[3], x[0], *total], rtol=1e-6)


@pytest.mark.parametrize("is_known", [False, True])
def test_either_writes_one_side_where_the_test_is_known(is_known: bool) -> None:
    written_sides = []

    def write(x: tirx.Buffer, out: tirx.Buffer, n: tirx.Var) -> None:
        def store(value: float) -> None:
            written_sides.append(value)
            T.buffer_store(out, T.float32(value), [0])

        either(integer(3) > 2 if is_known else n > 2, lambda: store(1.0), lambda: store(2.0))

    run = written(write)
    assert written_sides == ([1.0] if is_known else [1.0, 2.0])
    assert [float(run([normal(n)], [(n,)])[0][0]) for n in (2, 3)] == ([1.0, 1.0] if is_known else [2.0, 1.0])


def test_a_number_needs_no_register_and_one_lane_no_vector() -> None:
    index = tirx.Var("i", "int64")
    assert in_register(3) == 3
    assert ramp(index, 1).same_as(index) and broadcast(index, 1).same_as(index)


def test_kernels_take_the_builder_of_tvm_from_one_place() -> None:
    files = sorted((TOP / "vmkit" / "kernels").rglob("*.py"))
    assert [file.name for file in files if "tvm.script" in file.read_text()] == ["builder.py"]
