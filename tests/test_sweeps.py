"""Of a sweep, CI has a part that is told by the places of the values, and nightly has the rest."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sweeps import is_in_ci


def in_ci(each: int, **axes: int) -> list[tuple[int, ...]]:
    """Return the places of the cases that CI has, of axes of some lengths."""
    marks = [pytest.mark.parametrize(name, range(length)).mark for name, length in axes.items()]

    def item(places: tuple[int, ...]) -> Any:
        callspec = SimpleNamespace(indices=dict(zip(axes, places, strict=True)))
        return SimpleNamespace(callspec=callspec, iter_markers=lambda name: marks)

    return [places for places in product(*map(range, axes.values())) if is_in_ci(item(places), each)]


def test_axes_advance_together_so_that_each_value_is_in_a_case() -> None:
    assert in_ci(1, a=2, b=4) == [(0, 0), (0, 2), (1, 1), (1, 3)]
    assert in_ci(1, a=3, b=3) == [(0, 0), (1, 1), (2, 2)]
    assert in_ci(1, a=2, b=2, c=3) == [(0, 0, 0), (0, 0, 2), (1, 1, 1)]


def test_one_of_several_cases_of_the_longest_axis_with_each_value_of_the_others() -> None:
    assert in_ci(3, a=8) == [(0,), (3,), (6,)]
    assert in_ci(2, a=6, b=2) == [(0, 0), (2, 1), (4, 0)]


@pytest.mark.parametrize(("n", "m"), [(1, "a"), (2, "b")])
@pytest.mark.parametrize("first, second", [(0, 0)])
@pytest.mark.sweep
def test_names_of_an_axis_are_given_in_either_form(n: int, m: str, first: int, second: int) -> None:
    assert (n, m) in {(1, "a"), (2, "b")} and first == second == 0
