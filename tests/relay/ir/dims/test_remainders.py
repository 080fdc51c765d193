"""What pads a size to a multiple, and what is chosen where there is nothing to pad."""

from __future__ import annotations

import pytest

from tests.relay.ir.dims.symbols import at, m, n
from vmkit.relay.ir import Dim, dims
from vmkit.relay.ir.dim_text import dim_text

_tiles = dims.floordiv(dims.add(n, 31), 32)
SIZES = [n, dims.add(n, 8), dims.mul(_tiles, 2), dims.mul(_tiles, 16)]


def _left_over(size: Dim, by: int) -> Dim:
    return dims.sub(size, dims.mul(dims.truncdiv(size, by), by))


@pytest.mark.parametrize("by", [2, 3, 6])
@pytest.mark.parametrize("size", SIZES)
def test_what_pads_a_size_is_taken_off_again(size: Dim, by: int) -> None:
    """As exporters write it: a remainder, what lacks, and the remainder of that, which is 0 where nothing lacks."""
    padding = _left_over(dims.sub(by, _left_over(size, by)), by)
    whole = dims.add(size, padding)
    assert [at(whole, of_n, 0) for of_n in range(70)] == [-(-at(size, of_n, 0) // by) * by for of_n in range(70)]
    assert dims.at_least(padding, 0) and dims.at_least(by - 1, padding)
    assert dims.equal(dims.sub(dims.mul(dims.floordiv(whole, by), by), padding), size)


@pytest.mark.parametrize("by", [-2, -3, -32])
def test_a_negative_divisor_is_none(by: int) -> None:
    made = dims.floordiv(n, by), dims.floormod(n, by)
    assert not any(f", {by})" in dim_text(d) for d in made)
    for of_n in range(70):
        assert (at(made[0], of_n, 0), at(made[1], of_n, 0)) == divmod(of_n, by)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (n, m, None),  # only where n is 3
        (3, n, "n"),
        (dims.add(n, m), dims.add(m, 3), "m + 3"),
        (dims.sub(9, n), 6, "6"),
        (dims.sub(n, 3), 0, "0"),
    ],
)
def test_a_choice_between_what_is_equal_is_none(a: Dim, b: Dim, expected: str | None) -> None:
    chosen = dims.select(n == 3, a, b), dims.select(n != 3, b, a)
    for found in chosen:
        if expected is None:
            assert dim_text(found).startswith("select")
        else:
            assert dim_text(dims.as_expr(found)) == expected
        for of_n in (0, 3, 5):
            assert at(found, of_n, 4) == at(a if of_n == 3 else b, of_n, 4)


def test_sums_and_products_of_flags_of_one_condition_are_one_choice() -> None:
    holds = dims.select(n == m, 1, 0)
    fails = dims.select(dims.as_expr(holds) == 0, 1, 0)
    assert dims.add(holds, fails) == 1 and dims.mul(holds, fails) == 0
    end = dims.add(dims.mul(holds, 1000), dims.mul(fails, -3))
    assert dim_text(end) == "select(eq(n, m), 1000, -3)"
    assert dims.equal(dims.mul(fails, dims.sub(n, m)), dims.sub(n, m))


def test_choices_between_choices_are_left_as_they_are_when_there_are_many() -> None:
    """Each level of them takes TVM ten times as long to simplify as the one before."""
    value: Dim = n
    number = 7
    for k in range(12):
        number = 5 + k if number % (2 + k % 3) > 0 else number + 5
        value = dims.select(dims.as_expr(dims.floormod(value, 2 + k % 3)) > 0, dims.add(m, k), dims.add(value, m))
        assert at(value, 7, 5) == number
        if dims.has_too_many_choices(value):
            break
    assert k < 11
    assert dims.by_cases(value) is value and dims.at_least(value, dims.add(n, 1)) is None
