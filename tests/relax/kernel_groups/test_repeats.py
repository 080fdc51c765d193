"""Where a sequence repeats itself."""

from __future__ import annotations

import numpy as np
import pytest

from vmkit.relax.kernel_groups.repeats import Repeat, repeats

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("", []),
        ("a", []),
        ("aa", [(0, 2, 1)]),
        ("abcdefgh", []),
        ("abcab", []),  # not twice
        ("xabcabcaby", [(1, 9, 3)]),  # the last is cut short
        ("abcabcxdede", [(0, 6, 3), (7, 11, 2)]),
        ("abbaabbaabba", [(0, 12, 4)]),  # each item comes twice, at distances other than the period
        ("hdtdtdtmadtdtdtmadtdtdtmaz", [(1, 25, 8)]),  # layers, and not the products of one
    ],
)
def test_what_repeats_is_found(items: str, expected: list[tuple[int, int, int]]) -> None:
    assert repeats(items) == [Repeat(*each) for each in expected]


@pytest.mark.parametrize("kinds", [2, 3, 10])
def test_what_is_found_repeats_and_does_not_overlap(kinds: int) -> None:
    for length in range(60):
        items = RNG.integers(0, kinds, length).tolist()
        end = 0
        for each in repeats(items):
            assert end <= each.start and each.end - each.start >= 2 * each.period > 0
            end = each.end
            assert items[each.start + each.period : end] == items[each.start : end - each.period]
        assert end <= length


def test_a_repeat_among_much_else_is_found() -> None:
    block = list(range(1000, 1040))
    items = [*range(500), *block * 4, *range(2000, 2500)]
    assert repeats(items) == [Repeat(500, 660, 40)]
