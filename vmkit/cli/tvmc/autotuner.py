"""``tvm.driver.tvmc.autotuner``: what schedules of a model's kernels are the fastest, measured.

TVM 0.14 had AutoTVM and the auto-scheduler for this. Here :func:`vmkit.tophub.tune` measures what schedule rules could
decide, and for ``--enable-autoscheduler`` MetaSchedule, the auto-scheduler's successor, searches further.
"""

from __future__ import annotations

import importlib
import logging
import shutil
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...errors import suggest
from . import frontends
from .common import require_input_file, shapes_of
from .exceptions import TVMCException
from .model import TVMCModel
from .preparation import Preparation
from .target import reconstruct_target_args
from .task_list import TaskFilterError, filter_tasks, gen_task_list
from .tracker import tracker_host_port_from_cli
from .transform import parse_graph_transform_args

if TYPE_CHECKING:
    import tvm
    from tvm.target import Target

    from vmkit.compat.autotvm_measure import MeasureOption
    from vmkit.compat.autotvm_task import Task
    from vmkit.tuning import Progress, Search

__all__ = [
    "TUNERS",
    "TaskFilterError",
    "autotvm_get_tuning_tasks",
    "drive_tune",
    "filter_tasks",
    "gen_task_list",
    "get_tuning_tasks",
    "tune_model",
    "tune_tasks",
]

logger = logging.getLogger("TVMC")

TUNERS = ("ga", "gridsearch", "random", "xgb", "xgb_knob", "xgb_itervar", "xgb_curve", "xgb_rank")
"""AutoTVM's searches; there is one here, whatever is chosen."""


