"""Profiles of calls: what TVM's VM tells an instrument, and what marked kernel groups tell of the kernels in them.

The VM says when it calls a kernel and when that has returned. A kernel group is one call to it, so the groups of a
program that was compiled in this process are built once more, with marks (:mod:`vmkit.relax.kernel_groups.marks`). A
program from a file has its groups as they are: each is one row, under the names of its kernels.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import tvm
import tvm_ffi
from tvm.runtime import Tensor

from .._dataclasses import dataclass
from ..bytecode.builtins import PREFIX
from ..errors import OptionError, UnavailableError
from ..executable.executable import Executable, Parts
from ..relax.kernel_groups.marks import MARK
from ..runtime.machine import VirtualMachine
from ..values.element_types import element_bytes
from .metrics import Count, Duration, Percent
from .report import BYTES, COUNT, DEVICE, HASH, NAME, NODES, OPERATIONS, PERCENT, SHAPES, TIME, Report, rated
from .work import operations

__all__ = ["Profiling", "VirtualMachineProfiler", "marked", "profiled", "refuse_remote"]

# Instructions of the machine itself that take time, as Relay's profiler called them.
_OWN = {"alloc_storage": "VM::AllocStorage", "alloc_tensor": "VM::AllocTensor", "reshape": "VM::ReshapeTensor"}
_WARM_UPS = 3
_TENSOR = re.compile(r"(\w+)\[([\d, ]*)\]")


@dataclass(frozen=True)
class _Timed:
    """A call that was made: when it began and ended, by the clock."""

    name: str
    begin: float
    end: float
    shapes: str


@dataclass
class _Recorder:
    """What is told while a call is profiled."""

    machine: VirtualMachine
    wait: Callable[[], object]
    timed: list[_Timed] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    # Kernels of the group that runs, where that tells of them.
    of_group: list[_Timed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.functions = {each.name for each in self.machine.executable.program.vm_functions()}
        self.groups = self.machine.executable.info.kernel_groups or {}

    def instrument(self, _function: object, name: str, is_before: bool, _result: object, *args: object) -> int:
        """Take what the VM tells before and after each call."""
        own = name.removeprefix(PREFIX)
        if name in self.functions or (own != name and own not in _OWN):
            return 0
        self.wait()
        if is_before:
            if name in self.groups:
                self.of_group, _here.recorder = [], self
            self.begun.append(time.perf_counter())
            return 0
        end, begin = time.perf_counter(), self.begun.pop()
        kernels, self.of_group, _here.recorder = self.of_group, [], None
        if kernels:
            self.timed += kernels
        else:
            shapes = ", ".join(_shape(each) for each in args if isinstance(each, Tensor))
            self.timed.append(_Timed(self._shown(name, own), begin, end, shapes))
        return 0

    def _shown(self, name: str, own: str) -> str:
        if name in self.groups:
            return f"{name} ({', '.join(self.groups[name])})"
        return _OWN.get(own, name)

    def mark(self, name: str, shapes: str, extents: Sequence[int]) -> None:
        """Take what a marked group tells after each of its kernels."""
        now = time.perf_counter()
        self.of_group.append(_Timed(name, self.begun[-1], now, shapes.format(*extents)))
        self.begun[-1] = time.perf_counter()


class _Here(threading.local):
    """Whose kernel group runs on this thread; None for that of a machine which is not profiled."""

    recorder: _Recorder | None = None


_here = _Here()


@tvm_ffi.register_global_func(MARK, override=True)
def _mark(name: str, shapes: str, *extents: int) -> None:
    if _here.recorder is not None:
        _here.recorder.mark(name, shapes, extents)


def marked(executable: Executable) -> Executable:
    """Return an executable whose kernel groups tell of their kernels; one without groups, or from a file, as it is."""
    parts = executable.profiling
    if parts is None or parts.marked is None:
        return executable
    program = Parts(executable.program, parts.marked())
    return Executable(program, executable.signatures, executable.built_for, executable.info, profiling=parts)


def refuse_remote(exe: object) -> None:
    """Raise if a program is on another machine, whose calls say nothing to an instrument here."""
    if isinstance(exe, tvm.runtime.Module) and exe.kind == "rpc":
        raise UnavailableError("a program on another machine cannot be profiled from here: run the profiler there")


def profiled(machine: VirtualMachine, func_name: str, call: Callable[[], object]) -> Report:
    """Return the report of one call of a function of a machine, which is made slower by the measuring.

    Kernels inside groups have rows of their own in a machine of a :func:`marked` executable. On a GPU each kernel is
    waited for.
    """
    device = machine.devices[0]
    kind, _, number = str(device).partition(":")
    place = f"{kind}{number or 0}"
    recorder = _Recorder(machine, device.sync if kind != "cpu" else lambda: None)
    machine.module["set_instrument"](recorder.instrument)
    try:
        recorder.wait()
        start = time.perf_counter()
        call()
        recorder.wait()
        whole = (time.perf_counter() - start) * 1e6
    finally:
        machine.module["set_instrument"](None)
    parts = machine.executable.profiling
    hashes = parts.hashes() if parts is not None else {}
    counted = _Counted(parts.functions() if parts is not None else {})
    rows = [counted.row(_row(each, place, whole, hashes)) for each in recorder.timed]
    rows = _with_nodes(rows, parts.nodes if parts is not None else {})
    configuration = {"Executor": "VM", "Function": func_name, "Number of threads": Count(machine.num_threads)}
    metrics = {place: {TIME: Duration(whole), PERCENT: Percent(100), COUNT: Count(1)}}
    return Report(rows, metrics, configuration, [(each.begin - start) * 1e6 for each in recorder.timed])


def _with_nodes(rows: Sequence[dict[str, Any]], nodes: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return rows with the nodes that their kernels are for.

    Calls of a kernel that are not as many as in the program, because it branches or loops, may each be any of these.
    """
    counts = Counter(row[NAME] for row in rows)
    texts = {
        name: iter(found if len(found) == counts[name] else [" | ".join(dict.fromkeys(filter(None, found)))] * count)
        for name, count in counts.items()
        if (found := nodes.get(name))
    }
    return [{**row, NODES: text} if row[NAME] in texts and (text := next(texts[row[NAME]])) else row for row in rows]


