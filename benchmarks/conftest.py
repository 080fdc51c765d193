"""What every benchmark shares: the thread count, the fixtures that compare, the tables at the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

# Read when TVM is imported, and by the peers of benchmarks/peers.py.
os.environ.setdefault("TVM_NUM_THREADS", "1")

import pytest

from benchmarks.interleave import Comparison, Run, compare
from benchmarks.peers import MISSING, threads
from benchmarks.summary import Row, markdown, row

# It builds models with torch, and is run by itself.
collect_ignore = ["exported"]
_ROWS = pytest.StashKey[list[Row]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make room for the rows of the tables."""
    config.stash[_ROWS] = []


def _add(config: pytest.Config, benchmark: Any, median: float) -> None:
    benchmark.extra_info["threads"] = threads()
    config.stash[_ROWS].append(row(benchmark.group, benchmark.name, benchmark.extra_info, median))


@pytest.fixture
def ratio(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return ``ratio(candidate, note, **peers)``, which times callables by turns and adds a row to the table.

    The note is a text, or a function of the :class:`~benchmarks.interleave.Comparison`.
    """

    def record(candidate: Run, note: str | Callable[[Comparison], str] = "", **peers: Run) -> None:
        comparison = compare(benchmark, candidate, peers, threads())
        if comparison is not None:
            benchmark.extra_info["note"] = note if isinstance(note, str) else note(comparison)
            _add(request.config, benchmark, comparison.seconds)

    return record


@pytest.fixture
def megabytes(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return ``megabytes(own, note, **peers)``, which adds a row of what was measured once."""

    def record(own: float, note: str = "", **peers: float) -> None:
        benchmark.pedantic(lambda: None)  # pytest-benchmark writes down only what has run
        if not benchmark.disabled:
            ratios = {name: (value, own / value) for name, value in peers.items()}
            benchmark.extra_info |= {"value": own, "unit": "MB", "note": note, "peers": ratios}
            _add(request.config, benchmark, own)

    return record


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print one table for each group, the means of the families, and which peers are not here."""
    rows = config.stash[_ROWS]
    if rows:
        terminalreporter.section("figures")
        terminalreporter.write_line(markdown(rows))
    for name, reason in MISSING.items():
        terminalreporter.write_line(f"not compared with {name}: {reason}")
