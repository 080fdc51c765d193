"""When are oneDNN and OpenBLAS, which code generators of vmkit's call, faster than vmkit's own kernels?

vmkit is the candidate; its peers are the same program cut for a library (``vmkit.byoc.partition``). A ratio above 1
means that the library is faster. Results are compared before they are timed. A library that is not installed is no
peer: ``pip install '.[onednn,openblas]'``.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from benchmarks import models, transformers
from benchmarks.peers import threads
from vmkit import byoc, relay

nn = relay.nn
Array = np.ndarray
RNG = np.random.default_rng(0)


def _installed(name: str) -> bool:
    try:
        importlib.import_module(byoc.CODEGENS[name].runtime)  # type: ignore[attr-defined]
    except ImportError:
        return False
    return True


LIBRARIES = [name for name in ("onednn", "openblas") if _installed(name)]


def _random(*shape: int) -> Array:
    return RNG.standard_normal(shape, "float32") / np.float32(shape[-1] ** 0.5)


def _convolution(channels: int, size: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> relay.Function:
    x = relay.var("x", shape=(1, channels, size, size))
    weight, bias = (relay.const(_random(*s)) for s in ((out, channels // groups, kernel, kernel), (out,)))
    padding = (kernel // 2, kernel // 2)
    made = nn.conv2d(x, weight, (stride, stride), padding, groups=groups, channels=out, kernel_size=(kernel, kernel))
    return relay.Function([x], nn.relu(nn.bias_add(made, bias)))


def _product(rows: int, inner: int, columns: int) -> relay.Function:
    x = relay.var("x", shape=(rows, inner))
    return relay.Function([x], nn.dense(x, relay.const(_random(columns, inner))))


def _stack(count: int, rows: int, inner: int, columns: int) -> relay.Function:
    x, y = relay.var("x", shape=(count, rows, inner)), relay.var("y", shape=(count, columns, inner))
    return relay.Function([x, y], nn.batch_matmul(x, y))


KERNELS: Mapping[str, Callable[[], relay.Function]] = {
    "conv 3x3, 64 to 64, 56x56": lambda: _convolution(64, 56, 64, 3),
    "conv 3x3, 256 to 256, 14x14": lambda: _convolution(256, 14, 256, 3),
    "conv 3x3 by 2, 128 to 128, 56x56": lambda: _convolution(128, 56, 128, 3, 2),
    "conv 7x7 by 2, 3 to 64, 224x224": lambda: _convolution(3, 224, 64, 7, 2),
    "conv 1x1, 256 to 64, 56x56": lambda: _convolution(256, 56, 64, 1),
    "conv 1x1, 1024 to 256, 14x14": lambda: _convolution(1024, 14, 256, 1),
    "depthwise 3x3, 144, 56x56": lambda: _convolution(144, 56, 144, 3, groups=144),
    "depthwise 3x3 by 2, 576, 14x14": lambda: _convolution(576, 14, 576, 3, 2, groups=576),
    "matmul 1x768x3072": lambda: _product(1, 768, 3072),
    "matmul 64x64x64": lambda: _product(64, 64, 64),
    "matmul 128x768x3072": lambda: _product(128, 768, 3072),
    "matmul 512x512x512": lambda: _product(512, 512, 512),
    "matmul 1024x1024x1024": lambda: _product(1024, 1024, 1024),
    "12 products 128x64x128": lambda: _stack(12, 128, 64, 128),
}


def kernel(name: str) -> tuple[relay.Function, list[Array]]:
    """Return one of the kernels, and what it is given."""
    function = KERNELS[name]()
    shapes = [[int(d) for d in p.type_annotation.shape] for p in function.params]
    return function, [_random(*shape) for shape in shapes]


def prepared(mod: Any, inputs: list[Array], libraries: list[str]) -> dict[str, Callable[[], Any]]:
    """Return what runs a program by vmkit's kernels, as ``vmkit``, and by libraries; their results are the same."""
    ready = [tvm.runtime.tensor(each) for each in inputs]
    cuts = {name: byoc.partition(mod, name) for name in libraries}
    modules = {"vmkit": mod, **{name: cut.module for name, cut in cuts.items() if cut.offloaded}}
    machines = {name: vmkit.VirtualMachine(vmkit.compile(each), "cpu") for name, each in modules.items()}
    want = _first(machines["vmkit"].run(*ready))
    for machine in machines.values():
        np.testing.assert_allclose(_first(machine.run(*ready)), want, rtol=1e-3, atol=1e-4 * np.abs(want).max())
    return {name: functools.partial(machine.run, *ready) for name, machine in machines.items()}


def _time(ratio: Callable[..., None], mod: Any, inputs: list[Array], libraries: list[str]) -> None:
    runs = prepared(mod, inputs, libraries)
    own = runs.pop("vmkit")
    if not runs:
        pytest.skip("no library that takes it is installed: pip install '.[onednn,openblas]'")
    ratio(own, **runs)


def _first(result: Any) -> Array:
    made: Array = (result if hasattr(result, "numpy") else result[0]).numpy()
    return made


@pytest.mark.benchmark(group=f"libraries, kernels, {threads()} threads")
@pytest.mark.parametrize("name", KERNELS)
def test_kernel(ratio: Callable[..., None], name: str) -> None:
    _time(ratio, *kernel(name), LIBRARIES)


@pytest.mark.benchmark(group=f"libraries, models, {threads()} threads")
@pytest.mark.parametrize("batch", [1, 8])
def test_resnet50(ratio: Callable[..., None], batch: int) -> None:
    model = models.load("resnet50")
    assert model is not None
    changed, _ = models.with_batch(model, batch)
    inputs = models.batched_inputs(changed, batch)
    _time(
        ratio,
        relay.frontend.from_onnx(changed)[0],
        list(inputs.values()),
        [name for name in LIBRARIES if name == "onednn"],
    )


@pytest.mark.benchmark(group=f"libraries, models, {threads()} threads")
@pytest.mark.parametrize("size", [(1, 16), (1, 128), (8, 64)], ids=str)
def test_encoder(ratio: Callable[..., None], size: tuple[int, int]) -> None:
    inputs = transformers.encoder_inputs(*size)
    _time(ratio, relay.frontend.from_onnx(transformers.encoder())[0], list(inputs.values()), LIBRARIES)
