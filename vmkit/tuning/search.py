"""The search for the best decisions: from the default ones, one decision at a time to what is faster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict

from ..schedule.rule import D

__all__ = ["search"]

_WORTH = 0.97  # the part of the default's time that is worth other decisions: less is noise


def search(
    default: D,
    candidates: Iterable[D],
    seconds_of: Callable[[D], float | None],
    seconds: float,
    most: int | None = None,
    patience: int | None = None,
) -> tuple[D, float, float] | None:
    """Return the best decisions found, and the seconds of a call with the default and with these ones.

    Parameters
    ----------
    default
        The decisions to begin with.
    candidates : iterable
        The decisions that may be tried.
    seconds_of : callable
        Measures decisions; None where that fails.
    seconds : float
        The time after which nothing else is tried.
    most : int, optional
        How many decisions are tried, the default ones included.
    patience : int, optional
        After how many that were no better nothing else is tried.

    Returns
    -------
    tuple or None
        None where the default ones cannot be measured.
    """
    end = time.monotonic() + seconds
    measured: dict[D, float | None] = {default: seconds_of(default)}
    if measured[default] is None:
        return None
    candidates, best = list(candidates), default
    idle = 0

    def is_over() -> bool:
        spent = most is not None and len(measured) >= most
        return spent or time.monotonic() >= end or (patience is not None and idle >= patience)

    improved = True
    while improved and not is_over():
        improved = False
        for candidate in _neighbours(best, candidates):
            if candidate in measured:
                continue
            if is_over():
                break
            measured[candidate] = seconds_of(candidate)
            idle += 1
            if _less(measured[candidate], measured[best]):
                best, improved, idle = candidate, True, 0
    return _confirmed(default, best, seconds_of)


def _neighbours(decisions: D, candidates: list[D]) -> list[D]:
    """Return the candidates that differ in one decision."""
    own = asdict(decisions).items()
    return [c for c in candidates if len(asdict(c).items() - own) == 1]


def _less(new: float | None, old: float | None) -> bool:
    return new is not None and (old is None or new < old)


def _confirmed(default: D, best: D, seconds_of: Callable[[D], float | None]) -> tuple[D, float, float] | None:
    """Measure both again in turns, and return the default decisions where the others are no faster then."""
    times: dict[D, list[float]] = {default: [], best: []}
    for _ in range(2):
        for decisions, taken in times.items():
            seconds = seconds_of(decisions)
            if seconds is None:
                return None if decisions == default else _confirmed(default, default, seconds_of)
            taken.append(seconds)
    before, after = min(times[default]), min(times[best])
    return (best, before, after) if after < before * _WORTH else (default, before, before)
