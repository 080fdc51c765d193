"""How much memory does it take to load a model and run it once, and how much to compile it?

Each runs in a process of its own: vmkit from its saved executable, onnxruntime from the model's file. The figure is
the memory that is resident after the run, libraries, weights and all; the notes say how much of it the libraries were
before, and the most that ever was. What compiling takes is told above a process that has compiled one operator, as a
part of the weights.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import vmkit
from benchmarks.catalogue import CATALOGUE, static_shapes

TOP = Path(__file__).resolve().parents[1]
MODELS = ("mnist", "silero", "squeezenet", "mobilenet_v2", "resnet50", "encoder", "vgg19", "4-bit llama")
COMPILED = ("mnist", "mobilenet_v2", "inception_v1", "densenet121", "resnet50", "encoder", "vgg19")


def measured_by(module: str, *paths: Path) -> dict[str, float]:
    """Return what a module of the benchmarks prints in a fresh process, in MB."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *map(str, paths)],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.benchmark(group="memory after one run")
def test_memory(megabytes: Callable[..., None], tmp_path: Path, name: str) -> None:
    model = CATALOGUE[name].load()
    assert model is not None
    model, inputs = CATALOGUE[name].at(model, CATALOGUE[name].sizes[0])
    paths = tmp_path / "model.vmx", tmp_path / "model.onnx", tmp_path / "inputs.npz"
    vmkit.compile(model, shapes=static_shapes(inputs)).export(paths[0])
    onnx.save(model, str(paths[1]))
    np.savez(paths[2], **inputs)
    own, peer = (measured_by("resident", path, paths[2]) for path in paths[:2])
    for measured in (own, peer):
        assert 0 < measured["libraries"] < measured["resident"] <= measured["peak"] * 1.01
    note = "; ".join(
        f"{who}: libraries {m['libraries']:.0f}, most {m['peak']:.0f} MB"
        for who, m in (("vmkit", own), ("onnxruntime", peer))
    )
    megabytes(own["resident"], note, onnxruntime=peer["resident"])


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.benchmark(group="memory of compiling and saving")
def test_memory_of_compiling(megabytes: Callable[..., None], tmp_path: Path, name: str) -> None:
    model = CATALOGUE[name].load()
    assert model is not None
    model, inputs = CATALOGUE[name].at(model, CATALOGUE[name].sizes[0])
    onnx.save(model, str(tmp_path / "model.onnx"))
    np.savez(tmp_path / "inputs.npz", **inputs)
    weights = (tmp_path / "model.onnx").stat().st_size / 1e6
    own = measured_by("compiling", tmp_path / "model.onnx", tmp_path / "inputs.npz", tmp_path / "model.vmx")
    assert 0 < own["left"] <= own["run"] * 1.01
    told = f"with one run {own['run'] / weights:.2f}, of which {own['left']:.0f} MB stay"
    megabytes(own["compiled"], f"{own['compiled'] / weights:.2f} of the model's file; {told}")
