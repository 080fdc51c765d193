"""Tuning: what is measured, what is kept, and what a bad candidate may cost."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

import vmkit
from vmkit import relay, tophub
from vmkit.errors import OptionError
from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import dot
from vmkit.target import canonical_target
from vmkit.tophub import Records
from vmkit.tuning import Progress, worker
from vmkit.tuning.extract import kernels_of
from vmkit.tuning.measure import Measured, Measurer
from vmkit.tuning.search import search

tune_module = sys.modules["vmkit.tuning.tune"]  # the function of that name hides it in the package

TARGET = canonical_target("llvm -num-cores=1").primary
n = tirx.Var("n", "int64")


def program() -> tvm.IRModule:
    """Return a program of a dense layer for an unknown number of rows, and sums over rows of a known one."""
    x, w = relay.var("x", shape=(n, 64)), relay.var("w", shape=(20, 64))
    made = relay.nn.relu(relay.nn.dense(x, w))
    return tvm.IRModule({"main": relay.Function([x, w], relay.Tuple([made, relay.sum(w, axis=[1])]))})


def test_the_kernels_of_a_model_are_those_that_can_be_decided_on() -> None:
    kernels = kernels_of(program(), TARGET)
    assert sorted(kernel.rule.name for kernel in kernels) == ["dot", "product"]
    assert sorted(str(kernel.workload.axes[0][1]) for kernel in kernels) == ["20", "None"]


def test_a_tuned_model_gives_the_same_and_a_second_run_goes_on_where_the_first_was(tmp_path: Path) -> None:
    said: list[Progress] = []

    def interrupted(progress: Progress) -> None:
        said.append(progress)
        raise KeyboardInterrupt

    options: dict[str, Any] = {"database": tmp_path / "mine.json", "seconds": 0.5, "sizes": {"n": 3}}
    with pytest.raises(KeyboardInterrupt):
        tophub.tune(program(), TARGET, progress=interrupted, **options)
    first = Records.read(tmp_path / "mine.json")
    assert len(first) == 1
    records = tophub.tune(program(), TARGET, progress=said.append, **options)
    assert [(p.done, p.total) for p in said] == [(1, 2), (2, 2)]
    assert all(p.record is not None and p.tried > 0 and not p.failed for p in said)
    assert len(records) == 2 and next(iter(first)) in list(records)
    assert all(0 < r.seconds <= r.default_seconds for r in records)
    tophub.tune(program(), TARGET, progress=said.append, **options)
    assert len(said) == 2

    values = [np.random.default_rng(0).standard_normal(s).astype("float32") for s in ((5, 64), (20, 64))]
    plain = vmkit.VirtualMachine(vmkit.compile(program(), TARGET), "cpu").run(*values)
    with tophub.load(tmp_path / "mine.json"):
        tuned = vmkit.compile(program(), TARGET)
    assert tuned.info["kernels"]["tuned"] == 2
    for result, expected in zip(vmkit.VirtualMachine(tuned, "cpu").run(*values), plain, strict=True):
        np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_kernels_are_begun_while_there_is_time(tmp_path: Path) -> None:
    said: list[Progress] = []
    tophub.tune(program(), TARGET, database=tmp_path / "a.json", seconds=0.1, budget=0.01, progress=said.append)
    assert len(said) <= 1


# A worker that dies of a signal, stalls, or says that values differ, by how many outputs are computed at once.
BAD_WORKER = """
import json, os, signal, sys, time
for line in sys.stdin:
    outputs = json.loads(line)["decisions"]["outputs"]
    if outputs == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if outputs == 2:
        time.sleep(600)
    print(json.dumps({"seconds": 1.0 / outputs} if outputs > 3 else {"error": "other values"}), flush=True)
