"""MetaSchedule as the deeper search: schedules from scratch, for kernels of known sizes, here or on a remote device."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import rpc, tirx
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult
from tvm.target import Target

from .extract import Kernel, unknown_sizes
from .measure import Measured, Measurer

__all__ = ["Tracker", "search_deeper"]

Tracker = tuple[str, int, str]
"""Host and port of an RPC tracker, and the key of the devices to run on."""

_NEVER = 1e10  # what MetaSchedule takes for the time of what failed


def search_deeper(
    kernels: Sequence[Kernel], target: Target, folder: Path, trials: int, measurer: Measurer, tracker: Tracker | None
) -> int:
    """Search schedules for kernels that a database does not hold yet; return for how many.

    Parameters
    ----------
    kernels : sequence of Kernel
        Those with unknown sizes are left out.
    target : Target
        What to build for.
    folder : Path
        Of the database, in MetaSchedule's two files.
    trials : int
        How many schedules of each kernel are measured.
    measurer : Measurer
        Where they are measured.
    tracker : Tracker, optional
        Where instead.
    """
    folder.mkdir(exist_ok=True)
    files = [str(folder / f"database_{name}.json") for name in ("workload", "tuning_record")]
    database = meta_schedule.database.JSONDatabase(*files, allow_missing=True)
    done = 0
    for kernel in kernels:
        mod = tvm.IRModule({"main": kernel.function.with_attr("global_symbol", "main")})
        if unknown_sizes(kernel.function) or database.has_workload(mod):
            continue
        with tempfile.TemporaryDirectory() as work:
            meta_schedule.tune_tir(
                mod,
                target,
                work,
                trials,
                num_trials_per_iter=min(trials, 16),
                builder=_AsText(),
                runner=_Runner(measurer, target, tracker),
                database=database,
                cost_model="random",
                strategy="replay-trace",
                measure_callbacks=[meta_schedule.measure_callback.AddToDatabase()],
                num_tuning_cores=1,
            )
        done += 1
    return done


@derived_object
class _AsText(PyBuilder):
    """Leaves building to where candidates run, so that a crash of LLVM ends another process."""

    def build(self, build_inputs: list[Any]) -> list[BuilderResult]:
        return [BuilderResult(tvm.ir.save_json(each.mod), None) for each in build_inputs]


@derived_object
class _Now(PyRunnerFuture):
    def __init__(self, measured: Measured) -> None:
        super().__init__()
        self.measured = measured

    def done(self) -> bool:
        return True

    def result(self) -> RunnerResult:
        if self.measured.seconds is None:
            return RunnerResult([_NEVER], self.measured.error or "")
        return RunnerResult([self.measured.seconds], None)


@derived_object
class _Runner(PyRunner):
    def __init__(self, measurer: Measurer, target: Target, tracker: Tracker | None) -> None:
        super().__init__()
        self.measurer, self.target, self.tracker = measurer, target, tracker

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        return [_Now(self._measured(str(each.artifact_path))) for each in runner_inputs]

    def _measured(self, text: str) -> Measured:
        mod = tvm.ir.load_json(text)
        if self.tracker is None:
            return self.measurer.measure_scheduled(mod)
        try:
            return Measured(_seconds_on(self.tracker, mod, self.target))
        except Exception as error:
            return Measured(None, f"{type(error).__name__}: {error}")


def _seconds_on(tracker: Tracker, mod: tvm.IRModule, target: Target) -> float:
    """Return the least seconds of a call on a remote device."""
    host, port, key = tracker
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kernel.tar"
        tvm.compile(mod, target).export_library(str(library))
        session = rpc.connect_tracker(host, port).request(key, session_timeout=60)
        session.upload(str(library))
        remote, device = session.load_module(library.name), session.cpu()
        operands = [_random(param, device) for param in mod["main"].params]
        return float(remote.time_evaluator("main", device, number=1, repeat=5, min_repeat_ms=2)(*operands).min)


def _random(param: tirx.Var, device: Any) -> tvm.runtime.Tensor:
    operand = tvm.runtime.empty([int(d) for d in param.ty.shape], str(param.ty.dtype), device)
    fill = tvm.get_global_func("tvm.contrib.random.random_fill_for_measure", allow_missing=True)
    if fill is not None:
        fill(operand)
    return operand
