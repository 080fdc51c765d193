"""Processes that answer questions, so that one that dies or hangs is seen, and the next question answered."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.places import TOP

__all__ = ["Child", "Outcome", "answer", "tally"]

Outcome = dict[str, Any]
"""What became of something, under "became", and what was said about it, under "said"."""

WORSE = ("died", "raised", "differs")
"""What must become of nothing."""


class Child:
    """A process that answers lines; if it dies or takes too long, another one answers the next.

    Parameters
    ----------
    module
        What it runs, which calls :func:`answer`.
    options
        Its arguments.
    seconds
        How long an answer may take.
    """

    def __init__(self, module: str, *options: str, seconds: int = 120) -> None:
        self._command = [sys.executable, "-m", module, *options]
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None

    def tell(self, question: object) -> Outcome:
        """Return the answer to a question of one line; that it "died" is one, too."""
        process = self._process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(self._seconds, process.kill)
        timer.start()
        process.stdin.write(f"{question}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        timer.cancel()
        if line:
            return dict(json.loads(line))
        self._process = None
        return {"became": "died", "said": f"of signal {-process.wait()}, or after {self._seconds} s"}

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TOP), *filter(None, sys.path)])},
        )

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


def answer(outcome: Callable[[str], Outcome]) -> None:
    """Answer the lines that a :class:`Child` is asked."""
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        print(json.dumps(outcome(line.rstrip("\n"))), flush=True)


def tally(module: str, numbers: Iterable[int], *options: str) -> Counter[str]:
    """Return how many numbered things became what, after a check that nothing became what it must not."""
    child, counts, wrong = Child(module, *options), Counter[str](), []
    for number in numbers:
        found = child.tell(number)
        counts[found["became"]] += 1
        if found["became"] in WORSE:
            wrong.append(f"{number} {found['became']}: {found['said'][-400:]}")
    child.close()
    assert not wrong, f"{len(wrong)} of {counts.total()}:\n" + "\n".join(wrong[:20])
    return counts