"""


def test_a_candidate_that_crashes_or_hangs_costs_only_itself() -> None:
    (kernel, *_) = kernels_of(program(), TARGET)
    with Measurer(TARGET, {"n": 3}, timeout=0.3, start=1.0, command=(sys.executable, "-c", BAD_WORKER)) as measurer:
        outcomes = [measurer.measure(kernel, dot.Decisions(4, outputs, False)) for outputs in (4, 1, 2, 3, 5)]
    assert [outcome.seconds for outcome in outcomes] == [0.25, None, None, None, 0.2]
    assert [outcome.error for outcome in outcomes[1:4]] == [
        "the worker process died of signal 11",
        "no answer in 0.3 s",
        "other values",
    ]


def test_values_are_compared_with_those_of_the_default_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel, *_) = kernels_of(program(), TARGET)
    request = {
        "target": tvm.ir.save_json(TARGET),
        "kernel": tvm.ir.save_json(kernel.function),
        "rule": "dot",
        "decisions": {"lanes": 8, "outputs": 2, "parallel": False},
        "sizes": {"n": 3},
    }
    subjects: dict[str, Any] = {}
    assert worker.answer(request, subjects)["seconds"] > 0

    def broken(*kernel: Any) -> tirx.PrimFunc:
        function = rules.scheduled(*kernel)
        return function.with_body(tvm_ffi.structural_map(function.body, (tirx.Max, lambda e: e.a + e.b + 1)))

    (subject,) = subjects.values()
    monkeypatch.setattr(subject, "scheduling", replace(subject.scheduling, scheduled=broken))
    assert worker.answer(request, subjects) == {"error": "it computes other values than the default schedule"}
    assert "no decisions of the rule dot" in worker.answer({**request, "decisions": {}}, subjects)["error"]


def test_the_search_goes_one_decision_at_a_time_and_keeps_the_default_where_little_is_won() -> None:
    candidates = [dot.Decisions(lanes, outputs, False) for lanes in (4, 8, 16) for outputs in (1, 2, 4)]
    default = candidates[0]
    asked: list[dot.Decisions] = []

    def seconds_of(decisions: dot.Decisions) -> float | None:
        asked.append(decisions)
        return None if decisions.outputs == 2 else 1.0 / decisions.lanes / decisions.outputs

    assert search(default, candidates, seconds_of, 10.0) == (dot.Decisions(16, 4, False), 0.25, 1 / 64)
    assert all(asked.count(d) == (3 if d in (default, dot.Decisions(16, 4, False)) else 1) for d in asked)
    assert search(default, candidates, lambda d: 1.0 - d.lanes / 1000, 10.0) == (default, 0.996, 0.996)
    assert search(default, candidates, lambda d: None, 10.0) is None
    asked.clear()
    assert search(default, candidates, seconds_of, 1e-9) == (default, 0.25, 0.25)
    assert search(default, candidates, seconds_of, 10.0, most=1) == (default, 0.25, 0.25)
    assert set(asked) == {default}


def test_the_search_ends_after_so_many_that_are_no_better() -> None:
    candidates = [dot.Decisions(lanes, 1, False) for lanes in (4, 8, 16, 32)]
    asked: list[dot.Decisions] = []

    def seconds_of(decisions: dot.Decisions) -> float:
        asked.append(decisions)
        return float(decisions.lanes)

    assert search(candidates[0], candidates, seconds_of, 10.0, patience=2) == (candidates[0], 4.0, 4.0)
    assert set(asked) == set(candidates[:3])


@contextlib.contextmanager
def lent_by_a_tracker() -> Iterator[tuple[str, int, str]]:
    """Start a tracker and a server of this machine's, in processes of their own."""
    from tvm import rpc
    from tvm.rpc.server import Server
    from tvm.rpc.tracker import Tracker  # needs tornado

    tracker = Tracker(host="127.0.0.1", port=9190, port_end=9290)
    server = Server(host="127.0.0.1", key="here", tracker_addr=("127.0.0.1", tracker.port))
    try:
        # A server says that it is there when its process has started.
        client, end = rpc.connect_tracker("127.0.0.1", tracker.port), time.monotonic() + 60
        while not client.summary()["server_info"] and time.monotonic() < end:
            time.sleep(0.05)
        yield "127.0.0.1", tracker.port, "here"
    finally:
        server.terminate()
        tracker.terminate()


