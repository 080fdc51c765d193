"""A profile tells the kernels inside kernel groups and loops apart, in the form of TVM's reports."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import OptionError, ParseError
from vmkit.profiling import Count, Duration, Percent, Ratio, Report, VirtualMachineProfiler
from vmkit.profiling.metrics import metric_from_json, metric_to_json

W = np.random.default_rng(0).random((16, 16), dtype="float32")
X = np.ones((7, 16), "float32")


def network() -> relay.Function:
    """Return three kernels that run one after another."""
    x, w = relay.var("x", shape=(relay.Any(), 16)), relay.const(W)
    return relay.Function([x], relay.nn.softmax(relay.nn.dense(relay.tanh(relay.nn.dense(x, w)), w)))


def wanted(x: np.ndarray) -> np.ndarray:
    made = np.exp(np.tanh(x @ W.T) @ W.T)
    return made / made.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def executable() -> vmkit.Executable:
    return vmkit.compile(network(), target="llvm")


@pytest.fixture(scope="module")
def profiler(executable: vmkit.Executable) -> VirtualMachineProfiler:
    return VirtualMachineProfiler(executable, vmkit.device("cpu"))


@pytest.fixture(scope="module")
def report(profiler: VirtualMachineProfiler) -> Report:
    return profiler.profile(x=X)


def kernels(report: Report) -> list[dict[str, Any]]:
    return [dict(row) for row in report.calls if row["Name"] != "shape_func" and not row["Name"].startswith("VM::")]


def test_kernels_of_a_group_have_rows_of_their_own(executable: vmkit.Executable, report: Report) -> None:
    (group,) = executable.info["kernel_groups"].values()
    assert len(group) == 3
    assert [row["Name"] for row in kernels(report)] == group


def test_their_shapes_are_those_of_the_call(report: Report, profiler: VirtualMachineProfiler) -> None:
    assert [row["Argument Shapes"] for row in kernels(report)][-1] == "float32[7, 16], float32[7, 16]"
    other = profiler.profile(X[:2])
    assert [row["Argument Shapes"] for row in kernels(other)][-1] == "float32[2, 16], float32[2, 16]"


def test_rows_follow_each_other_and_are_less_than_the_whole(report: Report) -> None:
    ends = [start + row["Duration (us)"] for start, row in zip(report.starts, report.calls, strict=True)]
    assert all(end <= begin for end, begin in zip(ends, report.starts[1:], strict=False))
    ((device, whole),) = report.device_metrics.items()
    assert device == "cpu0"
    assert ends[-1] <= whole["Duration (us)"]
    assert all(row["Duration (us)"] > 0 and row["Device"] == device and row["Count"] == 1 for row in report.calls)


def test_a_profiled_machine_computes_the_same(profiler: VirtualMachineProfiler) -> None:
    np.testing.assert_allclose(profiler.run(X).numpy(), wanted(X), rtol=1e-5)


def test_inputs_that_were_set_are_profiled(executable: vmkit.Executable) -> None:
    profiler = VirtualMachineProfiler(executable)
    profiler.set_input("main", X[:3])
    assert kernels(profiler.profile())[-1]["Argument Shapes"] == "float32[3, 16], float32[3, 16]"


def test_equal_kernels_have_equal_hashes(report: Report, profiler: VirtualMachineProfiler) -> None:
    hashes = [row["Hash"] for row in kernels(report)]
    assert len(set(hashes)) == 3
    assert [row["Hash"] for row in kernels(profiler.profile(X[:1]))] == hashes


def test_kernels_of_a_loop_are_told_apart() -> None:
    program = """#[version = "0.0.5"]
    def @loop(%i: int32, %x: Tensor[(4, 4), float32]) -> Tensor[(4, 4), float32] {
      if (%i < 3) { @loop(%i + 1, nn.softmax(nn.dense(%x, %x))) } else { %x }
    }
    def @main(%x: Tensor[(4, 4), float32]) { @loop(0, %x) }
    """
    exe = vmkit.compile(relay.parse(program), target="llvm")
    report = VirtualMachineProfiler(exe).profile(np.eye(4, dtype="float32"))
    named = [row["Name"] for row in report.calls]
    assert sum("softmax" in name for name in named) == 3
    assert not any(name in (exe.info.get("kernel_groups") or {}) for name in named)


def test_a_file_has_a_row_for_each_group(executable: vmkit.Executable, tmp_path: Path) -> None:
    executable.export(tmp_path / "model.vmx")
    report = VirtualMachineProfiler(vmkit.load(tmp_path / "model.vmx")).profile(X)
    ((name, group),) = executable.info["kernel_groups"].items()
    assert [row["Name"] for row in kernels(report)] == [f"{name} ({', '.join(group)})"]
    assert "Hash" not in report.csv().splitlines()[0]


def test_late_bound_constants_stay_out_of_what_is_profiled(executable: vmkit.Executable) -> None:
    exe = vmkit.compile(network(), target="llvm")
    constants = exe.get_late_bound_consts(256)
    assert constants
    exe.load_late_bound_consts_from_map(constants)
    profiler = VirtualMachineProfiler(exe)
    np.testing.assert_allclose(profiler.run(X).numpy(), wanted(X), rtol=1e-5)
    assert len(kernels(profiler.profile(X))) == 3


def test_machines_in_other_threads_are_not_in_a_profile(executable: vmkit.Executable) -> None:
    other, profiler = VirtualMachineProfiler(executable), VirtualMachineProfiler(executable)
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            other.run(X[:1])

    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        assert {row["Argument Shapes"].split("]")[0] for row in kernels(profiler.profile(X))} == {"float32[7, 16"}
    finally:
        stop.set()
        thread.join()


def test_a_report_goes_through_json(report: Report) -> None:
    text = report.json()
    first = json.loads(text)["calls"][0]
    assert set(first["Duration (us)"]) == {"microseconds"}
    assert first["Count"] == {"count": 1}
    again = Report.from_json(text)
    assert (again.calls, again.device_metrics, again.configuration) == (
        report.calls,
        report.device_metrics,
        report.configuration,
    )
    assert isinstance(again.calls[0]["Duration (us)"], Duration)
    assert again.table() == report.table()


def test_a_report_of_tvm_0_14_is_read() -> None:
    text = json.dumps(
        {
            "calls": [
                {
                    "Name": {"string": "vm_mod_fused_add"},
                    "Duration (us)": {"microseconds": 12.5},
                    "Count": {"count": 1},
                    "Percent": {"percent": 50.0},
                    "VM::Argument Shapes": {"string": "float32[1]"},
                    "Arithmetic Intensity": {"ratio": 0.25},
                }
            ],
            "device_metrics": {"cpu0": {"Duration (us)": {"microseconds": 25.0}}},
            "configuration": {"Executor": {"string": "VM"}},
        }
    )
    report = Report.from_json(text)
    assert report.calls[0]["Arithmetic Intensity"] == Ratio(0.25)
    assert "Arithmetic Intensity" in report.csv().splitlines()[0]
    assert "vm_mod_fused_add" in str(report)


@pytest.mark.parametrize("text", ["", "{}", '{"calls": [{"Name": {"text": "x"}}], "device_metrics": {}}'])
def test_text_that_is_no_report(text: str) -> None:
    with pytest.raises(ParseError):
        Report.from_json(text)


def test_a_chrome_trace_has_an_event_for_each_call(report: Report) -> None:
    events = json.loads(report.chrome_trace())["traceEvents"]
    assert [event["name"] for event in events[1:]] == [row["Name"] for row in report.calls]
    assert {event["ph"] for event in events} == {"X"}
    whole = events[0]
    assert all(whole["ts"] <= e["ts"] and e["ts"] + e["dur"] <= whole["dur"] + 0.01 for e in events[1:])
    drawn = json.loads(Report.from_json(report.json()).chrome_trace())["traceEvents"]
    assert [event["name"] for event in drawn] == [event["name"] for event in events]


@pytest.mark.parametrize(
    ("value", "attribute", "plain"),
    [
        (Duration(2), "microseconds", 2.0),
        (Percent(3), "percent", 3.0),
        (Ratio(0.5), "ratio", 0.5),
        (Count(4), "value", 4),
    ],
)
def test_metrics_have_the_names_of_tvm_s(value: Any, attribute: str, plain: float) -> None:
    assert getattr(value, attribute) == plain
    again = metric_from_json(metric_to_json(value))
    assert (type(again), again) == (type(value), value)


def test_hardware_counters_are_refused(profiler: VirtualMachineProfiler) -> None:
    with pytest.raises(OptionError, match="collectors of hardware counters are gone"):
        profiler.profile(X, collectors=[object()])
