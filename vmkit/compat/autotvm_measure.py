"""``tvm.autotvm.measure_option`` and what it takes: how schedules are measured, and where."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from .._dataclasses import dataclass
from ..errors import OptionError
from ..tuning import Timing
from .gone import GONE_MODULES, gone, modules_below

__all__ = ["LocalBuilder", "LocalRunner", "MeasureOption", "RPCRunner", "measure_option", "timing_of"]


def timing_of(number: int, repeat: int, min_repeat_ms: float | None) -> Timing:
    """Return how a schedule is timed, of AutoTVM's numbers: calls a measurement, measurements, least milliseconds."""
    return Timing(number, repeat, Timing.batch if min_repeat_ms is None else max(min_repeat_ms, 1) / 1000)


@dataclass(frozen=True)
class LocalBuilder:
    """What builds candidates: this machine, one after another; `n_parallel` and `do_fork` change nothing.

    Attributes
    ----------
    timeout : float
        Seconds that building one may take.
    build_func : str
        ``"default"``; a function that links by itself is refused.
    """

    timeout: float = 10.0
    n_parallel: int | None = None
    build_kwargs: Any = None
    build_func: str = "default"
    do_fork: bool = False
    runtime: Any = None

    def __post_init__(self) -> None:
        if self.build_func != "default" or self.build_kwargs:
            raise OptionError(
                "LocalBuilder: candidates are linked by the cross compiler of the target's triple; build_func and "
                "build_kwargs cannot say another"
            )


@dataclass(frozen=True)
class LocalRunner:
    """What runs candidates: this machine, one call after another; `cooldown_interval` changes nothing.

    Attributes
    ----------
    timeout : float
        Seconds that one may take.
    number, repeat, min_repeat_ms
        Calls a measurement has at least, measurements, and milliseconds that a measurement takes at least.
    """

    timeout: float = 10.0
    number: int = 4
    repeat: int = 3
    min_repeat_ms: float = 0
    cooldown_interval: float = 0.1
    enable_cpu_cache_flush: bool = False
    module_loader: Any = None

    def __post_init__(self) -> None:
        _require_plain(self)


@dataclass(frozen=True)
class RPCRunner:
    """What runs candidates: devices that a tracker lends. `priority` and `n_parallel` change nothing.

    Attributes
    ----------
    key, host, port
        The key of the devices, and where the tracker is.
    timeout, number, repeat, min_repeat_ms
        As of :class:`LocalRunner`.
    """

    key: str
    host: str
    port: int
    priority: int = 1
    timeout: float = 10.0
    n_parallel: int | None = None
    number: int = 4
    repeat: int = 3
    min_repeat_ms: float = 0
    cooldown_interval: float = 0.1
    enable_cpu_cache_flush: bool = False
    module_loader: Any = None

    def __post_init__(self) -> None:
        _require_plain(self)


def _require_plain(runner: LocalRunner | RPCRunner) -> None:
    """Raise OptionError for what no runner here does."""
    if runner.enable_cpu_cache_flush or runner.module_loader is not None:
        raise OptionError(f"{type(runner).__name__}: enable_cpu_cache_flush and module_loader are not offered")


@dataclass(frozen=True)
class MeasureOption:
    """How schedules are measured, and where.

    Attributes
    ----------
    builder : LocalBuilder
    runner : LocalRunner or RPCRunner
    """

    builder: LocalBuilder = field(default_factory=LocalBuilder)
    runner: LocalRunner | RPCRunner = field(default_factory=LocalRunner)

    @property
    def timeout(self) -> float:
        """Seconds that one candidate may take, to be built and run."""
        return self.builder.timeout + self.runner.timeout

    @property
    def timing(self) -> Timing:
        """How a candidate is timed."""
        return timing_of(self.runner.number, self.runner.repeat, self.runner.min_repeat_ms)

    @property
    def tracker(self) -> tuple[str, int, str] | None:
        """Where the devices are; None for this machine."""
        return (self.runner.host, self.runner.port, self.runner.key) if isinstance(self.runner, RPCRunner) else None


def measure_option(builder: LocalBuilder | str, runner: LocalRunner | RPCRunner | str) -> MeasureOption:
    """Return how schedules are measured; either may be ``"local"``."""
    made_builder = LocalBuilder() if builder == "local" else builder
    made_runner = LocalRunner() if runner == "local" else runner
    if not isinstance(made_builder, LocalBuilder) or not isinstance(made_runner, LocalRunner | RPCRunner):
        raise OptionError(f"measure_option: expected 'local', a builder and a runner, got {builder!r} and {runner!r}")
    return MeasureOption(made_builder, made_runner)


_INSTEAD, _ = GONE_MODULES["tvm.autotvm.measure.executor"]
Builder, MeasureInput, MeasureResult = (
    gone(f"tvm.autotvm.measure.{name}", _INSTEAD) for name in ("Builder", "MeasureInput", "MeasureResult")
)
__getattr__ = modules_below("tvm.autotvm.measure", __all__)
