"""What every benchmark shares: the thread count, the fixture that compares, the tables at the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

# Read when TVM is imported, and by the peers of benchmarks/peers.py.
os.environ.setdefault("TVM_NUM_THREADS", "1")

import pytest

from benchmarks.interleave import Comparison, Run, compare

_ROWS = pytest.StashKey[list[tuple[str, str, Comparison, str]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make room for the rows of the tables."""
    config.stash[_ROWS] = []


@pytest.fixture
def ratio(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return ``ratio(candidate, note, **peers)``, which times callables by turns and adds a row to the table."""

    def record(candidate: Run, note: str = "", **peers: Run) -> None:
        comparison = compare(benchmark, candidate, peers)
        if comparison is not None:
            request.config.stash[_ROWS].append((benchmark.group, benchmark.name, comparison, note))

    return record


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print one table for each group: the question, and the ratios that answer it."""
    rows = config.stash[_ROWS]
    for group in dict.fromkeys(row[0] for row in rows):
        terminalreporter.section(f"{group} (threads: {os.environ['TVM_NUM_THREADS']})")
        for _, name, comparison, note in (row for row in rows if row[0] == group):
            against = "".join(
                f"   {comparison.ratios[peer]:7.3f} of {peer}'s {_shown(seconds)}"
                for peer, seconds in comparison.peers.items()
            )
            terminalreporter.write_line(f"{name:44} {_shown(comparison.seconds)}{against}   {note}")


def _shown(seconds: float) -> str:
    for unit, factor in (("s ", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:8.2f} {unit}"
    return f"{seconds * 1e6:8.2f} us"
