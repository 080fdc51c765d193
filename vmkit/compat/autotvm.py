"""``tvm.autotvm``: tasks are kernels, and records vmkit's own; what tuned by its templates refuses.

AutoTVM chose among schedules that TVM no longer has. Kernels have vmkit's own, and records of their own
(:mod:`vmkit.tophub`); ``tvmc.tune`` and ``tvmc.autotuner.tune_tasks`` write them, :class:`ApplyHistoryBest` applies
them. A log of AutoTVM's changes nothing of what a model computes, and says so when it is applied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any

from ..errors import VMKitError
from ..tophub.choosing import entered
from ..tophub.records import Records
from .autotvm_measure import LocalBuilder, LocalRunner, RPCRunner, measure_option
from .gone import GONE_MODULES, gone, modules_below

__all__ = [
    "GLOBAL_SCOPE",
    "ApplyHistoryBest",
    "DispatchContext",
    "LocalBuilder",
    "LocalRunner",
    "RPCRunner",
    "apply_history_best",
    "measure_option",
    "register_customized_task",
    "register_topi_compute",
    "register_topi_schedule",
    "template",
    "tophub",
]

logger = logging.getLogger(__name__)

# What scripts set of it is how much AutoTVM logs.
GLOBAL_SCOPE = SimpleNamespace(silent=False, in_tuning=False)

Log = str | PathLike[str] | Iterable[Any] | None


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
    """A scope with the best records of a file that tuning wrote here.

    Records of AutoTVM's are of schedules that are gone: a warning says so.

    Parameters
    ----------
    records : path, or iterable of records, or None
        What was tuned; None for nothing.
    """

    def __init__(self, records: Log, *_: Any, **__: Any) -> None:
        super().__init__()
        self._records = _records_of(records)
        self._scopes: list[AbstractContextManager[Records]] = []

    def __enter__(self) -> ApplyHistoryBest:
        self._scopes.append(entered(self._records))
        self._scopes[-1].__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scopes.pop().__exit__(kind, error, trace)


def _records_of(log: Log) -> Records:
    """Return the records of a file; none, with a warning, where it is one of AutoTVM's."""
    if log is None:
        return Records()
    if isinstance(log, str | PathLike) and Path(log).is_file():
        try:
            return Records.read(Path(log))
        except VMKitError as error:
            logger.info("%s", error)
    logger.warning(
        "records of AutoTVM choose among schedules that are gone; kernels have vmkit's own. "
        "vmkit.tophub.tune finds the best of them"
    )
    return Records()


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

_INSTEAD, _ = GONE_MODULES["tvm.autotvm.task.space"]
vars(tophub)["check_backend"] = gone("tvm.autotvm.tophub.check_backend", _INSTEAD)
vars(tophub)["download_package"] = gone("tvm.autotvm.tophub.download_package", _INSTEAD)

_GONE = (
    *("ApplyConfig", "ApplyFixedConfig", "ApplyGraphBest", "FallbackContext"),
    *("MeasureInput", "MeasureResult", "attach_cutlass", "get_config"),
)
vars().update({name: gone(f"tvm.autotvm.{name}", _INSTEAD) for name in _GONE})


__getattr__ = modules_below("tvm.autotvm", __all__, ("measure", "task"))
