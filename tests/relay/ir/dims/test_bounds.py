"""Between which numbers sizes are."""

from __future__ import annotations

import random

import pytest

from tests.relay.ir.dims.drawn import drawn
from tests.relay.ir.dims.symbols import at, m, n
from vmkit.relay.ir import dims
from vmkit.relay.ir.dims.bounds import bounds

thirds = (n + 31) // 96 * 6
halves = (n + 31) // 32 * 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, (7, 7)),
        (n, (0, None)),
        (3 - n * 2, (None, 3)),
        (n - m, (None, None)),
        (n % 5 - 2, (-2, 2)),
        (thirds + 6 - halves, (1, 7)),
        ((halves + 2) // 3 * 3 - halves, (0, 2)),
        (dims.as_expr(dims.maximum(n, 4)), (4, None)),
        (dims.as_expr(dims.minimum(dims.sub(n, 3), 4)), (-3, 4)),
        (dims.as_expr(dims.select(n > m, 9, dims.sub(2, n))), (None, 9)),
        (n * m + n // (m + 1), (0, None)),
        (n // m, (None, None)),
    ],
)
def test_a_sum_of_multiples_is_in_a_range(value: object, expected: tuple) -> None:
    assert bounds(value) == expected


@pytest.mark.parametrize("seed", range(60))
def test_no_size_is_outside_of_its_bounds(seed: int) -> None:
    value, number = drawn(random.Random(seed))
    least, most = bounds(value)
    for a in range(0, 40, 3):
        for b in (0, 1, 2, 7, 33):
            assert (least is None or number(a, b) >= least) and (most is None or number(a, b) <= most)
            assert at(value, a, b) == number(a, b)
