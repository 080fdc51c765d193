"""How long do an encoder, a decoder's step and a recurrent tagger run, compiled once for every size?

The models are built here with random weights, all of their sizes dynamic. The peer is onnxruntime on the same model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import pytest

import vmkit
from benchmarks import transformers
from benchmarks.bench_models import as_arrays
from benchmarks.peers import assert_agree, onnxruntime_run

MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], Callable[[int, int], dict[str, np.ndarray]]]] = {
    "encoder": (transformers.encoder, transformers.encoder_inputs),
    "decoder step": (transformers.decoder_step, transformers.decoder_inputs),
    "tagger": (transformers.tagger, transformers.tagger_inputs),
}
SIZES = ((1, 16), (1, 128), (8, 64), (4, 384))


@lru_cache(maxsize=1)
def compiled(name: str) -> tuple[onnx.ModelProto, vmkit.VirtualMachine]:
    model = MODELS[name][0]()
    return model, vmkit.VirtualMachine(vmkit.compile(model), "cpu")


# The last parameter changes slowest: all sizes of one model are done before the next is built.
@pytest.mark.parametrize(("batch", "length"), SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_latency(ratio: Callable[..., None], benchmark: Any, name: str, batch: int, length: int) -> None:
    benchmark.group = f"latency of any size: {name}"
    model, machine = compiled(name)
    inputs = MODELS[name][1](batch, length)
    peer = onnxruntime_run(model, inputs)
    assert_agree(machine.run(**inputs), peer())
    ratio(lambda: as_arrays(machine.run(**inputs)), onnxruntime=peer)
