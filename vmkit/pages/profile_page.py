"""A profile as a page: which kernels take the time, and when each call ran."""

from __future__ import annotations

from typing import Any

from ..profiling.report import BYTES, COUNT, DEVICE, NAME, OPERATIONS, PERCENT, RATE, SHAPES, TIME, Report
from .html import page

__all__ = ["profile_page"]


def profile_page(report: Report, title: str = "profile") -> str:
    """Return a page with bars and a timeline of a profile, as HTML that needs no other file and no network.

    Parameters
    ----------
    report : vmkit.profiling.Report
        What a profiled call did.
    title : str
        What to call it, such as the model's name.
    """
    return page("profile", f"{title} - vmkit", _data(report, title))


def _data(report: Report, title: str) -> dict[str, Any]:
    begin, calls = 0.0, []
    for at, row in enumerate(report.calls):
        begin = report.starts[at] if report.starts else begin
        time = float(row[TIME])
        known = (NAME, TIME, PERCENT, DEVICE, SHAPES, COUNT, OPERATIONS, RATE, BYTES)
        calls.append(
            {
                "name": str(row[NAME]),
                "begin": begin,
                "time": time,
                "device": str(row.get(DEVICE, "")),
                "shapes": str(row.get(SHAPES, "")),
                "operations": int(row[OPERATIONS]) if OPERATIONS in row else None,
                "bytes": int(row[BYTES]) if BYTES in row else None,
                "more": {name: str(value) for name, value in row.items() if name not in known},
            }
        )
        begin += time
    return {
        "title": title,
        "configuration": {name: str(value) for name, value in report.configuration.items()},
        "whole": {device: float(metrics[TIME]) for device, metrics in report.device_metrics.items()},
        "calls": calls,
    }
