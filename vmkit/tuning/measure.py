"""Measuring candidates in a process of their own, so that one that crashes or hangs costs only itself."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any

import tvm
from tvm.target import Target

from .._dataclasses import dataclass
from ..schedule.rule import AnyDecisions
from ..target.processor import cores_of
from .extract import Kernel
from .places import Timing, Tracker

__all__ = ["Measured", "Measurer"]

WORKER = (sys.executable, "-m", "vmkit.tuning.worker")


@dataclass(frozen=True)
class Measured:
    """What came of a candidate: seconds for a call, or else the reason why there are none."""

    seconds: float | None
    error: str | None = None


class Measurer:
    """A worker process that measures candidates for a target, started when needed and again after it died.

    Parameters
    ----------
    target : Target
        What candidates are built for.
    sizes : mapping of str to int
        What unknown sizes are when kernels run.
    timeout : float
        Seconds that one candidate may take, beside those that a new process takes to start.
    start : float
        Seconds that a process may take to start.
    command : sequence of str
        What starts a worker.
    tracker : Tracker, optional
        Where the device is on which candidates run; they are built here all the same.
    timing : Timing, optional
        How they are timed.
    """

    def __init__(
        self,
        target: Target,
        sizes: Mapping[str, int],
        timeout: float = 10.0,
        *,
        start: float = 60.0,
        command: Sequence[str] = WORKER,
        tracker: Tracker | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._target = tvm.ir.save_json(target)
        self._cores = cores_of(target)
        self._sizes = dict(sizes)
        self._where: dict[str, Any] = {} if tracker is None else {"tracker": tracker}
        self._where |= {} if timing is None else {"timing": asdict(timing)}
        self._timeout = timeout
        self._start = start
        self._command = tuple(command)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Measurer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def measure(self, kernel: Kernel, decisions: AnyDecisions) -> Measured:
        """Return the seconds that a call of a kernel takes with some decisions."""
        return self._answer(
            {
                "target": self._target,
                "kernel": tvm.ir.save_json(kernel.function),
                "rule": kernel.rule.name,
                "decisions": kernel.rule.to_json(decisions),
                "sizes": self._sizes,
                **self._where,
            }
        )

    def measure_scheduled(self, mod: tvm.IRModule) -> Measured:
        """Return the seconds that a call of ``main``, a scheduled kernel of known sizes, takes."""
        return self._answer({"target": self._target, "scheduled": tvm.ir.save_json(mod), **self._where})

    def _answer(self, request: Mapping[str, Any]) -> Measured:
        process, is_new = self._started()
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._lost("the worker process does not start")
        line = self._line(process, self._timeout + (self._start if is_new else 0.0))
        if line is None:
            return self._lost(f"no answer in {self._timeout:g} s")
        if not line:
            code = process.wait()
            return self._lost(f"the worker process died of signal {-code}" if code < 0 else f"it ended with {code}")
        return Measured(**{"seconds": None, **json.loads(line)})

    def _started(self) -> tuple[subprocess.Popen[bytes], bool]:
        if self._process is not None:
            return self._process, False
        environment = {**os.environ, "TVM_NUM_THREADS": str(self._cores)}
        # This project's own modules, wherever the caller found them.
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        return self._process, True

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        """Return the next line of a process, empty where it has ended, None where it takes longer."""
        assert process.stdout is not None
        end, line = time.monotonic() + seconds, b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            part = os.read(process.stdout.fileno(), 65_536)
            if not part:
                return b""
            line += part
        return line

    def _lost(self, reason: str) -> Measured:
        self._end()
        return Measured(None, reason)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                # What was not sent to a process that is gone is of no use.
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
