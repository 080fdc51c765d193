"""Where a sequence repeats itself: the layers of a model among its kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from ..._dataclasses import dataclass

__all__ = ["Repeat", "repeats"]

_LONGEST = 16  # of the pieces whose last occurrence is looked for
_MOST_PERIODS = 16  # that are tried, so that the time is linear


@dataclass(frozen=True)
class Repeat:
    """A stretch of a sequence in which each item is the one a period before it.

    Parameters
    ----------
    start, end
        Positions: the first item, which is in the first period, and the one after the last.
    period
        In items. The stretch has two of them at least; the last may be cut short.
    """

    start: int
    end: int
    period: int


def repeats(items: Sequence[Hashable]) -> list[Repeat]:
    """Return stretches that repeat themselves, in their order; none overlaps another.

    Of those that overlap, the one in which most repeats what was before is taken, such as the layers of a model and not
    the three products of one layer. The time is linear in the number of items, for periods that are seldom are not
    tried.
    """
    periods = [period for period, _ in _distances(items).most_common(_MOST_PERIODS)]
    found = [repeat for period in sorted(periods) for repeat in _of_period(items, period)]
    taken: list[Repeat] = []
    covered = bytearray(len(items))
    for repeat in sorted(found, key=lambda one: one.start + one.period - one.end):
        if not any(covered[repeat.start : repeat.end]):
            covered[repeat.start : repeat.end] = b"\1" * (repeat.end - repeat.start)
            taken.append(repeat)
    return sorted(taken, key=lambda one: one.start)


def _distances(items: Sequence[Hashable]) -> Counter[int]:
    """Return how often a piece of the sequence is a distance after the same piece; pieces are of 1, 2, 4 ... items.

    Single items do not tell the period of one that has each item twice.
    """
    found: Counter[int] = Counter()
    pieces, length = list(items), 1
    while length <= _LONGEST and pieces:
        last: dict[Hashable, int] = {}
        number: dict[Hashable, int] = {}
        for position, piece in enumerate(pieces):
            if piece in last:
                found[position - last[piece]] += 1
            last[piece] = position
            number.setdefault(piece, len(number))
        numbered = [number[piece] for piece in pieces]
        pieces = list(zip(numbered, numbered[length:], strict=False))
        length *= 2
    return found


def _of_period(items: Sequence[Hashable], period: int) -> Iterator[Repeat]:
    """Yield the stretches that repeat themselves with a period."""
    start = period  # of the items that are equal to those before them
    for position in range(period, len(items) + 1):
        if position == len(items) or items[position] != items[position - period]:
            if position - start >= period:
                yield Repeat(start - period, position, period)
            start = position + 1
