"""Which cases of a test over many run in CI, and which nightly.

``@pytest.mark.sweep`` is for a test that is parametrised along several axes: CI has the cases of one walk, in which all
axes advance together, so that every value of every parameter is in one of them at least. ``sweep(each=4)`` is for a
long axis of cases of one kind, of which CI has the first and every fourth after it; shorter axes advance with it. The
nightly run has the rest. A case of its own kind, such as one that a bug left, belongs in a test without the marker.
"""

from __future__ import annotations

import pytest

__all__ = ["is_in_ci"]


def is_in_ci(item: pytest.Item, each: int = 1) -> bool:
    """Return whether CI has a case: whether the walk along the axes, with steps of ``each`` on the longest, meets it.

    Parameters
    ----------
    item
        A case of a parametrised test.
    each
        How many cases of the longest axis there are for each that CI has.
    """
    places = item.callspec.indices  # type: ignore[attr-defined]
    axes = []
    for mark in item.iter_markers("parametrize"):
        names, values = mark.args
        first = names.split(",")[0].strip() if isinstance(names, str) else names[0]
        axes.append((len(values), places[first]))
    (longest, place), *others = sorted(axes, key=lambda axis: -axis[0])
    step, beyond = divmod(place, each)
    return beyond == 0 and place < longest and all(at == step % length for length, at in others)
