"""``tvm.autotvm``: scripts that build with its records run; what tuned by its templates refuses.

AutoTVM chose among schedules that TVM no longer has. Kernels have vmkit's own, and records of their own
(:mod:`vmkit.tophub`); so a log of AutoTVM's changes nothing of what a model computes, and says so when it is applied.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any

from .gone import GONE_MODULES, gone

__all__ = [
    "GLOBAL_SCOPE",
    "ApplyHistoryBest",
    "DispatchContext",
    "apply_history_best",
    "register_customized_task",
    "register_topi_compute",
    "register_topi_schedule",
    "template",
    "tophub",
]

logger = logging.getLogger(__name__)

# What scripts set of it is how much AutoTVM logs.
GLOBAL_SCOPE = SimpleNamespace(silent=False, in_tuning=False)

Records = str | PathLike[str] | Iterable[Any] | None


class DispatchContext:
    """A scope in which AutoTVM chose schedules; ``current`` is the one that scripts make silent.

    Attributes
    ----------
    silent : bool
        Whether missing records are reported; there are none to miss.
    """

    current: DispatchContext

    def __init__(self) -> None:
        self.silent = False

    def __enter__(self) -> DispatchContext:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


DispatchContext.current = DispatchContext()


class ApplyHistoryBest(DispatchContext):
    """A scope with the best records of a log, which are of schedules that are gone: a warning says so.

    Parameters
    ----------
    records : path, or iterable of records, or None
        What AutoTVM had tuned; None for nothing.
    """

    def __init__(self, records: Records, *_: Any, **__: Any) -> None:
        super().__init__()
        if records is not None:
            logger.warning(
                "records of AutoTVM choose among schedules that are gone; kernels have vmkit's own. "
                "vmkit.tophub.tune finds the best of them"
            )


apply_history_best = ApplyHistoryBest


def _untaken(kind: str) -> Callable[..., Any]:
    """Return a decorator, of one argument or two, that gives a function which refuses when it is called."""

    def register(task_name: str, func: Callable[..., Any] | None = None) -> Any:
        refusing = gone(
            f"the {kind} {task_name!r} of tvm.autotvm",
            "vmkit schedules kernels by rules; relay.op.register_compute gives an operator its computation",
        )
        return refusing if func is not None else lambda _: refusing

    return register


register_topi_compute = _untaken("computation")
register_topi_schedule = _untaken("schedule")
register_customized_task = _untaken("task")
template = _untaken("template")


def _context(target: Any, extra_files: Iterable[str] | None = None) -> AbstractContextManager[None]:
    """Return a scope with the records that TVM published for a target: there are none that mean anything today."""
    return nullcontext()


tophub = ModuleType("tvm.autotvm.tophub", "Records of AutoTVM's that TVM published; vmkit.tophub has those of today.")
vars(tophub)["context"] = _context

_INSTEAD, _ = GONE_MODULES["tvm.autotvm.task"]
vars(tophub)["check_backend"] = gone("tvm.autotvm.tophub.check_backend", _INSTEAD)
vars(tophub)["download_package"] = gone("tvm.autotvm.tophub.download_package", _INSTEAD)

_GONE = (
    *("ApplyConfig", "ApplyFixedConfig", "ApplyGraphBest", "FallbackContext", "LocalBuilder", "LocalRunner"),
    *("MeasureInput", "MeasureResult", "RPCRunner", "attach_cutlass", "get_config", "measure_option"),
)
vars().update({name: gone(f"tvm.autotvm.{name}", _INSTEAD) for name in _GONE})


def __getattr__(name: str) -> Any:
    """Import a module below this one when it is first named."""
    if f"tvm.autotvm.{name}" not in GONE_MODULES:
        raise AttributeError(f"module 'tvm.autotvm' has no attribute {name!r}")
    return importlib.import_module(f"tvm.autotvm.{name}")
