"""How long a model takes: at several shapes and numbers of threads in one run, beside peers if asked.

Each measurement takes turns with the others, call by call in rounds, so that what else the machine does falls on all
of them alike.
"""

from __future__ import annotations

import datetime
import itertools
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import tvm

from ._dataclasses import dataclass
from ._version import __version__
from .compiler.vm_compiler import compile
from .errors import OptionError, UnavailableError
from .executable.executable import Executable
from .executable.loading import load
from .runtime.machine import VirtualMachine
from .target.plan import Targets
from .values.conversion import to_numpy
from .values.filling import filled_inputs

__all__ = ["PEERS", "Benchmark", "Peer", "Timing", "benchmark"]

Peer: TypeAlias = Literal["onnxruntime", "openvino"]
PEERS: tuple[Peer, ...] = ("onnxruntime", "openvino")

_ROUND_SECONDS = 0.05


@dataclass(frozen=True)
class Timing:
    """What calls of one program took.

    Attributes
    ----------
    system : str
        ``"vmkit"``, or the peer.
    shapes : str
        The shapes of the inputs.
    threads : int
    seconds : array
        Of each call.
    """

    system: str
    shapes: str
    threads: int
    seconds: np.ndarray

    def percentile(self, share: float) -> float:
        """Return the seconds that a share of the calls, in percent, did not exceed."""
        return float(np.percentile(self.seconds, share))

    @property
    def per_second(self) -> float:
        """The calls in a second."""
        return float(len(self.seconds) / self.seconds.sum())

    def to_json(self) -> dict[str, Any]:
        """Return it as ``pytest-benchmark compare`` reads one."""
        ordered = np.sort(self.seconds)
        low, middle, high = (float(np.percentile(ordered, share)) for share in (25, 50, 75))
        mean, deviation = float(ordered.mean()), float(ordered.std(ddof=1)) if len(ordered) > 1 else 0.0
        inside = ordered[(ordered >= low - 1.5 * (high - low)) & (ordered <= high + 1.5 * (high - low))]
        outliers = {"iqr": len(ordered) - len(inside), "stddev": int((abs(ordered - mean) > deviation).sum())}
        name = f"{self.system}[{self.shapes}, threads {self.threads}]"
        return {
            "group": f"{self.shapes}, threads {self.threads}",
            "name": name,
            "fullname": name,
            "params": {"system": self.system, "shapes": self.shapes, "threads": self.threads},
            "param": f"{self.system}-{self.shapes}-{self.threads}",
            "extra_info": {"p90": self.percentile(90), "p99": self.percentile(99)},
            "options": {"disable_gc": False, "timer": "perf_counter", "warmup": True},
            "stats": {
                **{"min": float(ordered[0]), "max": float(ordered[-1]), "mean": mean, "stddev": deviation},
                **{"rounds": len(ordered), "median": middle, "iqr": high - low, "q1": low, "q3": high},
                **{"iqr_outliers": outliers["iqr"], "stddev_outliers": outliers["stddev"]},
                "outliers": f"{outliers['stddev']};{outliers['iqr']}",
                **{"ld15iqr": float(inside[0]), "hd15iqr": float(inside[-1])},
                **{"ops": self.per_second, "total": float(ordered.sum()), "iterations": 1},
            },
        }


