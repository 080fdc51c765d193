"""The profile of a session's runs, as a file of the form that onnxruntime's has: a list of events of a Chrome trace."""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from ..profiling import Report

__all__ = ["SessionProfile"]


class SessionProfile:
    """The events of runs.

    Parameters
    ----------
    prefix
        What the name of the file begins with; the time follows.
    provider
        The provider that runs the model.
    """

    def __init__(self, prefix: str, provider: str) -> None:
        self._prefix = prefix
        self._provider = provider
        self._begin = time.perf_counter()
        self._events: list[dict[str, Any]] = []
        self.start_time_ns = time.time_ns()

    def now(self) -> float:
        """Return the microseconds since the profile began."""
        return (time.perf_counter() - self._begin) * 1e6

    def add(self, report: Report, begin: float) -> None:
        """Add a run that began at `begin` microseconds: one event for the run, one for each kernel in it."""
        for event in report.trace_events(begin):
            if event["cat"] == "kernel":
                told = {"op_name": event["name"], "provider": self._provider, **event["args"]}
                self._add("Node", f"{event['name']}_kernel_time", event, told)
            else:
                self._add("Session", "model_run", event, {})

    def _add(self, kind: str, name: str, event: dict[str, Any], told: dict[str, Any]) -> None:
        here = {"pid": os.getpid(), "tid": threading.get_ident()}
        self._events.append({**event, **here, "cat": kind, "name": name, "args": told})

    def write(self) -> str:
        """Write the file, and return its name."""
        path = Path(f"{self._prefix}_{datetime.now():%Y-%m-%d_%H-%M-%S_%f}.json")
        path.write_text(json.dumps(self._events, indent=0))
        return str(path)