class _Counted:
    """Adds to rows what their kernels compute and take; each kernel is counted once for the shapes that it is given."""

    def __init__(self, kernels: Mapping[str, Any]) -> None:
        self._kernels = kernels
        self._known: dict[tuple[str, str], int | None] = {}

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with the operations and the bytes of its kernel, where they are known."""
        name, shapes = row[NAME], _TENSOR.findall(row[SHAPES])
        if name in _OWN.values() or not shapes:
            return row
        sizes = [tuple(map(int, filter(None, dims.split(", ")))) for _, dims in shapes]
        told = {BYTES: Count(sum(math.prod(s) * element_bytes(d) for (d, _), s in zip(shapes, sizes, strict=True)))}
        key = (name, row[SHAPES])
        if name in self._kernels and key not in self._known:
            self._known[key] = operations(self._kernels[name], sizes)
        found = self._known.get(key)
        return rated({**row, **({} if found is None else {OPERATIONS: Count(found)}), **told})


def _row(timed: _Timed, place: str, whole: float, hashes: Mapping[str, str]) -> dict[str, Any]:
    taken = (timed.end - timed.begin) * 1e6
    row = {NAME: timed.name, TIME: Duration(taken), PERCENT: Percent(100 * taken / whole), DEVICE: place}
    row |= {COUNT: Count(1), SHAPES: timed.shapes}
    return {**row, HASH: hashes[timed.name]} if timed.name in hashes else row


def _shape(tensor: Tensor) -> str:
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


class Profiling(VirtualMachine):
    """What a machine has that can be profiled."""

    def profile(
        self, *args: Any, func_name: str = "main", collectors: Sequence[object] | None = None, **kwargs: Any
    ) -> Report:
        """Return how long each kernel of a call took, after three calls that do what is done at first.

        Parameters
        ----------
        *args, **kwargs
            The inputs; without any, those that were set.
        func_name
            What is called.

        Raises
        ------
        OptionError
            For `collectors` of hardware counters, of which there are none.
        """
        if collectors:
            raise OptionError("collectors of hardware counters are gone from TVM; the report has the times of kernels")
        reports = [
            profiled(self, func_name, lambda: self.invoke(func_name, *args, **kwargs)) for _ in range(_WARM_UPS + 1)
        ]
        return reports[-1]


class VirtualMachineProfiler(Profiling):
    """A machine whose calls can be profiled; they are slower than those of :class:`vmkit.VirtualMachine`.

    Kernels inside kernel groups are told apart in programs that were compiled in this process.

    Parameters
    ----------
    exe, device, memory_cfg, options
        As for :class:`vmkit.VirtualMachine`.

    Examples
    --------
    >>> import numpy as np
    >>> import vmkit
    >>> from vmkit import relay
    >>> x, w = relay.var("x", shape=(relay.Any(), 4)), relay.var("w", shape=(4, 4))
    >>> exe = vmkit.compile(relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w))))
    >>> report = VirtualMachineProfiler(exe).profile(np.ones((2, 4), "float32"), np.eye(4, dtype="float32"))
    >>> [row["Name"] for row in report.calls if row["Name"] == "nn_softmax"]
    ['nn_softmax']
    """

    def __init__(self, exe: Executable | tvm.runtime.Module, *args: Any, **options: Any) -> None:
        refuse_remote(exe)
        known = exe if isinstance(exe, Executable) else Executable.from_module(exe)
        super().__init__(marked(known), *args, **options)
