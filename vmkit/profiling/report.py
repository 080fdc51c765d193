"""What a profile says, in the form that TVM's reports have."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._dataclasses import dataclass
from ..errors import ParseError
from .metrics import Count, Duration, Percent, Ratio, metric_from_json, metric_to_json
from .operators import operators_in

__all__ = [
    *("BYTES", "COUNT", "DEVICE", "HASH", "NAME", "NODES", "OPERATIONS", "PERCENT", "RATE", "SHAPES", "TIME"),
    *("Report", "Row", "rated"),
]

Row = Mapping[str, Any]
"""A call: its metrics by their names."""

NAME, TIME, PERCENT, DEVICE = "Name", "Duration (us)", "Percent", "Device"
COUNT, SHAPES, HASH = "Count", "Argument Shapes", "Hash"
OPERATIONS, RATE, BYTES, NODES = "Operations", "GFLOP/s", "Bytes", "Nodes"
_COLUMNS = (NAME, TIME, PERCENT, DEVICE, COUNT, SHAPES, HASH)
_SUMMED = (TIME, PERCENT, COUNT)
_COUNTED = (OPERATIONS, BYTES)
_PROCESS = "vmkit"
_WIDEST = 72  # characters of a name in a table


@dataclass(frozen=True)
class Report:
    """What a profiled call did.

    Parameters
    ----------
    calls
        One row for each call of a kernel, in order: ``Name``, ``Duration (us)``, ``Percent`` of the whole, ``Device``,
        ``Count``, ``Argument Shapes`` and, where they are known: ``Hash``, equal for kernels that are; ``Operations``,
        as :mod:`vmkit.profiling.work` counts them, of floats or integers; ``GFLOP/s``, a thousand million of them in a
        second; ``Bytes``, of all arguments together; and ``Nodes``, what of the model the kernel was made of, in a
        program that was compiled with the option ``relay.frontend.fill_span``.
    device_metrics
        By device, the ``Duration (us)`` of the whole call, with what lies between the kernels.
    configuration
        What was called, and how.
    starts
        When each call began, in microseconds since the whole did. Without them calls are drawn one after another.
    """

    calls: Sequence[Row]
    device_metrics: Mapping[str, Row]
    configuration: Mapping[str, Any]
    starts: Sequence[float] = ()

    def table(
        self,
        sort: bool = True,
        aggregate: bool = True,
        col_sums: bool = True,
        *,
        columns: Sequence[str] | None = None,
        by_operator: bool = False,
        by_node: bool = False,
    ) -> str:
        """Return the rows as a table.

        Parameters
        ----------
        sort
            Whether the longest comes first; otherwise in the order of the calls.
        aggregate
            Whether calls of the same kernel with arguments of the same shapes are one row.
        col_sums
            Whether the last rows say the sum of the rows and the time of the whole.
        columns
            The names of the columns; by default all.
        by_operator
            Whether calls of kernels for the same operators are one row, whatever their shapes; see
            :func:`vmkit.profiling.operators.operators_in`.
        by_node
            Whether calls of all kernels that were made of the same nodes of the model are one row, named by these.
        """
        if by_node:
            rows = self._summed(lambda row: {NAME: str(row.get(NODES) or row[NAME]), DEVICE: row.get(DEVICE, "")})
        elif by_operator:
            rows = self._summed(lambda row: {NAME: operators_in(str(row[NAME])), DEVICE: row.get(DEVICE, "")})
        else:
            rows = self._aggregated() if aggregate else [dict(row) for row in self.calls]
        if sort:
            rows.sort(key=lambda row: -row[TIME])
        if col_sums:
            rows.append({NAME: "Sum", **{name: type(_ZERO[name])(sum(row[name] for row in rows)) for name in _SUMMED}})
            for device, metrics in self.device_metrics.items():
                rows.append({NAME: "Total", DEVICE: device, COUNT: Count(1), PERCENT: Percent(100), **metrics})
        columns = list(columns or self._columns())
        # The name of a group has those of all its kernels.
        short = [{**row, NAME: _short(str(row[NAME]))} for row in rows]
        shown = [columns, *([_shown(row.get(name, "")) for name in columns] for row in short)]
        widths = [max(len(row[at]) for row in shown) for at in range(len(columns))]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in shown]
        if col_sums:
            # Programs that read the table know by it where the kernels end.
            lines.insert(len(lines) - 1 - len(self.device_metrics), "-" * 10)
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def csv(self) -> str:
        """Return the rows as comma-separated values, with a header."""
        file = io.StringIO()
        writer = csv.DictWriter(file, self._columns(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.calls)
        return file.getvalue()

    def json(self) -> str:
        """Return all of the report as JSON, each value under the name of its kind; :meth:`from_json` reads it."""
        whole = {
            "calls": [_row_to_json(row) for row in self.calls],
            "device_metrics": {device: _row_to_json(metrics) for device, metrics in self.device_metrics.items()},
            "configuration": _row_to_json(self.configuration),
        }
        return json.dumps(whole)

    @staticmethod
    def from_json(text: str) -> Report:
        """Return the report that :meth:`json`, or that of a TVM which had reports, wrote; ParseError for other text."""
        try:
            whole = json.loads(text)
            return Report(
                [_row_from_json(row) for row in whole["calls"]],
                {device: _row_from_json(metrics) for device, metrics in whole["device_metrics"].items()},
                _row_from_json(whole.get("configuration", {})),
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ParseError(f"the text is no report: {error}") from error

    def chrome_trace(self) -> str:
        """Return the calls as a trace in JSON, which ``chrome://tracing`` and ``ui.perfetto.dev`` draw."""
        return json.dumps({"traceEvents": self.trace_events(), "displayTimeUnit": "ns"})

    def trace_events(self, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the calls as events of such a trace, which begin at `since` microseconds."""
        events = [
            _event(f"{self.configuration.get('Function', 'call')} on {device}", "call", since, metrics[TIME], {})
            for device, metrics in self.device_metrics.items()
        ]
        begin = 0.0
        for at, row in enumerate(self.calls):
            begin = self.starts[at] if self.starts else begin
            told = {name: str(row[name]) for name in (DEVICE, SHAPES, HASH, OPERATIONS, BYTES, NODES) if name in row}
            events.append(_event(str(row[NAME]), "kernel", since + begin, row[TIME], told))
            begin += row[TIME]
        return events

    def __str__(self) -> str:
        return self.table()

    def _columns(self) -> list[str]:
        """Return the names of the columns: those that every report has, and what else the rows have."""
        found = dict.fromkeys([*_COLUMNS, *(name for row in self.calls for name in row)])
        return [name for name in found if name in _COLUMNS[:6] or any(name in row for row in self.calls)]

    def _aggregated(self) -> list[dict[str, Any]]:
        return self._summed(
            lambda row: {name: row[name] for name in (NAME, SHAPES, HASH, DEVICE, NODES) if name in row}
        )

    def _summed(self, kept: Callable[[Row], dict[str, Any]]) -> list[dict[str, Any]]:
        """Return one row for calls of which the same is kept, with the sums of what can be added."""
        rows: dict[tuple[str, ...], dict[str, Any]] = {}
        for call in self.calls:
            own = kept(call)
            key = tuple(str(own.get(name, "")) for name in (NAME, SHAPES, HASH, DEVICE, NODES))
            known = {name: Count(0) for name in _COUNTED if name in call}
            row = rows.setdefault(key, {**{n: v for n, v in call.items() if n in _COLUMNS}, **known, **own, **_ZERO})
            for name in _SUMMED:
                row[name] = type(_ZERO[name])(row[name] + call.get(name, 0))
            for name in _COUNTED:
                if name in row and name in call:
                    row[name] = Count(row[name] + call[name])
                else:
                    row.pop(name, None)  # what one of them does not tell, their sum does not
        return [rated(row) for row in rows.values()]


def rated(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the rate of its operations, where these are known and there are some."""
    if not row.get(OPERATIONS) or not row.get(TIME):
        return row
    return {**row, RATE: Ratio(row[OPERATIONS] / row[TIME] / 1000)}


_ZERO: dict[str, Any] = {TIME: Duration(0), PERCENT: Percent(0), COUNT: Count(0)}


def _event(name: str, kind: str, begin: float, duration: float, told: Mapping[str, str]) -> dict[str, Any]:
    """Return a complete event, ``"ph": "X"``; the format's times are microseconds."""
    times = {"ts": round(begin, 3), "dur": round(float(duration), 3)}
    return {"name": name, "cat": kind, "ph": "X", **times, "pid": _PROCESS, "tid": "VM", "args": dict(told)}


def _row_to_json(row: Row) -> dict[str, Any]:
    return {name: metric_to_json(value) for name, value in row.items()}


def _row_from_json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: metric_from_json(value) for name, value in row.items()}


def _short(name: str) -> str:
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..."


def _shown(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
