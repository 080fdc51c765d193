"""Channels that are constants leave, and the result stays the same to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm.target import Target

from tests.relay.qnn.test_legalizations import assert_same_result
from tests.relay.transform.passes import after, module
from vmkit import relay
from vmkit.relay import const, nn
from vmkit.relay.transform import Legalize

RANDOM = np.random.default_rng(5)


def layer(x: Any, kernel: np.ndarray, groups: int = 1, pad: int = 0, zero: int = 2) -> Any:
    """Return a quantised convolution in NHWC, with channels of which some have nothing but the zero point."""
    channels = kernel.shape[2] if groups > 1 else kernel.shape[3]
    scales = RANDOM.uniform(0.01, 0.02, channels).astype("float32")
    made = relay.qnn.conv2d(
        x, const(kernel.astype("int8")), const(-128), const(zero), const(0.5), const(scales),
        kernel_size=kernel.shape[:2], channels=channels, groups=groups, padding=(pad, pad), data_layout="NHWC",
        kernel_layout="HWOI" if groups > 1 else "HWIO",
    )  # fmt: skip
    made = nn.bias_add(made, const(RANDOM.integers(-900, 900, channels).astype("int32")), axis=3)
    out = const(np.float32(0.5)), const(-128)
    return relay.qnn.op.requantize(made, const(0.5 * scales), const(0), *out, axis=3, out_dtype="int8")


def sparse(gone: list[int], zero: int = 2) -> np.ndarray:
    kernel = RANDOM.integers(-9, 9, (1, 1, 4, 6))
    kernel[..., gone] = zero
    return kernel


def with_depthwise(gone: list[int], pad: int) -> Any:
    x = relay.var("x", shape=(1, 5, 5, 4), dtype="int8")
    inner = layer(layer(x, sparse(gone)), RANDOM.integers(-3, 3, (3, 3, 6, 1)), groups=6, pad=pad)
    last = relay.qnn.conv2d(
        inner, const(RANDOM.integers(-9, 9, (1, 1, 6, 3)).astype("int8")), const(-128), const(1), const(0.5),
        const(0.5), (1, 1), 3, data_layout="NHWC", kernel_layout="HWIO",
    )  # fmt: skip
    return nn.bias_add(last, const(np.int32([5, -6, 7])), axis=3)


def with_pool(gone: list[int]) -> Any:
    x = relay.var("x", shape=(1, 3, 3, 4), dtype="int8")
    pooled = nn.avg_pool2d(relay.cast(layer(x, sparse(gone)), "int32"), (3, 3), (3, 3), layout="NHWC")
    flat = relay.reshape(relay.reshape(relay.cast(pooled, "int8"), [-1, 6]), [-1, 6])
    weight = const(RANDOM.integers(-9, 9, (3, 6)).astype("int8"))
    product = relay.qnn.dense(flat, weight, const(-128), const(1), const(0.5), const(0.5), 3)
    return nn.bias_add(product, const(np.int32([5, -6, 7])))


def channels_of(function: relay.Function) -> int:
    return int(function.body.args[0].args[0].checked_type.shape[-1])


def legalized(expr: Any) -> relay.Function:
    with Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "keys": ["arm_cpu", "cpu"]}):
        legal = after(Legalize(), expr)
    before = module(expr)["main"]
    assert str(legal.checked_type) == str(before.checked_type)
    assert_same_result(before, legal)
    return legal


@pytest.mark.parametrize(("gone", "left"), [([], 6), ([1], 6), ([1, 4], 4), ([0, 2, 5], 4), ([0, 1, 2, 5], 2)])
def test_an_even_number_of_constant_channels_leaves(gone: list[int], left: int) -> None:
    assert channels_of(legalized(with_depthwise(gone, 0))) == left


@pytest.mark.parametrize(("gone", "left"), [([1], 6), ([0, 2, 5], 4)])
def test_they_leave_before_a_pool_too(gone: list[int], left: int) -> None:
    assert channels_of(legalized(with_pool(gone))) == left


def test_channels_that_differ_at_the_borders_stay() -> None:
    # Whatever leaves, the values are the same; that is what is checked inside.
    legalized(with_depthwise([0, 1, 2, 3], 1))


def test_other_targets_keep_them() -> None:
    expr = with_depthwise([1, 4], 0)
    with Target("llvm"):
        assert channels_of(after(Legalize(), expr)) == 6
