"""Dimensions: ints, symbols, and the unknown."""

from __future__ import annotations

import pytest
from tvm import tirx

from vmkit.relay.ir import Any, TensorType, dims

n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def test_arithmetic_folds_ints_and_keeps_the_unknown() -> None:
    assert dims.add(2, 3) == 5
    assert dims.floordiv(7, 2) == 3 and dims.ceildiv(7, 2) == 4
    assert dims.is_any(dims.mul(Any(), 4))
    assert dims.sub(dims.add(n, 3), n) == 3
    assert dims.product([n, 0, Any()]) == 0


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


def test_broadcast_of_every_pair() -> None:
    assert dims.broadcast(1, 5) == 5 and dims.broadcast(5, 1) == 5
    assert dims.broadcast(4, 5) is None
    assert dims.broadcast(Any(), 5) == 5
    assert dims.is_any(dims.broadcast(Any(), Any()))
    assert dims.broadcast(n, n).same_as(n) and dims.is_any(dims.broadcast(n, m))
    assert dims.is_any(dims.broadcast(Any(), 1))


def test_symbols_come_once_and_are_replaced() -> None:
    assert dims.symbols([dims.add(n, m), n, 3]) == [n, m]
    assert dims.substitute(dims.add(n, 1), {n: tirx.IntImm("int64", 4)}) == 5


def test_a_dimension_that_is_written_equals_the_one_that_is_computed() -> None:
    n, m = tirx.Var("n", "int32"), tirx.Var("m", "int32")
    scaled = tirx.Cast("int32", tirx.round(n * tirx.const(2.0, "float64")))
    for written, computed in (
        (n, n),
        (n + n, dims.add(n, n)),
        (2 * n * 3, dims.mul(dims.mul(2, n), 3)),
        (n + (-2), dims.sub(n, 2)),
        (tirx.indexdiv(n, 4), dims.floordiv(n, 4)),
        (tirx.max(n, m), dims.maximum(n, m)),
        (scaled, dims.mul(n, 2)),
        (n - n + 3, 3),
    ):
        assert TensorType([written]) == TensorType([computed])
    assert TensorType([n + n]) != TensorType([n * 3])


def test_a_dimension_scaled_by_a_fraction_stays_rounded() -> None:
    n = tirx.Var("n", "int32")
    half = tirx.Cast("int32", tirx.round(n * tirx.const(1.5, "float64")))
    (dim,) = TensorType([half]).shape
    assert "round" in str(dim)


def slice_of_table(start: object, count: object, rows: int = 64) -> object:
    """Return how many of a table's rows there are from `start` on, up to `count`."""
    end, begin = dims.minimum(dims.add(start, count), rows), dims.minimum(start, rows)
    return dims.maximum(dims.sub(end, begin), 0)


def at(dim: object, of_n: int, of_m: int) -> int:
    """Return a dimension where `n` and `m` are these."""
    return dims.substitute(dim, {n: tirx.IntImm("int64", of_n), m: tirx.IntImm("int64", of_m)})


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


@pytest.mark.parametrize(
    ("dividends", "divisors", "expected"),
    [
        ([n, m, 64], [n, m, 16], 4),
        ([dims.mul(n, 6)], [3, n], 2),
        ([n, 0], [n], 0),
        ([0], [0, 5], 0),
        ([12], [5], 2),
        ([8, dims.add(n, 1), m], [m, 4], dims.mul(2, dims.add(n, 1))),
    ],
)
def test_a_quotient_leaves_out_what_both_have(dividends: list, divisors: list, expected: object) -> None:
    assert dims.equal(dims.quotient(dividends, divisors), expected)


def test_a_quotient_by_what_may_be_nothing_divides_by_no_zero() -> None:
    rest = dims.quotient([n, 4], [m])
    assert [at(rest, 3, size) for size in (0, 1, 2)] == [12, 12, 6]
