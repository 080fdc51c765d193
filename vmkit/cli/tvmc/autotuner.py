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
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import suggest
from . import composite_target, frontends
from .common import require_input_file, shapes_of
from .exceptions import TVMCException
from .model import TVMCModel
from .target import reconstruct_target_args, target_from_cli
from .tracker import tracker_host_port_from_cli
from .transform import apply_graph_transforms, parse_graph_transform_args

if TYPE_CHECKING:
    from vmkit.tuning import Kernel, Progress

__all__ = ["TUNERS", "drive_tune", "filter_tasks", "gen_task_list", "get_tuning_tasks", "tune_model"]

logger = logging.getLogger("TVMC")

TUNERS = ("ga", "gridsearch", "random", "xgb", "xgb_knob", "xgb_itervar", "xgb_curve", "xgb_rank")
"""AutoTVM's searches; there is one here, whatever is chosen."""

_SHOWN = 100  # characters of a task in a list

T = TypeVar("T")


class TaskFilterError(TVMCException, AssertionError):
    """A text of ``--tasks`` that chooses nothing."""


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

    Parameters
    ----------
    tvmc_model, target, target_host, additional_target_options
        The model, and what to compile it for, as for :func:`~.compiler.compile_model`.
    tuning_records, prior_records : str, optional
        The file to write, by default one that lives as long as the model, and one whose records are known already.
    enable_autoscheduler : bool
        Whether MetaSchedule searches further, into a folder beside the file.
    hostname, port, rpc_key
        An RPC tracker, and the key of the devices to measure on; by default this machine.
    trials, early_stopping : int
        How many schedules are measured in all, and after how many of a kernel that were no better it is left.
    tuner : str
        One of :data:`TUNERS`; the search is the same, and as `parallel`, it changes nothing.
    number, repeat, min_repeat_ms : int
        How many calls and milliseconds a measurement takes at least, and how many there are of each schedule.
    timeout : int
        Seconds for one schedule.
    tasks_filter : str
        Which kernels: ``"all"``, or places such as ``"0,2-5"``; ``"list"`` prints them.
    **transform_args
        Layouts and precision.

    Raises
    ------
    TVMCException, VMKitError
        For arguments that cannot be used.
    """
    from vmkit.tuning import Timing, tune

    _require_choices(tuner, hardware_params, include_simple_tasks or log_estimated_latency)
    path = Path(tuning_records or tvmc_model.default_tuning_records_path())
    mod, plan = _prepared(tvmc_model, target, target_host, additional_target_options, transform_args)
    tasks = get_tuning_tasks(mod, tvmc_model.params, plan)
    chosen, is_list = filter_tasks(tasks, tasks_filter)
    if is_list:
        print(gen_task_list(chosen or tasks))
        return str(path)
    if prior_records:
        _take_over(Path(prior_records), path)
    batch = Timing.batch if min_repeat_ms is None else max(min_repeat_ms, 1) / 1000
    records = tune(
        mod,
        plan,
        tvmc_model.params,
        database=path,
        seconds=float("inf"),
        timeout=timeout,
        trials=-(-trials // max(len(chosen), 1)) if enable_autoscheduler else 0,
        tracker=_tracker(hostname, port, rpc_key),
        kernels=[task.name for task in chosen],
        candidates=trials,
        patience=early_stopping,
        timing=Timing(number, repeat, batch),
        progress=_tell,
    )
    if not path.exists():
        records.write(path)
    return str(path)


def _tell(progress: Progress) -> None:
    logger.info("%s", progress)


def _require_choices(tuner: str, hardware_params: object, is_of_auto_scheduler: bool) -> None:
    if tuner not in TUNERS:
        raise TVMCException(f"there is no tuner {tuner!r}{suggest(tuner, TUNERS)}; there are {', '.join(TUNERS)}")
    if hardware_params is not None or is_of_auto_scheduler:
        raise TVMCException(
            "parameters of hardware are of the auto-scheduler, which is gone; the target says all of it"
        )


def _prepared(
    model: TVMCModel,
    target: str,
    host: str | None,
    more: Mapping[str, Mapping[str, Any]] | None,
    transforms: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Return the module whose kernels are tuned, and what they are tuned for."""
    from vmkit.target import canonical_target

    if not target:
        raise TVMCException("there is no target: --target native is this machine")
    plan, generators = target_from_cli(target, more)
    known = parse_graph_transform_args({})
    if unknown := transforms.keys() - known.keys():
        raise TypeError(f"tune_model has no argument {', '.join(sorted(unknown))}")
    mod = apply_graph_transforms(model.mod, known | dict(transforms), model.params)
    for each in generators:
        codegen = composite_target.get_codegen_by_target(each["name"])
        mod = codegen["pass_pipeline"](mod, model.params, **each["opts"])
    return mod, canonical_target(plan, None if host is None else target_from_cli(host)[0])


def get_tuning_tasks(mod: Any, params: Mapping[str, Any], target: Any) -> list[Kernel]:  # noqa: ANN401 - a model
    """Return the kernels of a model that there is more than one way to schedule."""
    from vmkit.target import canonical_target
    from vmkit.tuning import kernels_of

    return kernels_of(mod, canonical_target(target).primary, params)


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


def filter_tasks(tasks: Sequence[T], expr: str) -> tuple[list[T], bool]:
    """Return the tasks that a text chooses, and whether they are to be listed.

    Parameters
    ----------
    tasks : sequence
        What there is.
    expr : str
        With commas between them: ``all``, a place ``3``, places ``2-5``, ``-5`` or ``6-``, or ``list`` (or ``help``).

    Raises
    ------
    TaskFilterError
        For a place that there is not, and a text of another form.

    >>> filter_tasks(list("abcdef"), "0,2-3")
    (['a', 'c', 'd'], False)
    """
    chosen: set[int] = set()
    is_list = False
    for word in (each.strip() for each in expr.split(",")):
        if word in ("list", "help"):
            is_list = True
        elif word == "all":
            chosen.update(range(len(tasks)))
        elif "-" in word:
            chosen.update(_range(word, len(tasks)))
        else:
            if not word.isdigit():
                raise TaskFilterError(f"--tasks {expr!r}: expected all, list, or places such as 0,2-5")
            if int(word) >= len(tasks):
                raise TaskFilterError(f"Task index out of range: {word}, and there are {len(tasks)}")
            chosen.add(int(word))
    return [task for place, task in enumerate(tasks) if place in chosen], is_list


def _range(word: str, count: int) -> range:
    sides = word.split("-")
    if len(sides) != 2 or not all(side.isdigit() or not side for side in sides):
        raise TaskFilterError(f"Malformed range expression: {word}; expected such as 2-5, -5 or 6-")
    if not any(sides):
        raise TaskFilterError(f"Missing lhs or rhs for range expression: {word}")
    first, last = int(sides[0] or 0), int(sides[1] or count - 1)
    if last >= count:
        raise TaskFilterError(f"Right-hand side expression out of range: {last}, and there are {count}")
    if first > last:
        raise TaskFilterError(f"Left-hand side expression out of range: {first}, and the right-hand side is {last}")
    return range(first, last + 1)


def gen_task_list(tasks: Sequence[object], enable_autoscheduler: bool = False) -> str:
    """Return a list of tasks with their places, for people to choose from."""
    lines = []
    for place, task in enumerate(tasks):
        text = str(getattr(task, "name", None) or getattr(task, "desc", None) or "Unnamed")
        lines.append(f"  {place}. {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}")
    return "\n".join(["Available Tasks for tuning:", *lines])


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