def test_candidates_are_measured_on_a_device_of_a_tracker(tmp_path: Path) -> None:
    said: list[Progress] = []
    with lent_by_a_tracker() as tracker:
        options: dict[str, Any] = {"database": tmp_path / "mine.json", "seconds": 1.0, "sizes": {"n": 3}}
        with pytest.raises(OptionError, match=r"no device with the key 'board'; there are: here"):
            tophub.tune(program(), TARGET, tracker=(*tracker[:2], "board"), **options)
        records = tophub.tune(program(), TARGET, tracker=tracker, progress=said.append, **options)
    assert len(records) == 2 and not any(p.failed for p in said)
    with pytest.raises(OptionError, match=f"no tracker at 127.0.0.1:{tracker[1]}"):
        tophub.tune(program(), TARGET, tracker=tracker, **options)


@pytest.mark.nightly  # importing MetaSchedule's intrinsics alone takes tens of seconds on a busy machine
@pytest.mark.parametrize("is_remote", [False, True])
def test_meta_schedule_searches_deeper_here_and_by_a_tracker(tmp_path: Path, is_remote: bool) -> None:
    x, w = relay.var("x", shape=(8, 64)), relay.var("w", shape=(32, 64))
    mod = tvm.IRModule({"main": relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))})
    options: dict[str, Any] = {"database": tmp_path / "mine.json", "seconds": 0.1, "trials": 2}
    if is_remote:
        with lent_by_a_tracker() as tracker:
            tophub.tune(mod, TARGET, tracker=tracker, **options)
    else:
        tophub.tune(mod, TARGET, **options)
    assert len(Records.read(tmp_path / "mine.json")) == 1
    values = [np.random.default_rng(0).standard_normal(s).astype("float32") for s in ((8, 64), (32, 64))]
    expected = vmkit.VirtualMachine(vmkit.compile(mod, TARGET), "cpu").run(*values).numpy()
    with tophub.load(tmp_path / "mine"):
        tuned = vmkit.compile(mod, TARGET)
    assert tuned.info["kernels"]["tuned"] == 1
    result = vmkit.VirtualMachine(tuned, "cpu").run(*values).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_a_gpu_is_tuned_for_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = canonical_target("cuda -arch=sm_80").primary
    assert {kernel.rule.name for kernel in kernels_of(program(), target)} == {"gpu.tiles"}
    monkeypatch.setattr(tune_module, "_has_device", lambda kind: False)
    with pytest.raises(OptionError, match="candidates for cuda are measured on a device, and TVM finds none here"):
        tophub.tune(program(), target, database=tmp_path / "mine.json")
    monkeypatch.setattr(tune_module, "_has_device", lambda kind: True)
    monkeypatch.setattr(Measurer, "measure", lambda self, kernel, decisions: Measured(1.0 / decisions.rows))
    said: list[Progress] = []
    records = tophub.tune(program(), target, database=tmp_path / "mine.json", seconds=0.5, progress=said.append)
    (record,) = records
    assert (record.target_class, record.cpu, record.basis) == ("cuda", "sm_80", "measured")
    assert record.decisions["rows"] == 128 and said[0].tried > 2
    with tophub.load(tmp_path / "mine.json"):
        assert vmkit.compile(program(), target).info["kernels"]["tuned"] == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"trials": -1}, "trials is -1, expected a number of schedules"),
        ({"seconds": 0}, "seconds is 0, expected a positive number"),
        ({"sizes": {"m": 3}}, "no kernel has an unknown size 'm'"),
        ({"sizes": {"n": 0}}, "n is 0, expected a positive int"),
        ({"target": {"kind": "llvm", "mtriple": "aarch64-linux-gnu"}}, "but the target is aarch64-linux-gnu"),
        ({"target": "c"}, "of kind llvm and for GPUs, not c"),
        ({"target": "cuda -arch=sm_80", "trials": 2}, "MetaSchedule searches schedules for CPUs only"),
    ],
)
def test_options_without_a_meaning_are_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    options = {"target": TARGET, "database": tmp_path / "mine.json", **changed}
    with pytest.raises(OptionError, match=message):
        tophub.tune(program(), **options)
    assert not (tmp_path / "mine.json").exists()
