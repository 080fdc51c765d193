"""A profile has a row for each kernel of a call, in order, and adds up."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.profiling import Report, profiled

X = np.ones((8, 16), "float32")


@pytest.fixture(scope="module")
def report() -> Report:
    x, w = relay.var("x", shape=(8, 16)), relay.var("w", shape=(16, 16))
    twice = relay.nn.dense(relay.nn.dense(x, w), w)
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, w], relay.nn.softmax(twice)), target="llvm"))
    return profiled(machine, "main", lambda: machine.run(X, np.eye(16, dtype="float32")))


def test_rows_are_the_kernels_in_order(report: Report) -> None:
    kernels = [row for row in report.calls if not row["Name"].startswith("VM::")]
    assert len(kernels) >= 3
    assert kernels[0]["Argument Shapes"].startswith("float32[8, 16], float32[16, 16]")
    assert {row["Name"] for row in report.calls} > {"VM::AllocStorage", "VM::AllocTensor"}


def test_the_parts_are_no_longer_than_the_whole(report: Report) -> None:
    (whole,) = report.device_metrics.values()
    assert 0 < sum(row["Duration (us)"] for row in report.calls) <= whole["Duration (us)"]
    assert sum(row["Percent"] for row in report.calls) <= 100


@pytest.mark.parametrize(
    ("aggregate", "rows"), [(False, lambda r: len(r.calls)), (True, lambda r: len({row["Name"] for row in r.calls}))]
)
def test_a_table_joins_calls_of_the_same_kernel(report: Report, aggregate: bool, rows: Callable[[Report], int]) -> None:
    lines = report.table(aggregate=aggregate, col_sums=False).splitlines()
    assert len(lines) - 1 >= rows(report)
    assert lines[0].split("  ")[0] == "Name"
    times = [float(line[lines[0].index("Duration") :].split()[0]) for line in lines[1:]]
    assert times == sorted(times, reverse=True)
    assert str(report).splitlines()[-1].split()[0] == "Total"


def test_the_report_as_data(report: Report) -> None:
    assert report.csv().splitlines()[0] == (
        "Name,Duration (us),Percent,Device,Count,Argument Shapes,Hash,Operations,Bytes,GFLOP/s"
    )
    assert len(report.csv().splitlines()) == 1 + len(report.calls)
    configuration = json.loads(report.json())["configuration"]
    assert {name: configuration[name]["string"] for name in ("Executor", "Function")} == {
        "Executor": "VM",
        "Function": "main",
    }


def test_the_machine_is_as_it_was_afterwards() -> None:
    x = relay.var("x", shape=(8, 16))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.exp(x)), target="llvm"))
    report = profiled(machine, "main", lambda: machine.run(X))
    before = len(report.calls)
    np.testing.assert_allclose(machine.run(X).numpy(), np.exp(X), rtol=1e-6)
    assert len(report.calls) == before
