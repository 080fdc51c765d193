"""Deep recursion without a crash: run a function on a thread with a large stack.

TVM's visitors and its virtual machine recurse on the C stack. An 8 MB main-thread stack ends in SIGSEGV near 5,000
nested expressions or 2,000 nested calls. A thread's stack is mapped lazily, so asking for a large one costs address
space, not memory.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["COMPILER_STACK_BYTES", "on_deep_stack"]

T = TypeVar("T")

COMPILER_STACK_BYTES = 512 << 20
_RECURSION_LIMIT = 1_000_000
_lock = threading.Lock()
_local = threading.local()
_running = 0
_outer_limit = sys.getrecursionlimit()


def on_deep_stack(function: Callable[..., T], *args: Any, stack_bytes: int = COMPILER_STACK_BYTES, **kwargs: Any) -> T:
    """Return ``function(*args, **kwargs)``, run on a thread whose stack holds `stack_bytes` bytes.

    An exception is raised again in the calling thread. A call from a thread that this function made already runs in
    place. Thread-local state of the caller, such as a ``PassContext`` entered there, is not seen by `function`.
    """
    if getattr(_local, "deep", False):
        return function(*args, **kwargs)
    outcome: list[Any] = []

    def run() -> None:
        _local.deep = True
        try:
            outcome.append((True, function(*args, **kwargs)))
        except BaseException as error:
            outcome.append((False, error))

    _raise_recursion_limit()
    with _lock:
        previous = threading.stack_size(stack_bytes)
        try:
            thread = threading.Thread(target=run, name="vmkit-deep-stack")
            thread.start()
        finally:
            threading.stack_size(previous)
    thread.join()
    _restore_recursion_limit()
    ok, value = outcome[0]
    if ok:
        return value
    raise value


def _raise_recursion_limit() -> None:
    """Lift Python's recursion limit, which is global to the process, while deep threads run."""
    global _running, _outer_limit
    with _lock:
        if _running == 0:
            _outer_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(_RECURSION_LIMIT)
        _running += 1


def _restore_recursion_limit() -> None:
    global _running
    with _lock:
        _running -= 1
        if _running == 0:
            sys.setrecursionlimit(_outer_limit)
