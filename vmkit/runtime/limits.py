"""Runs that end before they are done: cancelled, too long, or given up by the caller whom a signal interrupted.

A program that can run for any time runs on a thread of its own and looks at a flag (see :mod:`.polling`). The caller
waits, so that handlers of signals run as ever, and sets the flag where the run is to end.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
from tvm.runtime import Tensor

from .._dataclasses import dataclass
from .._tvm.running import RAISED_IN_PYTHON, declare_packed, fail_packed
from ..errors import OptionError, VMError
from ..stack import DeepThread, checked_stack
from ..values.kernel_needs import LOOK_BYTES, POLL
from .memory_limit import Budget, checked_memory

__all__ = ["CANCELLED", "Limits", "RunState", "Stopper", "checked_timeout", "is_of_tvm"]

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """What calls of a machine may take.

    Parameters
    ----------
    timeout
        Seconds that a call may take; None for any time.
    stack_bytes
        The stack of the thread that recursive programs run on, if not what the compiler said.
    budget
        The memory that the machine may use; None for any.
    """

    timeout: float | None = None
    stack_bytes: int | None = None
    budget: Budget | None = None

    @staticmethod
    def of(timeout: float | None, stack_bytes: int | None, max_memory: int | None) -> Limits:
        """Return limits that a caller asked for; OptionError for one that is none."""
        return Limits(
            checked_timeout(timeout),
            None if stack_bytes is None else checked_stack(stack_bytes),
            None if max_memory is None else Budget(checked_memory(max_memory)),
        )


_local = threading.local()
CANCELLED = "the call was cancelled"


def checked_timeout(timeout: float | None) -> float | None:
    """Return seconds that a caller asked for; OptionError if they are none."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= threading.TIMEOUT_MAX:
        raise OptionError(f"timeout is {timeout!r}, expected seconds, more than 0")
    return float(timeout)


def is_of_tvm(error: Exception) -> bool:
    """Tell whether an error came out of TVM, and not from what else runs in a call, such as a handler of a signal."""
    return hasattr(error, "__tvm_ffi_error__")


class _Run:
    """One run: why it is to end, if it is."""

    def __init__(self) -> None:
        self.reason: str | None = None


class RunState:
    """Ends the kernel groups and loops of one machine's program, which ask from time to time whether to go on.

    Parameters
    ----------
    state
        What they look at.
    lock
        What calls of the machine hold.

    Attributes
    ----------
    flag : array of one number
        Whether they are to end.
    thread : array of one number
        The thread that handlers of signals run on.
    """

    def __init__(self, state: Tensor, lock: threading.RLock) -> None:
        # The view keeps the tensor alive.
        view = np.from_dlpack(state)
        view[:] = (LOOK_BYTES, 0, RAISED_IN_PYTHON, _main_thread(), 0, 0, 0, 0)
        self.flag, self.thread = view[1:2], view[3:4]
        _states.add(self)
        self._lock = lock

    def cancel(self) -> None:
        """End the call that runs now, and those that wait for it, at their next look."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return
        self.flag[0] = 1
        threading.Thread(target=self._forget, name="vmkit-cancel", daemon=True).start()

    def _forget(self) -> None:
        """Let calls run again once those that there were have ended."""
        with self._lock:
            self.flag[0] = 0


def _main_thread() -> int:
    """Return the thread that Python's handlers of signals run on, as ``pthread_self`` has it, as an int64."""
    ident = threading.main_thread().ident or 0
    return ident - (1 << 64) if ident >> 63 else ident


_states: WeakSet[RunState] = WeakSet()


def _after_fork() -> None:
    """Have handlers of signals run on the thread that forked, which is the forked process' main one."""
    for state in _states:
        state.thread[0] = _main_thread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Stopper:
    """Ends the runs of one machine, of which one goes on at a time.

    Parameters
    ----------
    flag
        The flag of the machine's program.
    timeout
        How long a run may take, in seconds; None for any time.
    state
        What the program's kernel groups look at, if there is something.
    """

    def __init__(self, flag: Tensor, timeout: float | None, state: RunState | None = None) -> None:
        # The view keeps the tensor alive.
        own = np.from_dlpack(flag).view("uint8").reshape(1)
        self._flags = [own] if state is None else [own, state.flag]
        self._timeout = timeout
        self._current: _Run | None = None
        # Runs that have not ended, those that wait for their turn too.
        self._runs: list[_Run] = []

    def call(self, thread: DeepThread, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(*args)``, run on a thread; the run is ended if it takes too long, or the caller gives up.

        Raises
        ------
        VMError
            If it was cancelled, or took too long.
        """
        run = _Run()

        def overdue() -> None:
            self._stop(run, f"the call took longer than the timeout of {self._timeout:g} s")

        def given_up() -> None:
            self._stop(run, "the call was given up")

        self._runs.append(run)
        _wake_for_interrupts()
        try:
            return thread.call(self._on_thread, run, function, args, timeout=self._timeout, late=overdue, left=given_up)
        finally:
            self._runs.remove(run)

    def cancel(self) -> None:
        """End the run that goes on now, if there is one, at its next look at the flag, and those that wait."""
        for run in self._runs.copy():
            self._stop(run, CANCELLED)

    def _stop(self, run: _Run, reason: str) -> None:
        run.reason = reason
        if self._current is run:
            self._put(1)

    def _put(self, value: int) -> None:
        for flag in self._flags:
            flag[0] = value

    def _on_thread(self, run: _Run, function: Callable[..., T], args: tuple[Any, ...]) -> T:
        outer, outer_run = getattr(_local, "run", None), self._current
        _local.run = self._current = run
        # Who stops the run from here on sets the flag; who did before is seen by its reason.
        self._put(0)
        try:
            if run.reason is None:
                return function(*args)
        except Exception as error:
            if run.reason is None or not is_of_tvm(error):
                raise
        finally:
            _local.run, self._current = outer, outer_run
        raise VMError(run.reason)


def _wake_for_interrupts() -> None:
    """Let Ctrl-C end the waiting for a lock again.

    The solver in TVM, which the compiler uses, puts Python's handler of SIGINT back so that the system goes on waiting
    once it has run, and then Python does not get to raise what it asks for.
    """
    if hasattr(signal, "siginterrupt") and callable(signal.getsignal(signal.SIGINT)):
        signal.siginterrupt(signal.SIGINT, True)


def _poll(_self: int, _args: int, _count: int, _result: int) -> int:
    run: _Run | None = getattr(_local, "run", None)
    reason = CANCELLED if run is None else run.reason
    return 0 if reason is None else fail_packed(reason.encode())


declare_packed(POLL, _poll)