@dataclass(frozen=True)
class Benchmark:
    """What :func:`benchmark` measured, and on what."""

    timings: tuple[Timing, ...]
    environment: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as a file of ``pytest-benchmark``, which its ``compare`` reads."""
        return {
            "machine_info": dict(self.environment),
            "commit_info": {},
            "benchmarks": [timing.to_json() for timing in self.timings],
            "datetime": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "version": "4.0.0",
        }

    def __str__(self) -> str:
        shapes = max([6, *(len(each.shapes) for each in self.timings)])
        has_peers = any(each.system != "vmkit" for each in self.timings)
        times = " ".join(f"{name:>9}" for name in ("p50 ms", "p90 ms", "p99 ms"))
        lines = [f"{'shapes':{shapes}}  threads  {'system':11}  {times}  {'per s':>9}{'  ratio' if has_peers else ''}"]
        for each in self.timings:
            times = " ".join(f"{1000 * each.percentile(share):9.3f}" for share in (50, 90, 99))
            ratio = "" if each.system == "vmkit" else f"  {self._ours(each).percentile(50) / each.percentile(50):5.2f}"
            lines.append(
                f"{each.shapes:{shapes}}  {each.threads:7}  {each.system:11}  {times}  {each.per_second:9.1f}{ratio}"
            )
        if has_peers:
            lines.append("ratio: vmkit's p50 to the peer's; below 1 vmkit is faster")
        return "\n".join(lines)

    def _ours(self, peer: Timing) -> Timing:
        same = (each for each in self.timings if (each.shapes, each.threads) == (peer.shapes, peer.threads))
        return next(each for each in same if each.system == "vmkit")


def benchmark(
    model: str | os.PathLike[str] | tvm.IRModule,
    shapes: Sequence[Mapping[str, Sequence[int]] | None] = (None,),
    threads: Sequence[int] = (1,),
    *,
    peers: Sequence[Peer] = (),
    target: Targets | None = "native",
    seconds: float = 2.0,
    calls: int | None = None,
    warm_up: int = 3,
    progress: Callable[[float, str], None] | None = None,
) -> Benchmark:
    """Return how long calls of a model take, copies of inputs and outputs included.

    Parameters
    ----------
    model : path or tvm.IRModule
        An executable (``.vmx``; running it runs its code), or a model, compiled first. Peers take ONNX files.
    shapes : list of mapping
        Shapes of inputs by name to run at; None where the model fixes all sizes.
    threads : list of int
    peers : list of str
        ``"onnxruntime"``, ``"openvino"``.
    target : optional
        What to compile for.
    seconds : float
        To call each program for.
    calls : int, optional
        The number of calls, in place of that.
    warm_up : int
        Calls that are not timed.
    progress : callable, optional
        Called between calls with the share of the work that is done, from 0 to 1, and what is measured.

    Raises
    ------
    UnavailableError
        If a peer is not installed.
    OptionError, InputError, ModelError
        If an argument cannot be used.
    """
    if seconds <= 0 or (calls is not None and calls < 1) or warm_up < 0:
        raise OptionError(f"seconds {seconds}, calls {calls}, warm_up {warm_up}: there has to be at least one call")
    unknown = [peer for peer in peers if peer not in PEERS]
    if unknown:
        raise OptionError(f"there is no peer {unknown[0]!r}; there are {', '.join(PEERS)}")
    path = Path() if isinstance(model, tvm.IRModule) else Path(model)
    if peers and path.suffix != ".onnx":
        raise OptionError(f"peers run ONNX files, and {path.name or 'a module'} is none")
    executable = load(path) if path.suffix == ".vmx" else compile(model, target)
    tell = progress or (lambda share, what: None)
    timings: list[Timing] = []
    steps = list(itertools.product(shapes, threads))
    for at, (shape, count) in enumerate(steps):
        feed = filled_inputs(executable.signature, shape)
        told = " ".join(f"{name}:[{','.join(map(str, array.shape))}]" for name, array in feed.items())
        tell(at / len(steps), told)
        runs = {"vmkit": _own(executable, feed, count)}
        runs.update({peer: _PEERS[peer](path, feed, count) for peer in peers})
        taken = _timed(list(runs.values()), _Limits(seconds, calls, warm_up), partial(_tell_of, tell, at, steps, told))
        timings += [Timing(name, told, count, each) for name, each in zip(runs, taken, strict=True)]
    return Benchmark(tuple(timings), _environment(executable))


def _tell_of(tell: Callable[[float, str], None], at: int, steps: Sequence[object], what: str, share: float) -> None:
    """Tell what share of all steps is done when so much of one is."""
    tell((at + share) / len(steps), what)


@dataclass(frozen=True)
class _Limits:
    """How long programs are called."""

    seconds: float
    calls: int | None
    warm_up: int

    def share(self, taken: list[float]) -> float:
        """Return what share of a program's calls is made; 1 or more when it is enough."""
        if self.calls is not None:
            return len(taken) / self.calls
        return sum(taken) / self.seconds if taken else 0.0


def _timed(runs: Sequence[Callable[[], Any]], limits: _Limits, tell: Callable[[float], None]) -> list[np.ndarray]:
    """Return the seconds of each call of each program; they take turns, and between them the share done is told."""
    lengths = []
    for run in runs:
        for _ in range(limits.warm_up):
            run()
        start = time.perf_counter()
        run()
        lengths.append(time.perf_counter() - start)
    taken: list[list[float]] = [[] for _ in runs]
    while (share := min(map(limits.share, taken))) < 1:
        tell(share)
        for run, length, each in zip(runs, lengths, taken, strict=True):
            for _ in range(max(1, int(_ROUND_SECONDS / max(length, 1e-9)))):
                if limits.share(each) >= 1:
                    break
                start = time.perf_counter()
                run()
                each.append(time.perf_counter() - start)
    return [np.array(each) for each in taken]


def _own(executable: Executable, feed: Mapping[str, np.ndarray], threads: int) -> Callable[[], Any]:
    machine = VirtualMachine(executable, executable.device_kind or "cpu", num_threads=threads)
    values = [feed[name] for name in executable.signature.names]
    return lambda: to_numpy(machine.run(*values))


def _onnxruntime(path: Path, feed: Mapping[str, np.ndarray], threads: int) -> Callable[[], Any]:
    try:
        import onnxruntime
    except ImportError as error:
        raise UnavailableError(f"onnxruntime is not installed: {error}") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(feed))


def _openvino(path: Path, feed: Mapping[str, np.ndarray], threads: int) -> Callable[[], Any]:
    try:
        import openvino
    except ImportError as error:
        raise UnavailableError(f"openvino is not installed: {error}") from error
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(os.fspath(path), "CPU", settings).create_infer_request()
    return lambda: request.infer(dict(feed))


_PEERS: dict[Peer, Callable[[Path, Mapping[str, np.ndarray], int], Callable[[], Any]]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}


def _environment(executable: Executable) -> dict[str, Any]:
    return {
        "node": platform.node(),
        "processor": platform.processor(),
        "machine": platform.machine(),
        "python_version": platform.python_version(),
        "system": platform.system(),
        "release": platform.release(),
        "cpu": {"count": os.cpu_count()},
        "vmkit": __version__,
        "tvm": tvm.__version__,
        "target": str(executable.target),
    }
