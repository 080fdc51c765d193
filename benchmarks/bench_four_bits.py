"""How fast are layers with 4-bit weights, for one row as in decoding and for many, beside onnxruntime's?

The weight is that of :func:`benchmarks.quantized.four_bits`, compiled once for any number of rows. At accuracy 4 both
round their data to int8, a scale a block; at accuracy 0 both compute in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
import tvm

import vmkit
from benchmarks.interleave import Comparison
from benchmarks.peers import assert_agree, onnxruntime_session
from benchmarks.quantized import four_bits

SIZES = ((1024, 2816), (2048, 5632), (4096, 11008))


@lru_cache(maxsize=1)
def layer(channels: int, units: int, block: int, accuracy: int) -> tuple[vmkit.VirtualMachine, Callable[..., object]]:
    """Return a layer, and onnxruntime's call of it."""
    model = four_bits(channels, units, block, accuracy)
    session = onnxruntime_session(model)
    return vmkit.VirtualMachine(vmkit.compile(model), "cpu"), lambda x: session.run(None, {"x": x})


@pytest.mark.benchmark(group="4-bit weights")
@pytest.mark.parametrize("rows", [1, 8, 64])
@pytest.mark.parametrize("accuracy", [4, 0])
@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_rows(ratio: Callable[..., None], rows: int, size: tuple[int, int], block: int, accuracy: int) -> None:
    machine, peer = layer(*size, block, accuracy)
    data = np.random.default_rng(1).standard_normal((rows, size[0]), "float32")
    ready = tvm.runtime.tensor(data)
    assert_agree(machine.run(ready), peer(data))
    read = size[0] * size[1] * (0.5 + 4 / block)

    def rate(comparison: Comparison) -> str:
        return f"{read / comparison.seconds / 1e9:.1f} GB/s of weights"

    ratio(lambda: machine.run(ready), rate, onnxruntime=lambda: peer(data))
