"""What is sure about two dimensions."""

from __future__ import annotations

import pytest
from tvm import tirx

from tests.relay.ir.dims.symbols import at, m, n
from vmkit.relay.ir import Any, dims


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (3, 3, True),
        (3, 4, False),
        (n, n, True),
        (n, m, None),
        (Any(), 3, None),
        (n, 3, None),
        (n, dims.add(n, 1), False),
    ],
)
def test_equality_knows_what_it_does_not_know(a: object, b: object, expected: bool | None) -> None:
    assert dims.equal(a, b) is expected


def first_of(*sizes: object) -> object:
    """Return the first of sizes that is not 1, else the last."""
    first, *others = sizes
    return dims.select(first == 1, first_of(*others), first) if others else first


def test_equality_of_choices() -> None:
    k = tirx.Var("k", "int64")
    assert dims.equal(first_of(n, m, k), first_of(n, m, k)) is True
    assert dims.equal(dims.add(first_of(n, m), 1), first_of(n, m)) is False
    assert dims.equal(first_of(n, dims.add(m, 1)), dims.add(first_of(n, m), 1)) is None
    for a, b in ((n, first_of(m, n)), (n, first_of(n, m)), (first_of(n, m), first_of(n, m, k)), (k, first_of(n, m))):
        assert dims.equal(a, b) is None and dims.equal(b, a) is None


def test_broadcast_of_every_pair() -> None:
    assert dims.broadcast(1, 5) == 5 and dims.broadcast(5, 1) == 5
    assert dims.broadcast(4, 5) is None
    assert dims.broadcast(Any(), 5) == 5
    assert dims.is_any(dims.broadcast(Any(), Any()))
    assert dims.broadcast(n, n).same_as(n) and dims.is_any(dims.broadcast(n, m))
    assert dims.is_any(dims.broadcast(Any(), 1))


def slice_of_table(start: object, count: object, rows: int = 64) -> object:
    """Return how many of a table's rows there are from `start` on, up to `count`."""
    end, begin = dims.minimum(dims.add(start, count), rows), dims.minimum(start, rows)
    return dims.maximum(dims.sub(end, begin), 0)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (n, slice_of_table(m, n), True),
        (n, slice_of_table(slice_of_table(m, n), n), True),
        (dims.maximum(n, m), dims.minimum(n, 3), True),
        (m, slice_of_table(m, n), None),
        (dims.sub(n, dims.minimum(n, 4)), 0, True),
    ],
)
def test_limited_sizes_are_compared_by_parts(a: object, b: object, expected: bool | None) -> None:
    assert dims.at_least(a, b) is expected
    if expected:
        for i in range(0, 12, 3):
            for j in (0, 1, 5, 63, 64, 70):
                assert at(a, i, j) >= at(b, i, j)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (n, slice_of_table(m, n), True),
        (n, dims.minimum(n, 512), True),
        (n, dims.minimum(n, 1), False),  # one row of n is broadcast
        (m, slice_of_table(m, n), False),
        (dims.add(n, m), n, False),
        (3, dims.minimum(n, 3), False),
        (n, Any(), False),
    ],
)
def test_a_slice_is_taken_for_whole_where_it_meets_what_it_was_cut_from(a: object, b: object, expected: bool) -> None:
    assert dims.absorbs(a, b) is expected


def test_sizes_are_not_negative() -> None:
    assert dims.same_size(dims.add(n, 1), 0) is False and dims.equal(dims.add(n, 1), 0) is None
    assert dims.same_size(n, m) is None and dims.same_size(n, n) is True
    assert dims.more_than(dims.add(n, m), n) is None and dims.more_than(dims.add(n, 1), n) is True


def test_the_larger_and_the_smaller_leave_no_comparison_that_is_not_needed() -> None:
    assert dims.larger(3, 5) == 5 and dims.smaller(3, 5) == 3
    assert dims.equal(dims.larger(n, dims.sub(0, 2)), n) and dims.smaller(dims.add(n, 2), 0) == 0
    assert [at(dims.larger(n, m), *pair) for pair in ((2, 7), (7, 2))] == [7, 7]
    assert [at(dims.smaller(n, m), *pair) for pair in ((2, 7), (7, 2))] == [2, 2]
