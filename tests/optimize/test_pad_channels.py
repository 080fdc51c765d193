"""Convolutions that compute more channels than they have give what they gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.programs import compiled
from vmkit import optimize, relay
from vmkit.relay import Call, Expr, transform
from vmkit.target import canonical_target
from vmkit.target.processor import processor_of

_RANDOM = np.random.default_rng(0)


def _padded(function: relay.Function) -> relay.Function:
    processor = processor_of(canonical_target("llvm -mcpu=x86-64-v3").primary)
    pad = optimize.PadChannels(processor, lanes=8, registers=16)
    return pad(transform.InferType()(tvm.IRModule({"main": function})))["main"]


def _calls(function: relay.Function) -> list[Call]:
    calls: list[Call] = []
    relay.analysis.post_order_visit(function, lambda n: calls.append(n) if isinstance(n, Call) else None)
    return calls


def _channels_of(function: relay.Function) -> list[int]:
    return [int(c.checked_type.shape[1]) for c in _calls(_padded(function)) if c.op.name == "nn.conv2d"]


def _function(
    channels: int,
    inner: int = 32,
    height: Any = 28,
    window: tuple[int, int] = (3, 3),
    behind: Callable[[Expr], Expr] = lambda made: made,
    weight: np.ndarray | None = None,
    batch: Any = 1,
    **changed: Any,
) -> tuple[relay.Function, np.ndarray]:
    if weight is None:
        weight = _RANDOM.standard_normal((channels, inner // changed.get("groups", 1), *window)).astype("float32")
    x = relay.var("x", shape=(batch, inner, height, 28))
    padding = [side // 2 for side in window]
    attrs = {"channels": channels, "kernel_size": window, "padding": padding, **changed}
    made = relay.nn.conv2d(x, relay.const(weight), **attrs)
    return relay.Function([x], behind(made)), weight


def _behind(channels: int) -> dict[str, Callable[[Expr], Expr]]:
    bias = _RANDOM.standard_normal(channels).astype("float32")
    image = bias.reshape(channels, 1, 1)
    return {
        "nothing": lambda made: made,
        "a bias": lambda made: relay.nn.bias_add(made, relay.const(bias)),
        "a bias and a limit": lambda made: relay.nn.relu(relay.nn.bias_add(made, relay.const(bias))),
        "a sum and limits": lambda made: relay.clip(relay.add(made, relay.const(image)), -1.0, 1.0),
        "a sum of numbers": lambda made: relay.nn.relu(relay.add(made, relay.const(np.float32(0.5)))),
        "a sum of columns": lambda made: relay.add(made, relay.const(np.arange(28, dtype="float32"))),
        "itself": lambda made: relay.add(relay.nn.relu(made), made),
        "the wrong axis": lambda made: relay.nn.bias_add(made, relay.const(np.arange(28, dtype="float32")), axis=3),
    }


@pytest.mark.sweep
@pytest.mark.parametrize("behind", _behind(1))
@pytest.mark.parametrize("height", [28, 13, None])
def test_values_are_those_of_the_convolution(behind: str, height: int | None) -> None:
    channels = 22
    rows = height or 9
    size = tvm.tirx.Var("h", "int64") if height is None else height
    function, _ = _function(channels, height=size, behind=_behind(channels)[behind], batch=2)
    assert _channels_of(function) == [24]
    data = _RANDOM.standard_normal((2, 32, rows, 28)).astype("float32")
    padded = _padded(function)
    plain = compiled(list(function.params), function.body)(data)
    np.testing.assert_allclose(compiled(list(padded.params), padded.body)(data), plain, rtol=1e-3, atol=1e-3)
    assert plain.shape == (2, channels, rows, 28)


@pytest.mark.parametrize("behind", ["a bias", "a bias and a limit", "a sum and limits"])
def test_what_follows_has_all_channels_and_is_cut_once(behind: str) -> None:
    function, _ = _function(22, behind=_behind(22)[behind])
    body = _padded(function).body
    assert body.op.name == "strided_slice" and list(body.checked_type.shape) == [1, 22, 28, 28]
    assert list(body.args[0].checked_type.shape) == [1, 24, 28, 28]
    assert "strided_slice" not in [call.op.name for call in _calls(relay.Function(function.params, body.args[0]))]


@pytest.mark.parametrize(
    ("channels", "changed"),
    [
        (24, {}),
        (3, {}),
        (22, {"inner": 30}),
        (22, {"strides": (2, 2)}),
        (22, {"dilation": (2, 2)}),
        (22, {"window": (1, 1)}),
        (22, {"window": (7, 7)}),
        (44, {"groups": 2}),
        (22, {"weight": np.round(4 * _RANDOM.standard_normal((22, 32, 3, 3))).astype("float32")}),
    ],
)
def test_other_convolutions_stay(channels: int, changed: dict[str, Any]) -> None:
    function, _ = _function(channels, **changed)
    assert _channels_of(function) == [channels]


def test_kernels_that_sizes_share_stay_small() -> None:
    processor = processor_of(canonical_target("llvm -mcpu=x86-64-v3").primary)
    function, _ = _function(22)
    pad = optimize.PadChannels(processor, lanes=8, registers=16, shares_kernels=True)
    made = pad(transform.InferType()(tvm.IRModule({"main": function})))["main"]
    assert [list(call.checked_type.shape)[1] for call in _calls(made)] == [22]
