"""MetaSchedule as the deeper search: schedules from scratch, for kernels of known sizes."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult
from tvm.target import Target

from .extract import Kernel, unknown_sizes
from .measure import Measured, Measurer

__all__ = ["search_deeper"]

_NEVER = 1e10  # what MetaSchedule takes for the time of what failed


def search_deeper(kernels: Sequence[Kernel], target: Target, folder: Path, trials: int, measurer: Measurer) -> int:
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
    """
    folder.mkdir(exist_ok=True)
    files = [str(folder / f"database_{name}.json") for name in ("workload", "tuning_record")]
    database = meta_schedule.database.JSONDatabase(*files, allow_missing=True)
    if target.kind.name == "llvm" and "num-cores" not in target.attrs:
        target = Target({**target.export(), "num-cores": 1})  # MetaSchedule has no default
    done = 0
    for kernel in kernels:
        mod = tvm.IRModule({"main": kernel.function.with_attr("global_symbol", "main")})
        if unknown_sizes(kernel.function) or database.has_workload(mod):
            continue
        with tempfile.TemporaryDirectory() as work, _own_handlers():
            meta_schedule.tune_tir(
                mod,
                target,
                work,
                trials,
                num_trials_per_iter=min(trials, 16),
                builder=_AsText(),
                runner=_Runner(measurer),
                database=database,
                cost_model="random",
                strategy="replay-trace",
                measure_callbacks=[meta_schedule.measure_callback.AddToDatabase()],
                num_tuning_cores=1,
            )
        done += 1
    return done


@contextlib.contextmanager
def _own_handlers() -> Iterator[None]:
    """Let MetaSchedule set up its logger inside, and put back what was there.

    It names the handlers that the logger has, and fails where one has no name.
    """
    logger = logging.getLogger("tvm.s_tir.meta_schedule")
    before, propagates = list(logger.handlers), logger.propagate
    logger.handlers.clear()
    try:
        yield
    finally:
        for handler in logger.handlers:
            handler.close()
        logger.handlers[:], logger.propagate = before, propagates


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
    def __init__(self, measurer: Measurer) -> None:
        super().__init__()
        self.measurer = measurer

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        modules = [tvm.ir.load_json(str(each.artifact_path)) for each in runner_inputs]
        return [_Now(self.measurer.measure_scheduled(module)) for module in modules]
