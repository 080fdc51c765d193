"""How long does a model run, and what does a dynamic batch cost?

Each model runs at batch 1 and 8: once compiled for that batch alone, once compiled for any batch. The peers are
onnxruntime on the same model and, where TVM imports the model by itself and has a kernel for it that ends in
reasonable time, plain ``tvm.compile``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import pytest

import vmkit
from benchmarks import models
from benchmarks.peers import assert_agree, onnxruntime_run, plain_tvm_run

MODELS = ("mnist", "ultraface", *models.LIGHT)
# Plain TVM takes minutes on the larger ones.
UNDER_PLAIN_TVM = ("mnist", "squeezenet")


@lru_cache(maxsize=1)
def original(name: str) -> onnx.ModelProto:
    model = models.load(name)
    if model is None:
        pytest.skip(f"the file of {name} is not on this machine")
    return model


@lru_cache(maxsize=1)
def machine(name: str, batch: int | str) -> vmkit.VirtualMachine:
    model, shapes = models.with_batch(original(name), batch)
    return vmkit.VirtualMachine(vmkit.compile(model, shapes=shapes), "cpu")


# The last parameter changes slowest: all of one model is done before the next is loaded.
@pytest.mark.parametrize(
    ("compiled_for", "batch"), [("static", 1), ("static", 8), ("dynamic", 1), ("dynamic", 8)], ids=lambda v: str(v)
)
@pytest.mark.parametrize("name", MODELS)
def test_latency(ratio: Callable[..., None], benchmark: Any, name: str, compiled_for: str, batch: int) -> None:
    benchmark.group = f"latency: {name}"
    model, _ = models.with_batch(original(name), batch)
    inputs = models.batched_inputs(model, batch)
    candidate = machine(name, batch if compiled_for == "static" else "n")
    peers = {"onnxruntime": onnxruntime_run(model, inputs)}
    expected = peers["onnxruntime"]()
    assert_agree(candidate.run(**inputs), expected)
    if name in UNDER_PLAIN_TVM and (compiled_for, batch) == ("static", 1):
        peers["plain_tvm"] = plain_tvm_run(model, inputs)
        assert_agree(peers["plain_tvm"](), expected)
    ratio(lambda: as_arrays(candidate.run(**inputs)), **peers)


def as_arrays(result: object) -> list[np.ndarray]:
    """Return a result as arrays, which onnxruntime's are too."""
    return [np.from_dlpack(value) for value in (result if isinstance(result, tuple) else (result,))]