def __getattr__(name: str) -> ModuleType:
    """Return ``auto_scheduler`` and ``autotvm``, whose names scripts find here; they need TVM."""
    if name in ("auto_scheduler", "autotvm"):
        return importlib.import_module(f"tvm.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def tune_model(
    tvmc_model: TVMCModel,
    target: str,
    tuning_records: str | None = None,
    prior_records: str | None = None,
    enable_autoscheduler: bool = False,
    rpc_key: str | None = None,
    hostname: str | None = None,
    port: int | str | None = 9090,
    trials: int = 10000,
    target_host: str | None = None,
    tuner: str = "xgb",
    min_repeat_ms: int | None = None,
    early_stopping: int | None = None,
    timeout: int = 10,
    repeat: int = 1,
    number: int = 10,
    parallel: int = 4,
    hardware_params: object = None,
    include_simple_tasks: bool = False,
    log_estimated_latency: bool = False,
    additional_target_options: Mapping[str, Mapping[str, Any]] | None = None,
    tasks_filter: str = "all",
    **transform_args: Any,
) -> str:
    """Measure schedules of a model's kernels, and return the file of what was found.

    The arguments are those of ``vmkit tvmc tune``, by their names in TVM 0.14; `tuner` and `parallel` change nothing.

    Parameters
    ----------
    target, target_host, additional_target_options, **transform_args
        See :class:`~.preparation.Preparation`.
    tuning_records, prior_records : str, optional
        The file to write, by default one that lives as long as the model, and one whose records are known already.
    tasks_filter : str
        Which kernels; see :func:`filter_tasks`.

    """
    from vmkit.compat.autotvm_measure import timing_of
    from vmkit.tuning import Search

    _require_choices(tuner, hardware_params, include_simple_tasks or log_estimated_latency)
    path = Path(tuning_records or tvmc_model.default_tuning_records_path())
    prepared = Preparation.of(target, target_host, additional_target_options, transform_args)
    mod, params = prepared.cut(prepared.changed(tvmc_model.mod, tvmc_model.params), tvmc_model.params)
    tasks = get_tuning_tasks(mod, params, prepared.target)
    chosen, is_list = filter_tasks(tasks, tasks_filter)
    if is_list:
        print(gen_task_list(chosen or tasks))
        return str(path)
    deeper = -(-trials // max(len(chosen), 1)) if enable_autoscheduler else 0
    search = Search(
        path,
        seconds=float("inf"),
        timeout=timeout,
        trials=deeper,
        tracker=_tracker(hostname, port, rpc_key),
        candidates=trials,
        patience=early_stopping,
        timing=timing_of(number, repeat, min_repeat_ms),
        progress=_tell,
    )
    _measure(chosen, search, prepared.target, prior_records)
    return str(path)


def tune_tasks(
    tasks: Sequence[Task],
    log_file: str,
    measure_option: MeasureOption,
    tuner: str,
    trials: int,
    early_stopping: int | None = None,
    tuning_records: str | None = None,
) -> None:
    """Measure schedules of some tasks, of :func:`autotvm_get_tuning_tasks`, into a file of records.

    Parameters
    ----------
    tasks : sequence of Task
        Of one target.
    log_file, tuning_records : str
        The file to write, and one whose records are known already.
    measure_option : MeasureOption
        What ``autotvm.measure_option`` returns.
    tuner : str
        One of :data:`TUNERS`; the search is the same.
    trials, early_stopping : int
        How many schedules are measured in all, and after how many of a kernel that were no better it is left.
    """
    from vmkit.tuning import Search

    _require_choices(tuner, None, False)
    if not tasks:
        logger.warning("there are no tasks, so nothing is tuned")
        return
    search = Search(
        Path(log_file),
        seconds=float("inf"),
        timeout=measure_option.timeout,
        tracker=measure_option.tracker,
        candidates=trials,
        patience=early_stopping,
        timing=measure_option.timing,
        progress=_tell,
    )
    _measure(tasks, search, tasks[0].target, tuning_records)


def _measure(tasks: Sequence[Task], search: Search, target: Target, prior: str | None) -> None:
    """Measure the kernels of tasks; the file of records is there afterwards, even if nothing was found."""
    from vmkit.target import canonical_target

    plan = canonical_target(target).primary
    if prior:
        _take_over(Path(prior), search.database)
    search.require(plan)
    records = search.run([task.kernel for task in tasks], plan)
    if not search.database.exists():
        records.write(search.database)


def _tell(progress: Progress) -> None:
    logger.info("%s", progress)


def _require_choices(tuner: str, hardware_params: object, is_of_auto_scheduler: bool) -> None:
    if tuner not in TUNERS:
        raise TVMCException(f"there is no tuner {tuner!r}{suggest(tuner, TUNERS)}; there are {', '.join(TUNERS)}")
    if hardware_params is not None or is_of_auto_scheduler:
        raise TVMCException(
            "parameters of hardware are of the auto-scheduler, which is gone; the target says all of it"
        )


def autotvm_get_tuning_tasks(
    mod: tvm.IRModule, params: Mapping[str, Any], target: str, target_host: str | None = None
) -> list[Task]:
    """Return the kernels of a model that there is more than one way to schedule, as AutoTVM's tasks."""
    return get_tuning_tasks(mod, params, Preparation.of(target, target_host).target)


def get_tuning_tasks(mod: Any, params: Mapping[str, Any], target: Any) -> list[Task]:  # noqa: ANN401 - a model
    """Return the kernels of a model that there is more than one way to schedule, as compiling at level 3 has them."""
    from vmkit.compat.autotvm_task import extract_from_program

    from .compiler import pass_context

    with pass_context()(opt_level=3):
        return extract_from_program(mod, params, target)


def _take_over(prior: Path, path: Path) -> None:
    if not prior.is_file():
        raise TVMCException(f"--tuning-records {prior}: there is no such file")
    if prior.resolve() != path.resolve():
        shutil.copyfile(prior, path)


def _tracker(host: str | None, port: int | str | None, key: str | None) -> tuple[str, int, str] | None:
    if host is None and key is None:
        return None
    if host is None or key is None:
        raise TVMCException("--rpc-tracker and --rpc-key go together: where the tracker is, and which of its devices")
    return host, int(port or 9090), key


def drive_tune(args: Namespace) -> int:
    """Run ``tvmc tune``, and return 0."""
    require_input_file(args.FILE)
    # It takes minutes, and says what it has found.
    logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
    host, port = tracker_host_port_from_cli(args.rpc_tracker)
    model = frontends.load_model(args.FILE, args.model_format, shape_dict=shapes_of(args))
    options = reconstruct_target_args(args)
    if isinstance(args.num_cores, int):
        options.setdefault("llvm", {})["num-cores"] = args.num_cores
    tune_model(
        model,
        args.target,
        tuning_records=args.output,
        prior_records=args.tuning_records,
        enable_autoscheduler=args.enable_autoscheduler,
        rpc_key=args.rpc_key,
        hostname=host,
        port=port,
        trials=args.trials,
        target_host=args.target_host,
        tuner=args.tuner,
        min_repeat_ms=args.min_repeat_ms,
        early_stopping=args.early_stopping,
        timeout=args.timeout,
        repeat=args.repeat,
        number=args.number,
        parallel=args.parallel,
        additional_target_options=options,
        tasks_filter=args.tasks,
        **parse_graph_transform_args(args),
    )
    return 0
