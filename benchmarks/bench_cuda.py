"""How long do ResNet-50 and BERT-base run on a GPU?

The peers are onnxruntime's CUDA provider and torch.compile, whichever is installed. Inputs are on the host for all,
results return there, and what is timed ends when they are there. Skipped, with the reason, where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm

import vmkit
from benchmarks import transformers
from benchmarks.catalogue import CATALOGUE, Model
from benchmarks.peers import MISSING, assert_agree, onnxruntime_run, torch_run

pytestmark = pytest.mark.skipif(not tvm.cuda(0).exist, reason="TVM finds no CUDA device on this machine")


def bert_base() -> Any:
    """Return the encoder with BERT-base's twelve layers."""
    return transformers.encoder(layers=12)


ENCODER = CATALOGUE["encoder"]
MODELS = {
    "resnet50": CATALOGUE["resnet50"],
    "BERT-base": Model(ENCODER.family, ((1, 128), (8, 128)), bert_base, ENCODER.at, ENCODER.dynamic),
}
CASES = [(name, size) for name, model in MODELS.items() for size in model.sizes]


@lru_cache(maxsize=1)
def machine(name: str) -> tuple[Any, vmkit.VirtualMachine]:
    """Return a model, and a machine of it for any size on the first GPU."""
    model = MODELS[name].load()
    dynamic, shapes = MODELS[name].dynamic(model)
    major, _, minor = tvm.cuda(0).compute_version.partition(".")
    executable = vmkit.compile(dynamic, target=f"cuda -arch=sm_{major}{minor}", shapes=shapes)
    return model, vmkit.VirtualMachine(executable, "cuda")


@pytest.mark.benchmark(group="on a GPU")
@pytest.mark.parametrize(("name", "size"), CASES, ids=lambda v: v if isinstance(v, str) else "x".join(map(str, v)))
def test_latency(ratio: Callable[..., None], name: str, size: tuple[int, ...]) -> None:
    original, candidate = machine(name)
    model, inputs = MODELS[name].at(original, size)
    expected = onnxruntime_run(model, inputs)()
    assert_agree(candidate.run(**inputs), expected)
    peers: dict[str, Callable[[], Any]] = {}
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        peers["onnxruntime_cuda"] = onnxruntime_run(model, inputs, "CUDA")
    else:
        MISSING["onnxruntime on CUDA"] = "this onnxruntime has no CUDAExecutionProvider (pip install onnxruntime-gpu)"
    compiled = torch_run(model, inputs, "cuda")
    if compiled is not None:
        peers["torch_compile"] = compiled
    for peer, run in peers.items():
        assert_agree(run(), expected, by=peer)
    ratio(lambda: on_host(candidate.run(**inputs)), **peers)


def on_host(result: Any) -> list[np.ndarray]:
    """Return a result as arrays of the host."""
    return [value.numpy() for value in (result if isinstance(result, tuple) else (result,))]
