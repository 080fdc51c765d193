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
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            outcome.append((False, error))

    with _lock:
        # Both settings are global to the process; the recursion limit is only ever raised, because another
        # deep thread may be relying on it.
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION_LIMIT))
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
