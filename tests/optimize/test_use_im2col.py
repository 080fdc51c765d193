"""Convolutions over patches give what they gave, as convolutions over single positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.programs import compiled
from vmkit import optimize, relay
from vmkit.relay import Call, transform

LAYOUTS = {1: ("NWC", "WIO"), 2: ("NHWC", "HWIO"), 3: ("NDHWC", "DHWIO")}


def convolution(x: relay.Var, weight: np.ndarray, **changed: Any) -> Call:
    rank = weight.ndim - 2
    data, kernel = LAYOUTS[rank]
    attrs: dict[str, Any] = {
        "strides": weight.shape[:rank],
        "kernel_size": weight.shape[:rank],
        "channels": weight.shape[-1],
        "data_layout": data,
        "kernel_layout": kernel,
        **changed,
    }
    return relay.op.build(f"nn.conv{rank}d", x, relay.const(weight), **attrs)


def windows_of(function: relay.Function) -> list[list[int]]:
    module = optimize.UseIm2col()(transform.InferType()(tvm.IRModule({"main": function})))
    calls: list[Call] = []
    relay.analysis.post_order_visit(module["main"], lambda n: calls.append(n) if isinstance(n, Call) else None)
    return [[int(d) for d in c.attrs.kernel_size] for c in calls if getattr(c.op, "name", "").startswith("nn.conv")]


@pytest.mark.parametrize(
    ("sizes", "window", "channels"),
    [((12,), (4,), 1), ((8, 12), (4, 4), 3), ((9, 14), (4, 3), 3), ((4, 6, 5), (2, 3, 2), 2)],
)
def test_values_are_those_of_the_convolution(sizes: tuple[int, ...], window: tuple[int, ...], channels: int) -> None:
    random, rank = np.random.default_rng(0), len(sizes)
    weight = random.standard_normal((*window, channels, 24)).astype("float32")
    data = random.standard_normal((2, *sizes, channels)).astype("float32")
    x = relay.var("x", shape=(tvm.tirx.Var("n", "int64"), *sizes, channels))
    call = convolution(x, weight)
    assert windows_of(relay.Function([x], call)) == [[1] * rank]
    counts = [size // step for size, step in zip(sizes, window, strict=True)]
    expected = np.zeros((2, *counts, 24), "float64")
    for place in np.ndindex(*counts):
        cut = tuple(slice(p * s, p * s + s) for p, s in zip(place, window, strict=True))
        axes = (tuple(range(1, rank + 2)), tuple(range(rank + 1)))
        expected[(slice(None), *place)] = np.tensordot(data[(slice(None), *cut)].astype("float64"), weight, axes)
    np.testing.assert_allclose(compiled([x], call)(data), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("channels", "changed"),
    [(3, {"strides": (2, 2)}), (3, {"padding": (1, 1)}), (3, {"dilation": (2, 2)}), (32, {})],
)
def test_other_convolutions_stay(channels: int, changed: dict[str, Any]) -> None:
    x = relay.var("x", shape=(1, 16, 16, channels))
    call = convolution(x, np.ones((4, 4, channels, 8), "float32"), **changed)
    assert windows_of(relay.Function([x], call)) == [[4, 4]]


def test_images_of_unknown_size_stay() -> None:
    x = relay.var("x", shape=(1, relay.Any(), 16, 3))
    assert windows_of(relay.Function([x], convolution(x, np.ones((4, 4, 3, 8), "float32")))) == [[4, 4]]
