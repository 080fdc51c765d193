"""How much memory does it take to load a model and run it once?

Each runs in a process of its own: vmkit from its saved executable, onnxruntime from the model's file. The figure is
the memory that is resident after the run, libraries, weights and all; the notes say how much of it the libraries were
before, and the most that ever was.
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


def memory_of(model: Path, inputs: Path) -> dict[str, float]:
    """Return what a fresh process that runs a model takes, in MB."""
    command = [sys.executable, "-m", "benchmarks.resident", str(model), str(inputs)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
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
    own, peer = (memory_of(path, paths[2]) for path in paths[:2])
    for measured in (own, peer):
        assert 0 < measured["libraries"] < measured["resident"] <= measured["peak"] * 1.01
    note = "; ".join(
        f"{who}: libraries {m['libraries']:.0f}, most {m['peak']:.0f} MB"
        for who, m in (("vmkit", own), ("onnxruntime", peer))
    )
    megabytes(own["resident"], note, onnxruntime=peer["resident"])
