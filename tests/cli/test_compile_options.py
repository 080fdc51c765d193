"""``vmkit compile``: what it writes, where options come from, and what a cache saves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

import vmkit
from tests.cli.commands import printed, refused, save
from vmkit.cli import main

X = np.arange(36, dtype="float32").reshape(1, 1, 6, 6) - 18


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return ``y = relu(x)`` for ``x: float32[n, 1, 6, 6]``."""
    return save(tmp_path_factory.mktemp("model") / "relu.onnx", helper.make_node("Relu", ["x"], ["y"]))


def test_a_shared_library_runs_where_vmkit_is_not(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "relu.so"
    words = ["compile", model, "--target", "llvm", "--in-process", "--input-shapes", "x:[1,1,6,6]"]
    printed(capsys, *words, "-o", path)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
    np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(X)).numpy(), np.maximum(X, 0))
    assert printed(capsys, "run", path, "--print-top", "1").startswith("y: float32[1, 1, 6, 6]\n")
    assert "ends in .so" in refused(capsys, *words, "-f", "so", "-o", tmp_path / "library")


def test_a_package_is_what_tvmc_runs(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "relu.tar"
    facts = json.loads(printed(capsys, "compile", model, "--target", "llvm", "-o", path, "--json", "--in-process"))
    assert facts["output"] == str(path) and facts["bytes"] == path.stat().st_size
    np.savez(tmp_path / "in.npz", x=X)
    assert main(["tvmc", "run", str(path), "-i", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["output_0"], np.maximum(X, 0))


def test_a_second_compilation_comes_out_of_the_cache(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["compile", model, "-o", tmp_path / "m.vmx", "--cache", tmp_path / "kept", "--in-process"]
    first = printed(capsys, *words, "--required-pass", "FoldConstant").splitlines()[1]
    assert len(list(vmkit.cache.Cache(tmp_path / "kept").entries())) == 1
    monkeypatch.setattr("vmkit.compiler.vm_compiler.VMCompiler", None)  # nothing is compiled
    assert printed(capsys, *words, "--required-pass", "FoldConstant").splitlines()[1] == first
    assert "y: float32" in printed(capsys, "run", tmp_path / "m.vmx", "--input-shapes", "n:1")
    monkeypatch.undo()
    assert "--cache: --dump-code of a stage" in refused(capsys, *words, "--dump-code", "tir")
    assert "--cache: --dump-code of a stage" in refused(capsys, *words, "--print-pass-times")
    run = ["run", model, "--target", "llvm", "--input-shapes", "n:2", "--cache", tmp_path / "other"]
    assert printed(capsys, *run) == "y: float32[2, 1, 6, 6]\n"
    assert len(list(vmkit.cache.Cache(tmp_path / "other").entries())) == 1


def test_options_come_out_of_a_file_too(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "options.json"
    target = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}
    path.write_text(json.dumps({"targets": [target], "dump-code": ["ll"], "opt-level": 1, "in-process": True}))
    words = ["compile", model, "--config", path, "-o", tmp_path / "m.vmx", "--json"]
    told = json.loads(printed(capsys, *words))
    assert json.loads(told["target"])["mcpu"] == "x86-64-v3" and told["dumps"] == [f"{tmp_path}/m.vmx.ll"]
    path.write_text(json.dumps({"opt-leve": 1}))
    assert "vmkit compile has no option 'opt-leve'; did you mean 'opt-level'" in refused(capsys, *words)
    path.write_text("{")
    assert "no JSON" in refused(capsys, *words)
    assert "there is no such file" in refused(capsys, "compile", model, f"--config={tmp_path / 'nosuch'}")


def test_code_generators_take_their_parts_first(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compile", model, "-o", tmp_path / "m.vmx", "--input-shapes", "x:[1,1,6,6]", "--in-process"]
    text = printed(capsys, *words, "--target", "ccompiler, llvm", "--dump-offloads", "-", "--target-llvm-num-cores", 1)
    assert "Total: 1\nccompiler: 1\n" in text
    np.savez(tmp_path / "in.npz", x=X)
    printed(capsys, "run", tmp_path / "m.vmx", "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], np.maximum(X, 0))
    printed(capsys, *words, "--target", "llvm", "--dump-offloads", tmp_path / "offloads.txt")
    assert "generic: 1" in (tmp_path / "offloads.txt").read_text()
    assert "Passed --target-c-mcpu but did not specify c target" in refused(capsys, *words, "--target-c-mcpu", "x")


def test_what_cannot_be_is_said(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", model, "-o", tmp_path / "m.vmx"]
    more = ["--mixed-precision", "--mixed-precision-calculation-type", "float17"]
    assert "float17" in refused(capsys, *words, *more)
    assert "there is no folder" in refused(capsys, "compile", model, "-o", tmp_path / "none" / "m.so", "--in-process")
