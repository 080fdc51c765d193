"""Work on kernels, of which TVM's part runs without Python's lock, on several cores."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

from ..stack import on_deep_stack
from ..target.llvm import host_cores
from .surroundings import Surroundings

__all__ = ["cores_to_use", "on_all_cores", "using_cores"]

T = TypeVar("T")
R = TypeVar("R")

_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextlib.contextmanager
def using_cores(most: int | None) -> Iterator[None]:
    """Have kernels built by so many threads inside; None for one on each core that the process may use.

    >>> with using_cores(1):
    ...     cores_to_use()
    1
    """
    token = _most.set(most)
    try:
        yield
    finally:
        _most.reset(token)


def cores_to_use() -> int:
    """Return on how many cores kernels are built."""
    return _most.get() or host_cores()


def on_all_cores(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield what a function returns for each item, in their order, with what the caller entered in force.

    One core, and a caller whose instruments keep what they see for each thread by itself, are served in place.
    """
    surroundings = Surroundings.capture()
    cores = min(cores_to_use(), len(items))
    if cores < 2 or surroundings.has_instruments:
        yield from map(function, items)
        return

    def entered(item: T) -> R:
        with surroundings.entered():
            return function(item)

    with ThreadPoolExecutor(cores, thread_name_prefix="vmkit-build") as pool:
        yield from pool.map(lambda item: on_deep_stack(entered, item), items)
