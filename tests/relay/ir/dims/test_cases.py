"""Sizes with choices in them that are the same whatever the symbols are."""

from __future__ import annotations

import pytest

from tests.relay.ir.dims.symbols import at, m, n
from vmkit.relay.ir import dims
from vmkit.relay.ir.dims.expressions import choices

minus_one = dims.sub(n, 1)
whole = dims.add(n, m)
# What is left from ``n - 1`` on of ``2 * n - 1``, where a negative start counts from the end.
_TAIL = dims.sub(dims.mul(n, 2), 1)
_START = dims.select(minus_one < 0, dims.add(_TAIL, minus_one), minus_one)
tail = dims.maximum(dims.sub(_TAIL, dims.maximum(dims.minimum(_START, _TAIL), 0)), 0)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (tail, "n"),
        (dims.sub(whole, dims.minimum(n, whole)), "m"),
        (dims.maximum(dims.minimum(dims.select(n < 1, 0, n), whole), 0), "min(n, n + m)"),
        (dims.select(n > 0, m, 0), "select(gt(n, 0), m, 0)"),
        (dims.maximum(dims.select(n < 1, minus_one, minus_one), 0), "max(n - 1, 0)"),
        (dims.minimum(n, m), "min(n, m)"),
        (dims.add(dims.maximum(dims.sub(n, 3), 0), dims.minimum(3, n)), "n"),
        (dims.add(dims.minimum(whole, 2), dims.mul(dims.maximum(dims.sub(whole, 2), 0), 1)), "n + m"),
        (dims.maximum(n, 1), "max(n, 1)"),
    ],
)
def test_no_choice_is_left_that_changes_nothing(size: object, expected: str) -> None:
    from vmkit.relay.ir.dim_text import dim_text

    found = dims.by_cases(size)
    if choices(found) == choices(size):
        assert found is size
    else:
        assert dim_text(found) == expected
    for a in range(4):
        for b in range(4):
            assert at(found, a, b) == at(size, a, b)


def test_a_size_that_differs_for_0_alone_stays() -> None:
    """Where `n` is 1 or more it would be `m`."""
    size = dims.select(n > 0, m, dims.add(m, 1))
    assert dims.by_cases(size) is size


def test_what_is_divided_by_a_symbol_has_no_case_of_0() -> None:
    """There it is nothing that a simpler size could differ from."""
    taken = dims.floormod(-1, n)
    rest = dims.maximum(dims.sub(n, dims.minimum(taken, n)), 0)
    assert choices(dims.by_cases(dims.add(rest, dims.minimum(taken, n)))) == 0


def test_ranges_decide_what_symbols_alone_leave_open() -> None:
    size = dims.maximum(dims.sub(n, 5), dims.select(n < 9, 1, m))
    assert choices(dims.in_ranges(size, {m: (1, 8)})) == choices(size)
    assert dims.equal(dims.in_ranges(size, {n: (6, 8)}), dims.sub(n, 5))
    assert dims.in_ranges(dims.floordiv(n, 4), {n: (4, 7)}) == 1
    assert dims.in_ranges(3, {n: (0, 1)}) == 3
