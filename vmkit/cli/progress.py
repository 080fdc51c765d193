"""Bars on a terminal while something takes long: compiling, tuning, measuring.

They stand on stderr, only where that is a terminal, and are gone at the end, so that what a command prints is the same
with and without them.
"""

from __future__ import annotations

import logging
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..isolation.progress import LOGGER, read

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["Bar", "bar", "compiling"]

_COUNTS = "{desc} |{bar:20}| {n_fmt} of {total_fmt} [{elapsed}]"
_PERCENT = "{desc} |{bar:20}| {percentage:3.0f} % [{elapsed}]"
_TICK = 0.5  # seconds between two looks at the clock
_STAGES = 4  # those of vmkit.compiler.vm_compiler, whose import takes TVM
_WIDTH = 38  # characters of what is being done


class Bar:
    """A bar, or none where stderr is no terminal."""

    def __init__(self, drawn: tqdm | None = None) -> None:
        self._drawn = drawn

    def to(self, done: float, what: str) -> None:
        """Show that so much is done, and what is being done now."""
        if self._drawn is not None:
            self._drawn.set_description_str(_fitted(what), refresh=False)
            self._drawn.n = done
            self._drawn.refresh()

    def say(self, line: str) -> None:
        """Print a line on stderr, above the bar."""
        if self._drawn is None:
            print(line, file=sys.stderr)
        else:
            self._drawn.write(line, file=sys.stderr)


def _fitted(what: str) -> str:
    return what.ljust(_WIDTH) if len(what) <= _WIDTH else f"{what[: _WIDTH - 3]}..."


@contextmanager
def bar(total: float, what: str, *, counts: bool = True, ticks: bool = True) -> Iterator[Bar]:
    """Show a bar inside.

    Parameters
    ----------
    total : float
        What :meth:`Bar.to` ends at.
    what : str
        What is being done at first.
    counts : bool
        Whether it says how many of `total` are done, or the percentage.
    ticks : bool
        Whether the time goes on by itself, by a thread, which a measurement in this process would feel.
    """
    if not sys.stderr.isatty():
        yield Bar()
        return
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # a thread of tqdm's own, which `ticks` stands for
    # A terminal that does not tell its size says 0, in which tqdm would draw nothing.
    size = {"ncols": shutil.get_terminal_size().columns - 1, "nrows": 20}
    with tqdm(
        total=total,
        desc=_fitted(what),
        bar_format=_COUNTS if counts else _PERCENT,
        file=sys.stderr,
        leave=False,
        **size,
    ) as drawn:
        ended = threading.Event()
        clock = threading.Thread(target=_tick, args=(drawn, ended), daemon=True) if ticks else None
        if clock is not None:
            clock.start()
        try:
            yield Bar(drawn)
        finally:
            ended.set()
            if clock is not None:
                clock.join()


def _tick(drawn: tqdm, ended: threading.Event) -> None:
    while not ended.wait(_TICK):
        drawn.refresh()


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Show a bar with the stages of a compilation inside, of this process or of another that works for it."""
    if not sys.stderr.isatty() or logging.getLogger("vmkit").isEnabledFor(logging.INFO):
        yield  # the log says more
        return
    with bar(_STAGES, f"{name}: starting") as shown, _heard(_Stages(shown, name)):
        yield


class _Stages(logging.Handler):
    """Moves a bar, forward only, as the work says how far it is."""

    def __init__(self, shown: Bar, name: str) -> None:
        super().__init__()
        self._shown, self._name, self._last = shown, name, -1

    def emit(self, record: logging.LogRecord) -> None:
        done, _, what = read(record.getMessage())
        if done > self._last:
            self._last = done
            self._shown.to(done, f"{self._name}: {what}")


@contextmanager
def _heard(handler: logging.Handler) -> Iterator[None]:
    """Have a handler hear of stages, which the log itself does not show."""
    stages, package = logging.getLogger(LOGGER), logging.getLogger("vmkit")
    level, propagates = package.level, stages.propagate
    stages.addHandler(handler)
    # A worker sends what is logged at this level.
    package.setLevel(logging.INFO)
    quiet = [(each, each.level) for each in logging.getLogger().handlers]
    for each, _ in quiet:
        each.setLevel(max(each.level, logging.WARNING))
    stages.propagate = False
    try:
        yield
    finally:
        stages.removeHandler(handler)
        package.setLevel(level)
        stages.propagate = propagates
        for each, before in quiet:
            each.setLevel(before)
