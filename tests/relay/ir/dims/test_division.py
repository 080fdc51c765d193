"""Quotients of dimensions."""

from __future__ import annotations

import pytest

from tests.relay.ir.dims.symbols import at, m, n
from vmkit.relay.ir import Any, dims


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


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3)])
def test_division_rounds_towards_zero(a: int, b: int) -> None:
    assert dims.truncdiv(a, b) == int(a / b)
    assert dims.truncmod(a, b) == a - int(a / b) * b


def test_division_of_what_may_be_negative_rounds_towards_zero() -> None:
    rest = dims.truncdiv(dims.sub(n, m), 2)
    assert [at(rest, *pair) for pair in ((7, 2), (2, 7), (3, 3))] == [2, -2, 0]
    assert dims.equal(dims.truncdiv(n, 2), dims.floordiv(n, 2))
    assert dims.is_any(dims.truncdiv(Any(), 2)) and dims.is_any(dims.truncmod(n, Any()))


def test_exact_division_has_a_result_only_where_nothing_is_left() -> None:
    assert dims.exact_division(12, 4) == 3 and dims.exact_division(12, 5) is None
    assert dims.equal(dims.exact_division(dims.mul(n, 8), 4), dims.mul(n, 2))
    assert dims.exact_division(n, 4) is None


def test_a_half_rounded_up_is_so_written_whatever_its_padding_was() -> None:
    """A window of three, two on each, whose padding is what it lacks."""
    last = dims.mul(dims.sub(dims.ceildiv(n, 2), 1), 2)
    padded = dims.add(n, dims.maximum(dims.sub(dims.add(last, 3), n), 0))
    count = dims.add(dims.floordiv(dims.sub(padded, 3), 2), 1)
    assert dims.equal(count, dims.ceildiv(n, 2))
    assert dims.at_least(dims.mul(count, 2), n)
    assert [at(count, size, 0) for size in range(6)] == [0, 1, 1, 2, 2, 3]


def test_what_is_less_than_0_is_no_factor_of_a_size() -> None:
    assert sorted(at(factor, 2, 5) for factor in dims.factors(dims.mul(dims.mul(n, 6), m))) == [2, 5, 6]
    whole = dims.mul(dims.minimum(dims.sub(n, m), 0), -7)
    assert [at(factor, 2, 5) for factor in dims.factors(whole)] == [21]
