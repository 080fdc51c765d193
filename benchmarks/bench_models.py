"""How long does a model run, and what does it cost to compile it once for every size?

Each model runs at several sizes: compiled for that size alone, and compiled for all. The peers are onnxruntime on the
same model, OpenVINO and torch.compile where they are installed, and plain ``tvm.compile`` where TVM imports the model
by itself and makes kernels of it that end in reasonable time. What is compiled for all sizes is also compared with
what is compiled for the size at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import pytest

import vmkit
from benchmarks.catalogue import CATALOGUE, Size, static_shapes
from benchmarks.peers import MISSING, OPTIONAL, assert_agree, onnxruntime_run, plain_tvm_run

# Plain TVM takes minutes on the others, or does not import them.
UNDER_PLAIN_TVM = {("mnist", (1,)), ("mnist", (8,)), ("squeezenet", (1,))}
# The sizes of one model, static and dynamic by turns, before the next: what was loaded and compiled is used again.
CASES = [
    pytest.param(name, size, compiled_for, id=f"{name}-{'x'.join(map(str, size))}-{compiled_for}")
    for name, model in CATALOGUE.items()
    for size in model.sizes
    for compiled_for in ("static", "dynamic")
]


@lru_cache(maxsize=1)
def original(name: str) -> onnx.ModelProto:
    model = CATALOGUE[name].load()
    if model is None:
        pytest.skip(f"the file of {name} is not on this machine")
    return model


@lru_cache(maxsize=2)
def machine(name: str, size: Size | None) -> vmkit.VirtualMachine:
    """Return a model compiled for a size, or for all."""
    model, shapes = CATALOGUE[name].dynamic(original(name))
    if size is not None:
        model, inputs = CATALOGUE[name].at(original(name), size)
        shapes = static_shapes(inputs)
    return vmkit.VirtualMachine(vmkit.compile(model, shapes=shapes), "cpu")


@pytest.mark.parametrize(("name", "size", "compiled_for"), CASES)
def test_latency(ratio: Callable[..., None], benchmark: Any, name: str, size: Size, compiled_for: str) -> None:
    benchmark.group = f"latency: {name}"
    model, inputs = CATALOGUE[name].at(original(name), size)
    candidate = machine(name, size if compiled_for == "static" else None)
    peers = {"onnxruntime": onnxruntime_run(model, inputs)}
    if compiled_for == "dynamic":
        static = machine(name, size)
        peers["static"] = lambda: as_arrays(static.run(**inputs))
    else:
        if (name, size) in UNDER_PLAIN_TVM:
            peers["plain_tvm"] = plain_tvm_run(model, inputs)
        for peer, make in OPTIONAL.items():
            run = make(model, inputs)
            if run is not None:
                peers[peer] = run
    expected = peers["onnxruntime"]()
    own, of_peers = CATALOGUE[name].of_largest, CATALOGUE[name].limit_of_peers
    assert_agree(candidate.run(**inputs), expected, of_largest=own)
    for peer in list(peers):
        try:
            assert_agree(peers[peer](), expected, by=peer, of_largest=own if peer == "static" else of_peers)
        except (AssertionError, RuntimeError) as error:
            if peer not in OPTIONAL:
                raise
            # A peer that fails, or computes something else, is none at this size; the others still are.
            del peers[peer]
            wrong = isinstance(error, AssertionError)
            MISSING[f"{peer} of {name} at {size}"] = "its results are not onnxruntime's" if wrong else "it fails"
    figures = {"model": name, "family": CATALOGUE[name].family, "size": list(size), "compiled_for": compiled_for}
    benchmark.extra_info |= figures
    ratio(lambda: as_arrays(candidate.run(**inputs)), **peers)


def as_arrays(result: object) -> list[np.ndarray]:
    """Return a result as arrays, which onnxruntime's are too."""
    return [np.from_dlpack(value) for value in (result if isinstance(result, tuple) else (result,))]
