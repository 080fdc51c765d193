"""The pool of threads that this process' kernels share their work among.

Its code lies in the libraries of kernels (``pool.ll``), and the first of them that is loaded for more than one thread
gives it. All machines, of whatever thread, have this one pool: it has as many threads as the largest number that a call
was allowed, less the caller's own. A kernel's parts are done by whoever comes first, so that a call does not wait for
threads which have no processor. One that has nothing to do leaves its processor to others, and sleeps after 30 ms:
what comes before that need not wait until it is awake. The environment variable ``TVM_THREAD_POOL_SPIN_COUNT`` sets
that time, as it does for TVM's pool: 100,000 are about 30 ms, and with 0 a thread sleeps at once.

Kernels of libraries that do not have it share their work by TVM's pool, which every calling thread has one of.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Sequence

import tvm.runtime

from .._tvm.running import THREAD_LIMIT_ADDRESS
from ..errors import OptionError
from ..executable.pool_names import SLOT, TABLE

__all__ = ["Pool", "process_pool", "share_work"]

logger = logging.getLogger(__name__)

# TVM's variable for its own pool: how often a thread looks for work before it sleeps. Here it looks more quickly.
_LOOKS = "TVM_THREAD_POOL_SPIN_COUNT"
_LOOKS_OF_A_ROUND = 8
_MOST_LOOKS = 1 << 31


class _Table(ctypes.Structure):
    """The addresses in ``pool.ll``'s table."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("launch", "start", "reset", "limit", "rounds", "slot"))


class Pool:
    """Threads, and what kernels call to share work among them.

    Parameters
    ----------
    library : Module
        Which has the pool's code, and is held for good.
    table
        The addresses in it.
    """

    def __init__(self, library: tvm.runtime.Module, table: _Table) -> None:
        self._library = library
        self._launch = table.launch
        self._start = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(table.start)
        self._reset = ctypes.CFUNCTYPE(None)(table.reset)
        rounds = _rounds()
        self._lock = threading.Lock()
        self._threads = 0
        self._is_refused = False
        self._reset()
        ctypes.c_void_p.from_address(table.limit).value = THREAD_LIMIT_ADDRESS
        if rounds is not None:
            ctypes.c_int32.from_address(table.rounds).value = rounds

    @property
    def size(self) -> int:
        """How many threads share work: those of the pool, and one that calls."""
        return 1 + self._threads

    def grow(self, size: int) -> None:
        """Have at least so many threads share work, the calling one included, if the system gives them.

        Where it has refused one it is not asked again: those that are there do all the work.
        """
        with self._lock:
            while self.size < size and not self._is_refused:
                error = self._start(self.size)
                self._is_refused = error != 0
                if error:
                    logger.warning("kernels run on %d threads instead of %d: %s", self.size, size, os.strerror(error))
                else:
                    self._threads += 1

    def take(self, slot: int) -> None:
        """Have the kernels of the library that `slot` is the address of share their work here."""
        ctypes.c_void_p.from_address(slot).value = self._launch

    def forget_threads(self) -> None:
        """Note in a forked process that it has none of the threads."""
        self._lock = threading.Lock()
        self._threads = 0
        self._is_refused = False
        self._reset()


_lock = threading.Lock()
_pool: Pool | None = None


def process_pool() -> Pool | None:
    """Return the pool of this process; None as long as nothing was loaded that has its code."""
    return _pool


def share_work(libraries: Iterable[tvm.runtime.Module]) -> None:
    """Have the kernels of libraries, and of what they import, share their work by this process' pool."""
    every = [each for library in libraries for each in (library, *library.imports)]
    with _lock:
        for library in every:
            _find_pool(library)
        if _pool is not None:
            for slot in _slots(every):
                _pool.take(slot)


def _find_pool(library: tvm.runtime.Module) -> None:
    """Have the kernels of a library that has a pool's code use the process' pool, which is that one's if it is new."""
    global _pool
    told = _told(library, TABLE)
    if told is None:
        return
    table = _Table.from_address(told)
    if _pool is None:
        _pool = Pool(library, table)
    _pool.take(table.slot)


def _slots(libraries: Sequence[tvm.runtime.Module]) -> Iterator[int]:
    """Yield the addresses of what the kernels of libraries share their work by."""
    for number in itertools.count():
        addresses = (_told(each, f"{SLOT}{number}") for each in libraries)
        slot = next((address for address in addresses if address is not None), None)
        if slot is None:
            return
        yield slot


def _told(library: tvm.runtime.Module, name: str) -> int | None:
    """Return what a function of a library returns; None if it has none of that name."""
    # LLVM does not tell which functions are in what it has read.
    if library.kind != "llvm" and not library.implements_function(name):
        return None
    try:
        function = library.get_function(name)
    except AttributeError:
        return None
    return int(function())


def _rounds() -> int | None:
    """Return how often a thread looks for work before it sleeps, if the environment says it."""
    looks = os.environ.get(_LOOKS)
    if not looks:
        return None
    if not looks.isdecimal():
        raise OptionError(f"the environment variable {_LOOKS} is {looks!r}, expected how often to look, 0 or more")
    return min(int(looks), _MOST_LOOKS) // _LOOKS_OF_A_ROUND


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    if _pool is not None:
        _pool.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
