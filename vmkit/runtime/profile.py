"""Where the time of a call goes: each kernel that the machine called, and each of its own instructions that counts."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm.runtime import Tensor

from ..bytecode.builtins import PREFIX

if TYPE_CHECKING:
    from .machine import VirtualMachine

__all__ = ["Report", "profiled"]

# Instructions of the machine itself that take time, as Relay's profiler called them.
_OWN = {"alloc_storage": "VM::AllocStorage", "alloc_tensor": "VM::AllocTensor", "reshape": "VM::ReshapeTensor"}
_NAME, _TIME, _COUNT, _SHAPES, _PERCENT = "Name", "Duration (us)", "Count", "Argument Shapes", "Percent"


@dataclass(frozen=True)
class Report:
    """What a profiled call did.

    Parameters
    ----------
    calls
        One row for each call of a kernel, in order: ``Name``, ``Duration (us)``, ``Argument Shapes``, ``Count`` and
        ``Percent`` of the whole.
    device_metrics
        By device, the ``Duration (us)`` of the whole call, with what lies between the kernels.
    configuration
        What was called.
    """

    calls: Sequence[Mapping[str, Any]]
    device_metrics: Mapping[str, Mapping[str, Any]]
    configuration: Mapping[str, Any]

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """Return the rows as a table.

        Parameters
        ----------
        sort
            Whether the longest comes first; otherwise in the order of the calls.
        aggregate
            Whether calls of the same kernel with arguments of the same shapes are one row.
        col_sums
            Whether the last rows say the sum of the rows and the time of the whole.
        """
        rows = self._aggregated() if aggregate else [dict(row) for row in self.calls]
        if sort:
            rows.sort(key=lambda row: -row[_TIME])
        if col_sums:
            total = {name: sum(row[name] for row in rows) for name in (_TIME, _COUNT, _PERCENT)}
            rows.append({_NAME: "Sum", _SHAPES: "", **total})
            for device, metrics in self.device_metrics.items():
                rows.append({_NAME: f"Total on {device}", _SHAPES: "", _COUNT: 1, _PERCENT: 100.0, **metrics})
        shown = [_COLUMNS, *([_shown(row[name]) for name in _COLUMNS] for row in rows)]
        widths = [max(len(row[at]) for row in shown) for at in range(len(_COLUMNS))]
        lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in shown)
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def csv(self) -> str:
        """Return the rows as comma-separated values, with a header."""
        file = io.StringIO()
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.calls)
        return file.getvalue()

    def json(self) -> str:
        """Return all of the report as JSON."""
        whole = {"calls": self.calls, "device_metrics": self.device_metrics, "configuration": self.configuration}
        return json.dumps(whole)

    def __str__(self) -> str:
        return self.table()

    def _aggregated(self) -> list[dict[str, Any]]:
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for call in self.calls:
            row = rows.setdefault((call[_NAME], call[_SHAPES]), {**call, _TIME: 0.0, _COUNT: 0, _PERCENT: 0.0})
            for name in (_TIME, _COUNT, _PERCENT):
                row[name] += call[name]
        return list(rows.values())


_COLUMNS = [_NAME, _TIME, _PERCENT, _COUNT, _SHAPES]


def profiled(machine: VirtualMachine, func_name: str, call: Callable[[], object]) -> Report:
    """Return the report of one call of a function of a machine, which is made slower by the measuring.

    Kernels that the machine calls as one group are one row; to see each, compile under
    ``PassContext(disabled_pass=["GroupKernels"])``. On a GPU each kernel is waited for.
    """
    device = machine.devices[0]
    wait = device.sync if str(device).partition(":")[0] != "cpu" else (lambda: None)
    begun: list[float] = []
    calls: list[dict[str, Any]] = []
    functions = set(machine.executable.globals)

    def instrument(_function: object, name: str, is_before: bool, _result: object, *args: object) -> int:
        own = name.removeprefix(PREFIX)
        if name in functions or (own != name and own not in _OWN):
            return 0
        wait()
        if is_before:
            begun.append(time.perf_counter())
        else:
            taken = (time.perf_counter() - begun.pop()) * 1e6
            shapes = ", ".join(_shape(each) for each in args if isinstance(each, Tensor))
            calls.append({_NAME: _OWN.get(own, name), _TIME: taken, _COUNT: 1, _SHAPES: shapes})
        return 0

    machine.module["set_instrument"](instrument)
    try:
        wait()
        start = time.perf_counter()
        call()
        wait()
        whole = (time.perf_counter() - start) * 1e6
    finally:
        machine.module["set_instrument"](None)
    rows = [{**row, _PERCENT: 100 * row[_TIME] / whole} for row in calls]
    return Report(rows, {str(device): {_TIME: whole}}, {"Executor": "VM", "Function": func_name})


def _shape(tensor: Tensor) -> str:
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def _shown(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
