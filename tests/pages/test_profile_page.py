"""Pictures of profiles: every call with its times is in the page."""

from __future__ import annotations

from tests.pages.test_graph_page import data
from vmkit.pages import profile_page
from vmkit.profiling.metrics import Count, Duration, Percent
from vmkit.profiling.report import Report


def row(name: str, time: float) -> dict[str, object]:
    """Return a call of a kernel."""
    return {
        "Name": name,
        "Duration (us)": Duration(time),
        "Percent": Percent(time / 2),
        "Device": "cpu0",
        "Count": Count(1),
        "Argument Shapes": "float32[4]",
    }


def test_every_call_is_in_the_page() -> None:
    calls = [row("first<b>", 120.0), row("second", 40.0)]
    report = Report(calls, {"cpu0": {"Duration (us)": Duration(200.0)}}, {"Function": "main"}, starts=(5.0, 150.0))
    found = data(profile_page(report, "small.onnx"))
    assert found["title"] == "small.onnx" and found["configuration"] == {"Function": "main"}
    assert found["whole"] == {"cpu0": 200.0}
    assert [(call["name"], call["begin"], call["time"]) for call in found["calls"]] == [
        ("first<b>", 5.0, 120.0),
        ("second", 150.0, 40.0),
    ]


def test_calls_of_a_report_without_beginnings_follow_each_other() -> None:
    report = Report([row("first", 3.0), row("second", 2.0)], {}, {})
    assert [call["begin"] for call in data(profile_page(report))["calls"]] == [0.0, 3.0]
