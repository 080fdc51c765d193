"""How long from a model's file until it runs, and how large is what is saved?

The aim for resnet50 is less than 30 seconds for import and compilation. The peers are what others do before a first
run: onnxruntime makes a session, plain TVM imports and compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm.relax.frontend.onnx import from_onnx

import vmkit
from benchmarks.catalogue import CATALOGUE, static_shapes
from benchmarks.peers import assert_agree, onnxruntime_run, onnxruntime_session
from vmkit.target import canonical_target

MODELS = ("mnist", "squeezenet", "mobilenet_v2", "resnet50", "encoder")
# Those that TVM imports by itself.
UNDER_PLAIN_TVM = ("mnist", "squeezenet", "mobilenet_v2", "resnet50")


@lru_cache(maxsize=1)
def model_of(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a model at its first size, and inputs."""
    model = CATALOGUE[name].load()
    assert model is not None
    return CATALOGUE[name].at(model, CATALOGUE[name].sizes[0])


def compile_model(name: str, is_dynamic: bool) -> vmkit.Executable:
    """Import and compile a model, for its first size or for all."""
    model, inputs = model_of(name)
    if not is_dynamic:
        return vmkit.compile(model, shapes=static_shapes(inputs))
    model, shapes = CATALOGUE[name].dynamic(model)
    return vmkit.compile(model, shapes=shapes)


def compile_plainly(name: str) -> object:
    """Import and compile a model with what TVM offers."""
    return tvm.compile(from_onnx(model_of(name)[0]), canonical_target("native").primary)


def assert_works(name: str, executable: vmkit.Executable) -> None:
    """Assert that an executable computes what onnxruntime does."""
    model, inputs = model_of(name)
    assert_agree(vmkit.VirtualMachine(executable, "cpu").run(**inputs), onnxruntime_run(model, inputs)())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.benchmark(group="import and compile")
def test_compile(ratio: Callable[..., None], name: str, is_dynamic: bool) -> None:
    assert_works(name, compile_model(name, is_dynamic))
    peers: dict[str, Callable[[], Any]] = {"onnxruntime": lambda: onnxruntime_session(model_of(name)[0])}
    if name in UNDER_PLAIN_TVM:
        peers["plain_tvm"] = lambda: compile_plainly(name)
    ratio(lambda: compile_model(name, is_dynamic), **peers)


@pytest.fixture(scope="module", params=MODELS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("saved") / f"{request.param}.vmx"
    compile_model(request.param, True).export(path)
    return request.param, path


@pytest.mark.benchmark(group="load an executable, ready to run")
def test_load(ratio: Callable[..., None], benchmark: Any, saved: tuple[str, Path]) -> None:
    name, path = saved
    assert_works(name, vmkit.load(path))
    model, _ = model_of(name)
    sizes = {"executable_bytes": path.stat().st_size, "model_bytes": model.ByteSize()}
    benchmark.extra_info |= sizes
    note = f"file {sizes['executable_bytes'] / 1e6:.1f} MB, the model's {sizes['model_bytes'] / 1e6:.1f} MB"
    ratio(lambda: vmkit.VirtualMachine(vmkit.load(path), "cpu"), note, onnxruntime=lambda: onnxruntime_session(model))
