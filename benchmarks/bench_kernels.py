"""How near to what one core can do do single kernels come, at static and at symbolic sizes?

The peer of a kernel that computes is as many multiply-adds in registers, that of one that moves data is a copy (or a
read, of a matrix of weights) of as many bytes: a ratio of 1 is the machine's peak, 2 is half of it. Each product is
checked against numpy, in float64, before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from benchmarks import machine_peak
from benchmarks.interleave import Comparison
from vmkit import relay

nn = relay.nn
Array = np.ndarray


@dataclass(frozen=True)
class Kernel:
    """A kernel.

    Attributes
    ----------
    shape : tuple of int
        Of its one input.
    body : callable
        The kernel over the input, and the weights.
    expected : callable
        The same by numpy.
    weights : tuple of shapes
        Constants, which the compiler may pack.
    flops : float
        Floating-point operations, for one that computes; else 0.
    symbolic : tuple of int
        Which dimensions are not known in the symbolic form.
    reads : bool
        Whether it reads far more than it writes.
    """

    shape: tuple[int, ...]
    body: Callable[..., Any]
    expected: Callable[..., Array]
    weights: tuple[tuple[int, ...], ...] = ()
    flops: float = 0.0
    symbolic: tuple[int, ...] = (0,)
    reads: bool = False


def conv3x3(x: Array, weight: Array) -> Array:
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight, optimize=True)


def layer_norm(x: Array, gamma: Array, beta: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def softmax(x: Array) -> Array:
    exponents = np.exp(x - x.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def transposed(*axes: int) -> dict[str, Callable[..., Any]]:
    return {"body": lambda x: relay.transpose(x, axes), "expected": lambda x: x.transpose(axes)}


KERNELS = {
    "matmul 512x768x768": Kernel((512, 768), nn.dense, lambda x, w: x @ w.T, ((768, 768),), flops=2 * 512 * 768 * 768),
    "matmul 128x768x3072": Kernel(
        (128, 768), nn.dense, lambda x, w: x @ w.T, ((3072, 768),), flops=2 * 128 * 768 * 3072
    ),
    "conv 3x3, 64x56x56": Kernel(
        (1, 64, 56, 56),
        lambda x, w: nn.conv2d(x, w, padding=(1, 1), channels=64, kernel_size=(3, 3)),
        conv3x3,
        ((64, 64, 3, 3),),
        flops=2 * 64 * 64 * 9 * 56 * 56,
    ),
    "conv 1x1, 256x28x28": Kernel(
        (1, 256, 28, 28),
        lambda x, w: nn.conv2d(x, w, channels=128, kernel_size=(1, 1)),
        lambda x, w: np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0], optimize=True),
        ((128, 256, 1, 1),),
        flops=2 * 128 * 256 * 28 * 28,
    ),
    "dense, one row, 3072x768": Kernel((1, 768), nn.dense, lambda x, w: x @ w.T, ((3072, 768),), reads=True),
    "layer norm 512x768": Kernel((512, 768), nn.layer_norm, layer_norm, ((768,), (768,))),
    "softmax 1536x128": Kernel((1536, 128), nn.softmax, softmax),
    "relu(2x + 1), 1M": Kernel(
        (1024, 1024),
        lambda x: nn.relu(relay.add(relay.multiply(x, relay.const(2.0)), relay.const(1.0))),
        lambda x: np.maximum(2 * x + 1, 0),
    ),
    "tanh, 256K": Kernel((256, 1024), relay.tanh, np.tanh),
    "transpose 1024x1024": Kernel((1024, 1024), **transposed(1, 0), symbolic=(0, 1)),
    "transpose heads 128x12x64": Kernel((1, 128, 12, 64), **transposed(0, 2, 1, 3), symbolic=(0, 1)),
    "transpose to channels last, 64x56x56": Kernel((1, 64, 56, 56), **transposed(0, 2, 3, 1), symbolic=(0, 2, 3)),
}


@pytest.mark.benchmark(group="kernels, of the machine's peak")
@pytest.mark.parametrize("is_symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernel(ratio: Callable[..., None], name: str, is_symbolic: bool) -> None:
    kernel, random = KERNELS[name], np.random.default_rng(0)
    x, *weights = (random.standard_normal(s, "float32") for s in (kernel.shape, *kernel.weights))
    dims = [relay.Any() if is_symbolic and i in kernel.symbolic else d for i, d in enumerate(kernel.shape)]
    data = relay.var("x", shape=dims)
    function = relay.Function([data], kernel.body(data, *(relay.const(w) for w in weights)))
    machine = vmkit.VirtualMachine(vmkit.compile(function), "cpu")
    ready = tvm.runtime.tensor(x)
    expected = kernel.expected(x.astype("float64"), *(w.astype("float64") for w in weights))
    np.testing.assert_allclose(machine.run(ready).numpy(), expected, rtol=1e-3, atol=1e-3)
    moved = 4.0 * (x.size + sum(w.size for w in weights) + expected.size)
    if kernel.flops:
        peers = {"multiply_adds": machine_peak.multiply_adds(kernel.flops)}
    else:
        peers = {"read": machine_peak.read(moved)} if kernel.reads else {"copy": machine_peak.copy(moved)}
    amount, unit = (kernel.flops, "GFLOP/s") if kernel.flops else (moved, "GB/s")

    def rates(comparison: Comparison) -> str:
        (peak,) = comparison.peers.values()
        return f"{amount / comparison.seconds / 1e9:.1f} of {amount / peak / 1e9:.1f} {unit}"

    ratio(lambda: machine.run(ready), rates, **peers)


@pytest.mark.benchmark(group="the machine's peak")
@pytest.mark.parametrize("megabytes", [0.5, 256], ids=["in L2, 0.5 MB", "in memory, 256 MB"])
@pytest.mark.parametrize("kind", ["read", "copy"])
def test_bandwidth(ratio: Callable[..., None], kind: str, megabytes: float) -> None:
    run = getattr(machine_peak, kind)(megabytes * 1e6)
    run()
    ratio(run, lambda comparison: f"{megabytes / 1e3 / comparison.seconds:.1f} GB/s")


@pytest.mark.benchmark(group="the machine's peak")
def test_multiply_adds(ratio: Callable[..., None]) -> None:
    run = machine_peak.multiply_adds(1e8)
    run()
    ratio(run, lambda comparison: f"{0.1 / comparison.seconds:.1f} GFLOP/s")
