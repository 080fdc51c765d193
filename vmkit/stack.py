"""Deep recursion without a crash: run a function on a thread with a large stack.

TVM's visitors and its virtual machine recurse on the C stack. An 8 MB main-thread stack ends in SIGSEGV near 5,000
nested expressions or 2,000 nested calls. A thread's stack is mapped lazily, so asking for a large one costs address
space, not memory.
"""

from __future__ import annotations

import atexit
import contextvars
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from .errors import OptionError

__all__ = [
    "COMPILER_STACK_BYTES",
    "MACHINE_STACK_BYTES",
    "SMALLEST_STACK_BYTES",
    "DeepThread",
    "checked_stack",
    "on_deep_stack",
]

_log = logging.getLogger(__name__)

T = TypeVar("T")

COMPILER_STACK_BYTES = 512 << 20
MACHINE_STACK_BYTES = 1 << 30
SMALLEST_STACK_BYTES = 16 << 20
_RECURSION_LIMIT = 1_000_000
_EXIT_SECONDS = 5.0  # for which the end of the process waits for calls that were told to end
_lock = threading.Lock()
_local = threading.local()


def on_deep_stack(function: Callable[..., T], *args: Any, stack_bytes: int = COMPILER_STACK_BYTES, **kwargs: Any) -> T:
    """Return ``function(*args, **kwargs)``, run on a thread whose stack holds `stack_bytes` bytes.

    An exception is raised again in the calling thread. A call from a thread that this function made already runs in
    place. `function` sees the caller's context variables, but not its thread-local state, such as a ``PassContext``
    entered there.
    """
    if getattr(_local, "deep", False):
        return function(*args, **kwargs)
    outcome: list[Any] = []
    context = contextvars.copy_context()

    def run() -> None:
        _local.deep = True
        with _recursion:
            try:
                outcome.append((True, context.run(function, *args, **kwargs)))
            except BaseException as error:  # handed to the caller's thread
                outcome.append((False, error))

    with _lock:
        previous = threading.stack_size(stack_bytes)
        try:
            thread = threading.Thread(target=run, name="vmkit-deep-stack")
            thread.start()
        finally:
            threading.stack_size(previous)
    thread.join()
    ok, value = outcome[0]
    if ok:
        return value
    raise value


def checked_stack(stack_bytes: int) -> int:
    """Return the size of a stack that a caller asked for; OptionError if it is none."""
    if isinstance(stack_bytes, bool) or not isinstance(stack_bytes, int) or stack_bytes < SMALLEST_STACK_BYTES:
        raise OptionError(
            f"stack_bytes is {stack_bytes!r}, expected a number of bytes, at least {SMALLEST_STACK_BYTES}"
        )
    return stack_bytes


class _DeepRecursion:
    """Python's recursion limit lifted while at least one thread is inside.

    The limit is the process's, and no thread can have one of its own. So deep threads lift it for themselves alone:
    not before they have started, and until the last of them has ended. What somebody else sets meanwhile stays.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(_RECURSION_LIMIT, self._before))
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and sys.getrecursionlimit() == max(_RECURSION_LIMIT, self._before):
                sys.setrecursionlimit(self._before)


_recursion = _DeepRecursion()


def _nothing() -> None:
    """Do nothing."""


_threads: weakref.WeakSet[DeepThread] = weakref.WeakSet()


def _after_fork() -> None:
    """Note in a forked process that it has none of the threads."""
    global _lock
    _lock = threading.Lock()
    for thread in list(_threads):
        thread.is_lost = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _at_exit() -> None:
    """End what still runs: Python ends a thread that comes back to it then, and frames of C++ do not survive that."""
    for thread in list(_threads):
        thread.end(_EXIT_SECONDS)


class DeepThread:
    """A thread with a large stack that runs one call after another, for as long as this object lives.

    Where the system grants no stack of `stack_bytes`, the largest half, quarter ... that it does is used, and a
    warning says so.

    Examples
    --------
    >>> DeepThread(64 << 20).call(sum, [1, 2, 3])
    6
    """

    def __init__(self, stack_bytes: int = MACHINE_STACK_BYTES) -> None:
        self.is_lost = False  # whether this is a copy in a forked process, which has no thread
        _threads.add(self)
        self._jobs: SimpleQueue[Any] = SimpleQueue()
        self.stack_bytes = stack_bytes
        self._waiting: list[Callable[[], None]] = []  # by the call that is waited for, what ends it
        self._thread = self._start()
        weakref.finalize(self, self._jobs.put, None)

    def _start(self) -> threading.Thread:
        size = self.stack_bytes
        while True:
            try:
                thread = _start_thread(_work, self._jobs, size)
            except (RuntimeError, MemoryError, ValueError):
                if size // 2 < SMALLEST_STACK_BYTES:
                    raise
                size //= 2
                continue
            if size != self.stack_bytes:
                _log.warning(
                    "no stack of %d MiB was granted; running with %d MiB, so recursion reaches less deep",
                    self.stack_bytes >> 20,
                    size >> 20,
                )
                self.stack_bytes = size
            return thread

    def call(
        self,
        function: Callable[..., T],
        *args: Any,
        timeout: float | None = None,
        late: Callable[[], None] = _nothing,
        left: Callable[[], None] = _nothing,
    ) -> T:
        """Return ``function(*args)``, run on the thread; an exception is raised again here.

        `late` is called once `timeout` seconds have passed, after which the result is waited for all the same. `left`
        is called if an exception, such as one of a signal's handler, ends the waiting; what runs goes on then.
        """
        if threading.current_thread() is self._thread:
            return function(*args)
        outcome: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        self._jobs.put((function, args, outcome))
        del args
        self._waiting.append(left)
        try:
            try:
                ok, value = outcome.get(timeout=timeout)
            except Empty:
                late()
                ok, value = outcome.get()
        except BaseException:
            left()
            raise
        finally:
            self._waiting.remove(left)
        if ok:
            return value
        raise value

    def end(self, timeout: float) -> None:
        """End the calls that are waited for, and wait for the thread's end for some seconds."""
        if self.is_lost:
            return
        for left in self._waiting.copy():
            left()
        self._jobs.put(None)
        self._thread.join(timeout)

    def release(self, values: list[Any]) -> None:
        """Empty `values` on the thread, where dropping a deeply nested value cannot overflow the stack."""
        self._jobs.put((values.clear, (), None))


def _start_thread(target: Callable[..., None], jobs: SimpleQueue[Any], stack_bytes: int) -> threading.Thread:
    with _lock:
        previous = threading.stack_size(stack_bytes)
        try:
            thread = threading.Thread(target=target, args=(jobs,), name="vmkit-deep-stack", daemon=True)
            thread.start()
            return thread
        finally:
            threading.stack_size(previous)


def _work(jobs: SimpleQueue[Any]) -> None:
    _local.deep = True
    while (job := jobs.get()) is not None:
        function, args, outcome = job
        try:
            result = (True, function(*args))
        except BaseException as error:  # handed to the caller's thread
            result = (False, error)
        # Nothing of this job may outlive it: its values would be kept until the next one.
        del job, function, args
        if outcome is not None:
            outcome.put(result)
        del result, outcome
