"""``--tasks``: which of a model's kernels are tuned, and the list that people choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .exceptions import TVMCException

__all__ = ["TaskFilterError", "filter_tasks", "gen_task_list"]

_SHOWN = 100  # characters of a task in a list

T = TypeVar("T")


class TaskFilterError(TVMCException, AssertionError):
    """A text of ``--tasks`` that chooses nothing."""


def filter_tasks(tasks: Sequence[T], expr: str) -> tuple[list[T], bool]:
    """Return the tasks that a text chooses, and whether they are to be listed.

    Parameters
    ----------
    tasks : sequence
        What there is.
    expr : str
        With commas between them: ``all``, a place ``3``, places ``2-5``, ``-5`` or ``6-``, or ``list`` (or ``help``).

    Raises
    ------
    TaskFilterError
        For a place that there is not, and a text of another form.

    >>> filter_tasks(list("abcdef"), "0,2-3")
    (['a', 'c', 'd'], False)
    """
    chosen: set[int] = set()
    is_list = False
    for word in (each.strip() for each in expr.split(",")):
        if word in ("list", "help"):
            is_list = True
        elif word == "all":
            chosen.update(range(len(tasks)))
        elif "-" in word:
            chosen.update(_range(word, len(tasks)))
        else:
            if not word.isdigit():
                raise TaskFilterError(f"--tasks {expr!r}: expected all, list, or places such as 0,2-5")
            if int(word) >= len(tasks):
                raise TaskFilterError(f"Task index out of range: {word}, and there are {len(tasks)}")
            chosen.add(int(word))
    return [task for place, task in enumerate(tasks) if place in chosen], is_list


def _range(word: str, count: int) -> range:
    sides = word.split("-")
    if len(sides) != 2 or not all(side.isdigit() or not side for side in sides):
        raise TaskFilterError(f"Malformed range expression: {word}; expected such as 2-5, -5 or 6-")
    if not any(sides):
        raise TaskFilterError(f"Missing lhs or rhs for range expression: {word}")
    first, last = int(sides[0] or 0), int(sides[1] or count - 1)
    if last >= count:
        raise TaskFilterError(f"Right-hand side expression out of range: {last}, and there are {count}")
    if first > last:
        raise TaskFilterError(f"Left-hand side expression out of range: {first}, and the right-hand side is {last}")
    return range(first, last + 1)


def gen_task_list(tasks: Sequence[object], enable_autoscheduler: bool = False) -> str:
    """Return a list of tasks with their places, for people to choose from.

    With `enable_autoscheduler` tasks have descriptions (``desc``), as those of the auto-scheduler had.
    """
    described = _description if enable_autoscheduler else _shown
    return "\n".join(["Available Tasks for tuning:", *(f"  {at}. {described(task)}" for at, task in enumerate(tasks))])


def _description(task: object) -> str:
    return _short(str(getattr(task, "desc", None) or "Unnamed"))


def _shown(task: object) -> str:
    space = getattr(task, "config_space", None)
    return f"{_short(str(task))} (len={'?' if space is None else len(space)})"


def _short(text: str) -> str:
    return text if len(text) < _SHOWN else text[: _SHOWN - 3] + "..."
