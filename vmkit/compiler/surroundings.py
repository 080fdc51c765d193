"""Carrying what the caller entered by ``with`` into another thread.

TVM keeps the entered ``PassContext``, ``Target`` and MetaSchedule database for each thread by itself, so work that
moves to a thread with a deep stack would not see them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import tvm
from tvm.target import Target

from .._dataclasses import dataclass
from .._tvm import database_in_force

if TYPE_CHECKING:
    from tvm.s_tir.meta_schedule.database import Database

__all__ = ["Surroundings"]


@dataclass(frozen=True)
class Surroundings:
    """What the calling thread has entered: compiler options, perhaps a target, perhaps tuning records.

    Entering again runs the enter and exit callbacks of the context's instruments once more, in that thread.
    ``PassTimingInstrument`` keeps its times for each thread by itself: they must be rendered in the thread that ran the
    passes, so a caller who gave such an instrument should be served in place (see :attr:`has_instruments`).

    Examples
    --------
    >>> with tvm.transform.PassContext(opt_level=3):
    ...     surroundings = Surroundings.capture()
    >>> with surroundings.entered():
    ...     tvm.transform.PassContext.current().opt_level
    3
    """

    pass_context: tvm.transform.PassContext
    target: Target | None
    database: Database | None

    @classmethod
    def capture(cls) -> Surroundings:
        """Return what this thread has entered."""
        return cls(tvm.transform.PassContext.current(), Target.current(), database_in_force())

    @property
    def has_instruments(self) -> bool:
        """Whether passes are being observed."""
        return len(self.pass_context.instruments) > 0

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Enter all of it in this thread."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.pass_context)
            if self.target is not None:
                stack.enter_context(self.target)
            if self.database is not None:
                stack.enter_context(self.database)
            yield
