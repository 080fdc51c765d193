"""Python's search for garbage in cycles while a program is compiled."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..values.host_memory import return_free_memory

__all__ = ["free_cycles", "old_objects_left_alone"]

_YOUNG = 50_000  # objects more than before, and then a search among the new ones
_SELDOM = 1_000  # such searches before one among all

_lock = threading.Lock()
_inside = 0
_before: tuple[int, int, int] = (0, 0, 0)


@contextmanager
def old_objects_left_alone() -> Iterator[None]:
    """Have cycles searched for among young objects, and seldom among all that the process has.

    A compilation makes objects faster than most programs and leaves hardly any in cycles, so that Python looks through
    all modules and nodes several times and finds nothing: a tenth of the time. How often it does is the process's;
    it is set back when the last compilation has ended, unless somebody else has changed it meanwhile.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = gc.get_threshold()
            gc.set_threshold(*_seldom(_before))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and gc.get_threshold() == _seldom(_before):
                gc.set_threshold(*_before)


def free_cycles() -> None:
    """Free what this compilation has left in cycles, and give the memory back to the system.

    Of lowering that is a fifth of what it made, such as what recursive functions within functions refer to, which would
    be there while LLVM takes its memory. Objects that were there before are not looked at.
    """
    if gc.isenabled():
        gc.collect(1)
        return_free_memory()


def _seldom(thresholds: tuple[int, int, int]) -> tuple[int, int, int]:
    young, middle, old = thresholds
    # A process that never searches by itself goes on without.
    return max(young, _YOUNG) if young else 0, middle, max(old, _SELDOM)
