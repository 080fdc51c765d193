"""A worker as the process has it that gives it jobs."""

from __future__ import annotations

import contextlib
import logging
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import BinaryIO, cast

from ..errors import CompileError, CompileMemoryError, CompileTimeoutError, UnavailableError
from .ending import end_with_children
from .limits import Limits, resident_bytes
from .messages import Done, Failed, Job, Logged, RemoteTraceback, receive, send

__all__ = ["Worker"]

_START = "import sys; sys.path[:] = sys.argv[1:]; sys.argv[1:] = []; from vmkit.isolation.child import serve; serve()"
_LAST_LINES = 20
_LOOK = 0.02  # seconds between two looks at the memory of a worker


class Worker:
    """A fresh interpreter that does jobs, one at a time.

    It ends when :meth:`end` is called, when this process ends, however that happens, and when a job passes its limits.
    """

    def __init__(self) -> None:
        if not sys.executable:
            raise UnavailableError("another process cannot be started: sys.executable does not name the interpreter")
        pipe = subprocess.PIPE
        # In a session of its own: Ctrl-C comes to this process alone, which ends the worker with all that it started.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        jobs, answers, said = self._process.stdin, self._process.stdout, self._process.stderr
        assert jobs is not None
        assert answers is not None
        assert said is not None
        self._jobs = cast(BinaryIO, jobs)
        self._is_idle = True
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._readers = [
            _begun(self._collect, cast(BinaryIO, answers)),
            _begun(self._listen, cast(BinaryIO, said)),
        ]

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_there(self) -> bool:
        """Whether it can be given a job."""
        return self._process.poll() is None

    @property
    def resident_bytes(self) -> int:
        """The memory that it has."""
        return resident_bytes(self.pid)

    def call(self, job: Job, what: str, limits: Limits) -> object:
        """Return what a job returns, or raise what it raises.

        Parameters
        ----------
        job
            What to call.
        what
            What the job does, in the words of an error: ``"mnist.onnx was compiled"``.
        limits
            What it is given.

        Raises
        ------
        CompileTimeoutError, CompileMemoryError
            When it passes a limit.
        CompileError
            When the process ends.
        """
        self._said.clear()
        try:
            with contextlib.suppress(BrokenPipeError):  # that it has ended shows where its answer should be
                send(self._jobs, job)
            return self._awaited(what, limits)
        except BaseException:
            if not self._is_idle:
                self.end()
            raise

    def _awaited(self, what: str, limits: Limits) -> object:
        self._is_idle = False
        last = None if limits.timeout is None else time.monotonic() + limits.timeout
        while True:
            left = None if last is None else max(0.0, last - time.monotonic())
            look = left if limits.max_memory is None else _LOOK if left is None else min(left, _LOOK)
            try:
                data = self._answers.get(timeout=look)
            except queue.Empty:
                self._refuse_excess(what, limits, last)
                continue
            if data is None:
                raise self._death(what)
            match pickle.loads(data):
                case Logged(logger, level, text):
                    logging.getLogger(logger).log(level, "%s", text)
                case Failed(error, trace):
                    self._is_idle = True
                    raise error from RemoteTraceback(trace)
                case Done(result):
                    self._is_idle = True
                    return result

    def _refuse_excess(self, what: str, limits: Limits, last: float | None) -> None:
        if last is not None and time.monotonic() >= last:
            self.end()
            raise CompileTimeoutError(
                f"{what} for longer than timeout={limits.timeout:g} seconds, and was ended{self._last_words()}"
            )
        if limits.max_memory is not None and (used := self.resident_bytes) > limits.max_memory:
            self.end()
            raise CompileMemoryError(
                f"{what} in {used:,} bytes of memory, more than max_memory={limits.max_memory:,}, and was ended"
                f"{self._last_words()}"
            )

    def _death(self, what: str) -> CompileError:
        code = self._process.wait()
        how = f"with the exit code {code}"
        if code < 0:
            names = {each.value: each.name for each in signal.Signals}
            how = f"by {names.get(-code, f'signal {-code}')}"
        for reader in self._readers:
            reader.join(1.0)
        return CompileError(f"the process ended {how} while {what}{self._last_words()}")

    def _last_words(self) -> str:
        said = "\n".join(f"  {line}" for line in self._said)
        return f"; it said last:\n{said}" if said else "; it said nothing"

    def end(self) -> None:
        """End the process and what it started."""
        end_with_children(self._process)
        self._process.wait()
        with contextlib.suppress(OSError):
            self._jobs.close()

    def _collect(self, pipe: BinaryIO) -> None:
        while True:
            data = receive(pipe)
            self._answers.put(data)
            if data is None:
                return

    def _listen(self, pipe: BinaryIO) -> None:
        """Hand on what it says, as if this process had said it, and remember the end of it."""
        for line in pipe:
            text = line.decode(errors="replace")
            self._said.append(text.rstrip())
            with contextlib.suppress(OSError, ValueError, AttributeError):  # there may be nowhere to say it
                sys.stderr.write(text)


def _begun(task: Callable[[BinaryIO], None], pipe: BinaryIO) -> threading.Thread:
    thread = threading.Thread(target=task, args=(pipe,), daemon=True)
    thread.start()
    return thread
