"""How many threads the kernels of a call run on.

Kernels share their work among the threads of this process' pool (:mod:`.pool`). Libraries without its code, which are
those for other systems and files of earlier releases, do so by TVM's: TVM keeps a pool of worker threads for every
thread that calls kernels. It is made when a kernel first shares its work, has as many threads as that calling thread
was allowed at that moment, and never grows. With both, how many threads a kernel uses is a setting of the calling
thread. Left alone, four Python threads on four cores would have sixteen threads compute. So here

- every call says how many threads it may use, and the calling thread is set to that: with one, kernels run in the
  caller's thread, and no pool is made or woken;
- calls at the same time, of whatever machine, divide the processors of this process among them;
- worker threads may run on any processor that the process may use: they are not bound to one, unless they are TVM's
  and the environment variable ``TVM_BIND_THREADS`` is set to 1.

What a call sets stays set for its thread: kernels that it calls later without vmkit use as many threads.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .._tvm.running import configure_pool, limit_threads_of_this_thread, pool_size
from ..errors import OptionError
from .pool import process_pool

__all__ = ["PoolTooSmall", "call_with_threads", "checked_threads", "default_threads", "usable_processors"]

T = TypeVar("T")

os.environ.setdefault("TVM_BIND_THREADS", "0")

_VARIABLES = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_DEFAULT_MODE = 1

# One entry for each call that runs, and one for each thread that those calls use. Adding to a list and cutting off its
# end are single steps of the interpreter, and without its lock, of the list's own; a number would need one to count.
_calls: list[None] = []
_in_use: list[None] = []


class _Setting(threading.local):
    """What the calling thread is set to, and how many threads its pool has; 0 is nothing yet."""

    threads = 0
    pool = 0


_setting = _Setting()


def _after_fork() -> None:
    """Note in a forked process that the calling thread's pool has none of its threads: a call needs another thread."""
    _calls.clear()
    _in_use.clear()
    if _setting.pool > 0:
        _setting.pool = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class PoolTooSmall(Exception):
    """The calling thread has a pool of TVM's already, of fewer threads than were asked for."""


@functools.cache
def usable_processors() -> int:
    """Return how many processors this process may use: those it is bound to, within the quota of its control group."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        return max(1, min(bound, -(-int(quota) // int(period))))
    except (OSError, ValueError):  # no such system, or "max"
        return bound


@functools.cache
def _usable_cores() -> int:
    """Return how many cores these processors are: kernels keep a core's units busy with one thread."""
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    try:
        cores = {Path(_SIBLINGS.format(processor)).read_text() for processor in processors}
    except OSError:
        return usable_processors()
    return min(len(cores), usable_processors())


def default_threads(compiled_for: int = 0) -> int:
    """Return how many threads a machine uses that was not told.

    What the environment variable ``TVM_NUM_THREADS`` or ``OMP_NUM_THREADS`` says; else one for each core that this
    process may use, but not more than the cores that the program was compiled for, if that is known.

    Raises
    ------
    OptionError
        If the variable is not a number of threads.
    """
    for variable in _VARIABLES:
        told = os.environ.get(variable)
        if told:
            if not told.isdigit() or int(told) < 1:
                raise OptionError(f"the environment variable {variable} is {told!r}, expected a number of threads")
            return int(told)
    return min(compiled_for, _usable_cores()) if compiled_for > 0 else _usable_cores()


def checked_threads(num_threads: int) -> int:
    """Return a number of threads that a caller asked for; OptionError if it is none."""
    if isinstance(num_threads, bool) or not isinstance(num_threads, int) or num_threads < 1:
        raise OptionError(f"num_threads is {num_threads!r}, expected a number of threads, at least 1")
    return num_threads


def call_with_threads(num_threads: int, function: Callable[..., T], values: Sequence[Any]) -> T:
    """Return ``function(*values)``, whose kernels use at most `num_threads` threads, the calling one included.

    Calls at the same time divide the processors among them, so that a call gets fewer when others run.

    Raises
    ------
    PoolTooSmall
        If this thread's kernels have used fewer threads before. Another thread is needed then; nothing was called.
    """
    if num_threads == 1:
        if _setting.threads != 1:
            _limit(1)
        _in_use.append(None)
        try:
            return function(*values)
        finally:
            _in_use.pop()
    pool = process_pool()
    if pool is not None:
        if pool.size < num_threads:
            pool.grow(num_threads)
    elif 0 < _setting.pool < num_threads:
        raise PoolTooSmall
    elif _setting.pool == 0:
        _make_pool(num_threads)
    return _call_with_share(num_threads, function, values)


def _call_with_share(num_threads: int, function: Callable[..., T], values: Sequence[Any]) -> T:
    """Call with a fair share of the processors: never more than others leave, and at least the calling thread."""
    processors = max(num_threads, usable_processors())
    _calls.append(None)
    try:
        share = max(1, min(num_threads, processors // len(_calls), processors - len(_in_use)))
        if _setting.threads != share:
            _limit(share)
        _in_use.extend([None] * share)
        try:
            return function(*values)
        finally:
            del _in_use[-share:]
    finally:
        _calls.pop()


def _make_pool(num_threads: int) -> None:
    """Have TVM's pool of this thread made, by asking for its size while the limit is in force."""
    limit_threads_of_this_thread(num_threads)
    pool_size()
    _limit(num_threads)
    _setting.pool = pool_size()
    if _setting.pool < num_threads:
        raise PoolTooSmall


def _limit(threads: int) -> None:
    """Let kernels called from this thread use so many threads."""
    if threads > 1 and process_pool() is None:
        configure_pool(_DEFAULT_MODE, threads)  # how many of the pool's threads get work; it resets the limit
    limit_threads_of_this_thread(threads)  # at 1, kernels do not go to the pool at all
    _setting.threads = threads
