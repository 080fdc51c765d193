"""``tune``: measure what schedule rules could decide for the kernels of a model, and keep what is best."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

from .._dataclasses import dataclass
from .._version import __version__
from ..errors import OptionError, suggest
from ..schedule.rule import AnyDecisions
from ..schedule.scheduling import scheduling
from ..target import canonical_target, llvm
from ..target.plan import Targets
from ..tophub.classes import target_class
from ..tophub.records import Record, Records
from .extract import Kernel, kernels_of, sizes_of
from .measure import Measured, Measurer
from .places import Timing, Tracker, require_devices
from .progress import Progress
from .search import search

__all__ = ["Search", "tune"]

logger = logging.getLogger(__name__)


def _log(progress: Progress) -> None:
    logger.info("%s", progress)


@dataclass(frozen=True)
class Search:
    """How kernels are tuned. Its fields are arguments of :func:`tune`, which says what each is."""

    database: Path
    seconds: float = 10.0
    budget: float | None = None
    timeout: float = 10.0
    sizes: Mapping[str, int] = field(default_factory=dict)
    trials: int = 0
    tracker: Tracker | None = None
    candidates: int | None = None
    patience: int | None = None
    timing: Timing | None = None
    progress: Callable[[Progress], None] = _log

    def require(self, target: Target) -> None:
        """Raise OptionError for what has no meaning, a target that cannot be measured, and devices there are not."""
        _require_numbers(
            {"seconds": self.seconds, "budget": self.budget, "timeout": self.timeout}, self.trials, self.candidates
        )
        _require_measurable(target, self.trials, is_remote=self.tracker is not None)
        if self.tracker is not None:
            require_devices(self.tracker)
        if not self.database.parent.is_dir():
            raise OptionError(f"database: there is no folder {self.database.parent}")
        self._known()

    def _known(self) -> Records:
        return Records.read(self.database) if self.database.exists() else Records()

    def run(self, kernels: list[Kernel], target: Target) -> Records:
        """Return the records of the file after measuring kernels, of :func:`kernels_of`, that it does not hold yet."""
        records = self._known()
        sizes = sizes_of(kernels, self.sizes)
        with Measurer(target, sizes, self.timeout, tracker=self.tracker, timing=self.timing) as measurer:
            for each in _tuned(kernels, records, target, measurer, self):
                if each.record is not None:
                    records += Records([each.record])
                    records.write(self.database)
                self.progress(each)
            if self.trials:
                from .deeper import search_deeper

                count = search_deeper(kernels, target, self.database.with_suffix(""), self.trials, measurer)
                logger.info("MetaSchedule searched schedules for %d kernels", count)
        return records


def tune(
    model: Any,
    target: Targets | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    database: str | Path,
    seconds: float = 10.0,
    budget: float | None = None,
    timeout: float = 10.0,
    sizes: Mapping[str, int] | None = None,
    trials: int = 0,
    tracker: Tracker | None = None,
    kernels: Collection[str] | None = None,
    candidates: int | None = None,
    patience: int | None = None,
    timing: Timing | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Records:
    """Return the records of a file after measuring the kernels of a model that it does not hold yet.

    Candidates are built and measured on this machine, in a process of their own, or measured on a device that a tracker
    lends; their values must be those of the default schedule. The file is written after each kernel, as a whole, so
    that a run may be ended at any time and goes on where it was.

    Parameters
    ----------
    model : path, onnx.ModelProto, tvm.IRModule or relay.Function
        As for :func:`vmkit.compile`.
    target : optional
        What to tune for, a CPU that this machine's, or the tracker's devices, can stand for, or a GPU that this machine
        has; see :func:`vmkit.target.canonical_target`. With ``-num-cores``, so many threads run here.
    params : mapping, optional
        Arrays to bind to parameters of ``main`` by name.
    database : path
        The file of records; it need not exist.
    seconds : float
        For how long candidates of one kernel are tried.
    budget : float, optional
        For how long kernels are begun.
    timeout : float
        How many seconds one candidate may take, with the wait for a device of the tracker.
    sizes : mapping of str to int, optional
        What unknown sizes are when kernels run, by name; 16 by default. Records hold for any size.
    trials : int
        How many schedules MetaSchedule tries afterwards for each kernel of known sizes. They go into a folder beside
        the file, named like it without the suffix, which :func:`vmkit.tophub.load` takes too.
    tracker : tuple of str, int, str, optional
        Host and port of an RPC tracker and the key of the devices on which candidates run. They are linked here by the
        cross compiler of the target's triple (see :meth:`vmkit.Executable.export`), else by the device's own compiler.
    kernels : collection of str, optional
        The names of the kernels to tune, of those that :func:`vmkit.tuning.kernels_of` finds; all by default.
    candidates : int, optional
        How many candidates are measured in all.
    patience : int, optional
        After how many candidates of a kernel that were no better the next one is begun.
    timing : Timing, optional
        How each is timed; see :class:`vmkit.tuning.Timing`.
    progress : callable, optional
        Called with a :class:`Progress` after each kernel; by default it is logged.

    Raises
    ------
    OptionError
        If the file holds something else, an option has no meaning, the target is no CPU of this kind of machine and no
        GPU that it has, or the tracker has no such devices.
    ModelError, UnsupportedOperatorError, ParseError, TypeCheckError
        When the model is at fault.

    Notes
    -----
    Records take effect where they are entered::

        tune("model.onnx", "native", database="mine.json")
        with load("mine.json"):
            exe = vmkit.compile("model.onnx", "native")
    """
    search = Search(
        Path(database),
        seconds=seconds,
        budget=budget,
        timeout=timeout,
        sizes=sizes or {},
        trials=trials,
        tracker=tracker,
        candidates=candidates,
        patience=patience,
        timing=timing,
        progress=progress or _log,
    )
    plan = canonical_target(target).primary
    search.require(plan)
    return search.run(_chosen(kernels_of(model, plan, params), kernels), plan)


def _chosen(kernels: list[Kernel], names: Collection[str] | None) -> list[Kernel]:
    if names is None:
        return kernels
    known = [kernel.name for kernel in kernels]
    for name in names:
        if name not in known:
            raise OptionError(f"kernels: the model has no kernel {name!r} to tune{suggest(name, known)}")
    return [kernel for kernel in kernels if kernel.name in names]


def _tuned(
    kernels: Sequence[Kernel], known: Records, target: Target, measurer: Measurer, limits: Search
) -> Iterator[Progress]:
    """Yield what is found for each kernel that has no record yet, until the budget is spent."""
    of_class, end = target_class(target), None if limits.budget is None else time.monotonic() + limits.budget
    tried = 0
    for done, kernel in enumerate(kernels, 1):
        if known.exact(kernel.workload, of_class) is not None:
            continue
        left = None if limits.candidates is None else limits.candidates - tried
        if (end is not None and time.monotonic() >= end) or (left is not None and left <= 0):
            logger.info("the budget is spent: %d of %d kernels are left", len(kernels) - done + 1, len(kernels))
            return
        found = _searched(kernel, target, measurer, limits, left, (done, len(kernels)))
        tried += found.tried
        yield found


def _searched(
    kernel: Kernel, target: Target, measurer: Measurer, limits: Search, most: int | None, place: tuple[int, int]
) -> Progress:
    """Return the best decisions for one kernel, of what is measured within the limits."""
    outcomes: list[Measured] = []
    tried: set[AnyDecisions] = set()  # the best are measured more than once

    def seconds_of(decisions: AnyDecisions) -> float | None:
        tried.add(decisions)
        outcomes.append(measurer.measure(kernel, decisions))
        return outcomes[-1].seconds

    schedule = scheduling(target).prepared(kernel.function)
    assert schedule is not None
    default, candidates = kernel.rule.decide(schedule, target), kernel.rule.candidates(schedule, target)
    found = search(default, candidates, seconds_of, limits.seconds, most, limits.patience)
    failed = tuple(m.error for m in outcomes if m.error is not None)
    record = None if found is None else _record(kernel, target, *found)
    return Progress(kernel.name, *place, record, len(tried), failed)


def _record(kernel: Kernel, target: Target, decisions: AnyDecisions, before: float, after: float) -> Record:
    return Record(
        kernel.workload,
        kernel.rule.to_json(decisions),
        target_class(target),
        str(target.attrs.get("mcpu", "") or target.attrs.get("arch", "")) or "generic",
        float(f"{before:.4g}"),
        float(f"{after:.4g}"),
        __version__,
        version("apache-tvm"),
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    )


def _require_numbers(seconds: Mapping[str, float | None], trials: int, candidates: int | None) -> None:
    for name, value in seconds.items():
        if value is not None and not value > 0:
            raise OptionError(f"{name} is {value!r}, expected a positive number of seconds")
    if candidates is not None and candidates < 1:
        raise OptionError(f"candidates is {candidates}, expected a positive number of them to measure")
    if trials < 0:
        raise OptionError(f"trials is {trials}, expected a number of schedules for MetaSchedule to try")


def _require_measurable(target: Target, trials: int, *, is_remote: bool) -> None:
    kind = str(target.kind.name)
    if "gpu" in target.keys:
        if trials:
            raise OptionError(f"trials is {trials}, but MetaSchedule searches schedules for CPUs only; leave it out")
        _require_device(kind, is_remote)
        return
    if kind != "llvm":
        raise OptionError(f"schedule rules are tuned for targets of kind llvm and for GPUs, not {kind}")
    if is_remote:
        return
    triple, cpu, attributes = llvm.description_of(target)
    if llvm.architecture(triple) != llvm.architecture(llvm.default_triple()):
        raise OptionError(f"candidates run on this machine, {llvm.default_triple()}, but the target is {triple}")
    if missing := llvm.missing_on_host(triple, cpu, attributes):
        raise OptionError(f"candidates run on this machine, which lacks {', '.join(missing)} of the target")


def _require_device(kind: str, is_remote: bool) -> None:
    if is_remote:
        raise OptionError(
            f"tracker: its devices are CPUs; candidates for {kind} are measured on this machine, without it"
        )
    if not _has_device(kind):
        raise OptionError(
            f"candidates for {kind} are measured on a device, and TVM finds none here: run this where one is"
        )


def _has_device(kind: str) -> bool:
    return bool(tvm.device(kind).exist)
