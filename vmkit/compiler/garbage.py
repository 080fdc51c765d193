"""Python's search for garbage in cycles while a program is compiled."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["old_objects_left_alone"]

_SELDOM = 1_000  # searches among young objects before one among all

_lock = threading.Lock()
_inside = 0
_before: tuple[int, int, int] = (0, 0, 0)


@contextmanager
def old_objects_left_alone() -> Iterator[None]:
    """Have cycles searched for among young objects, and seldom among all that the process has.

    A compilation makes objects faster than most programs and leaves hardly any in cycles, so that Python looks through
    all modules and nodes several times and finds nothing: a twentieth of the time. How often it does is the process's;
    it is set back when the last compilation has ended, unless somebody else has changed it meanwhile.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = gc.get_threshold()
            young, middle, old = _before
            gc.set_threshold(young, middle, max(old, _SELDOM))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and gc.get_threshold() == (*_before[:2], max(_before[2], _SELDOM)):
                gc.set_threshold(*_before)
