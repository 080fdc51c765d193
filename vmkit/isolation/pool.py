"""Workers are kept: to start one costs more than most of what they do."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading

from .._dataclasses import dataclass
from .limits import Limits
from .messages import Job
from .worker import Worker

__all__ = ["run_isolated"]

_TEST = "PYTEST_CURRENT_TEST"  # changes with each test of a suite, and says nothing to what is compiled


@dataclass(frozen=True)
class _Surroundings:
    """What a worker took over when it was started, and does not follow: it serves as long as nothing of it changes."""

    folder: str
    path: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    @staticmethod
    def now() -> _Surroundings:
        environment = tuple(sorted((name, value) for name, value in os.environ.items() if name != _TEST))
        return _Surroundings(os.getcwd(), tuple(sys.path), environment)


# One at most: more are only needed at a time, by threads.
_idle: list[tuple[_Surroundings, Worker]] = []
_changing = threading.Lock()


def run_isolated(function: str, *arguments: object, what: str, limits: Limits | None = None) -> object:
    """Return what a function returns that is called in another process.

    Parameters
    ----------
    function : str
        ``MODULE:NAME``, which the other process imports.
    *arguments
        Whatever can be pickled, as the result has to be.
    what : str
        What is done, for errors, such as ``"mnist.onnx was compiled"``.
    limits : Limits, optional
        How long it may take and how much memory the process may have.

    Raises
    ------
    CompileError
        If the process ends, or passes a limit. What the function raises is raised here, of the same class and with the
        same text.
    """
    limits = limits or Limits()
    surroundings = _Surroundings.now()
    worker = _taken(surroundings, limits)
    level = logging.getLogger("vmkit").getEffectiveLevel()
    try:
        return worker.call(Job(function, arguments, level), what, limits)
    finally:
        _give_back(surroundings, worker)


def _taken(surroundings: _Surroundings, limits: Limits) -> Worker:
    """Return an idle worker that fits, or a new one."""
    with _changing:
        found = _idle.pop() if _idle else None
    if found is None:
        return Worker()
    known, worker = found
    # One that has grown leaves a job less than what the job is given.
    has_room = limits.max_memory is None or worker.resident_bytes * 2 < limits.max_memory
    if known == surroundings and worker.is_there and has_room:
        return worker
    worker.end()
    return Worker()


def _give_back(surroundings: _Surroundings, worker: Worker) -> None:
    with _changing:
        if worker.is_there and not _idle:
            _idle.append((surroundings, worker))
            return
    worker.end()


@atexit.register
def _end_all() -> None:
    with _changing:
        while _idle:
            _idle.pop()[1].end()


def _forget() -> None:
    """After a fork: workers are the parent's."""
    global _changing
    _changing = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
