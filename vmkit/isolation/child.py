"""The worker: it does one job after another until nobody is there to give it one.

What it is told comes through its standard input and what it answers goes where its standard output went, so both are
put elsewhere first: whatever is printed by what it runs goes to the standard error.
"""

from __future__ import annotations

import faulthandler
import importlib
import logging
import os
import pickle
import queue
import signal
import sys
import threading
from typing import BinaryIO

from .messages import Done, Failed, Job, Logged, failure_of, receive, send

__all__ = ["serve"]


def serve() -> None:
    """Do the jobs that come, and end with the process that gives them."""
    requests, replies = _own_pipes()
    faulthandler.enable()
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_collect, args=(requests, jobs), daemon=True).start()
    answers = _Answers(replies)
    logging.getLogger("vmkit").addHandler(answers)
    while True:
        answers.send(_answer(jobs.get()))


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _collect(requests: BinaryIO, jobs: queue.SimpleQueue[bytes]) -> None:
    """Take jobs as they come, so that the end of who gives them is noticed in the middle of one."""
    while (job := receive(requests)) is not None:
        jobs.put(job)
    _end()


def _end() -> None:
    """End at once, with what was started here, such as a linker."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


class _Answers(logging.Handler):
    """Sends what is answered, and what is logged meanwhile, from any thread."""

    def __init__(self, replies: BinaryIO) -> None:
        super().__init__()
        self._replies = replies
        self._whole = threading.Lock()

    def send(self, message: Done | Failed | Logged) -> None:
        with self._whole:
            try:
                send(self._replies, message)
            except BrokenPipeError:
                _end()

    def emit(self, record: logging.LogRecord) -> None:
        self.send(Logged(record.name, record.levelno, record.getMessage()))


def _answer(data: bytes) -> Done | Failed:
    try:
        job = pickle.loads(data)
        assert isinstance(job, Job)
        del data
        logging.getLogger("vmkit").setLevel(job.log_level)
        module, _, name = job.function.partition(":")
        done = Done(getattr(importlib.import_module(module), name)(*job.arguments))
        pickle.dumps(done, protocol=5)  # a result that cannot be sent is an error of the job
        return done
    except Exception as error:
        return failure_of(error)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
