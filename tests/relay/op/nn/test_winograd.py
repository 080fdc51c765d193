"""Winograd's convolutions give what the plain ones give, from weights transformed ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.onnx_reference import onnx_result
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import nn, var

Any_ = relay.Any


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def test_images_agree_with_the_plain_convolution_in_both_layouts(dim: Any) -> None:
    data, weight = numbers(2, 3, 7, 9), numbers(5, 3, 3, 3)
    x, y = var("x", shape=(dim(2), 3, dim(7), dim(9))), var("y", shape=(dim(2), dim(7), dim(9), 3))
    w = var("w", shape=weight.shape)
    options: dict[str, Any] = {"padding": 1, "channels": 5, "kernel_size": 3}
    by_four, by_two = (nn.contrib_conv2d_winograd_weight_transform(w, tile) for tile in (4, 2))
    run = compiled(
        [x, y, w],
        nn.contrib_conv2d_winograd_without_weight_transform(x, relay.transpose(by_four, [0, 1, 3, 2]), 4, **options),
        nn.contrib_conv2d_winograd_without_weight_transform(y, by_two, 2, **options, data_layout="NHWC"),
    )
    expected = onnx_result("Conv", data, weight, pads=[1] * 4)
    actual = run(data, np.ascontiguousarray(data.transpose(0, 2, 3, 1)), weight)
    assert_same(actual, (expected, expected.transpose(0, 2, 3, 1)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kernel", [(3, 3, 3), (2, 5, 5)])
def test_volumes_agree_with_the_plain_convolution_with_and_without_tiles_in_depth(kernel: tuple[int, ...]) -> None:
    data, weight = numbers(1, 3, 5, 8, 7), numbers(4, 3, *kernel)
    x, w = var("x", shape=(1, 3, Any_(), 8, Any_())), var("w", shape=weight.shape)
    moved = relay.transpose(nn.contrib_conv3d_winograd_weight_transform(w, 2), [0, 1, 2, 4, 3])
    result = nn.contrib_conv3d_winograd_without_weight_transform(
        x, moved, 2, padding=(1, 1, 1), channels=4, kernel_size=kernel
    )
    expected = onnx_result("Conv", data, weight, pads=[1] * 6)
    assert_same(compiled([x, w], result)(data, weight), expected, rtol=1e-3, atol=1e-3)


def test_type_errors_say_what_does_not_fit() -> None:
    x, w, u = var("x", shape=(1, 3, 8, 8)), var("w", shape=(4, 3, 2, 2)), var("u", shape=(6, 6, 4, 4))
    assert type_error([w], nn.contrib_conv2d_winograd_weight_transform(w, 4)) == (
        "tile_size must be 2 to 8 and the kernel of one size from 3 to 7 on every axis, not 4 and [2, 2]"
    )
    options: dict[str, Any] = {"channels": 4, "kernel_size": 3}
    call = nn.contrib_conv2d_winograd_without_weight_transform
    assert type_error([x, u], call(x, u, 4, **options)) == (
        "weight must have shape (6, 6, 3, 4), not Tensor[(6, 6, 4, 4), float32]"
    )
    assert type_error([x, u], call(x, u, 4, **options, strides=2)) == (
        "strides, dilation and groups of a Winograd convolution must be 1"
    )
    i = var("i", shape=(1, 3, 8, 8), dtype="int8")
    assert type_error([i, u], call(i, u, 4, **options)) == (
        "a Winograd convolution divides, so its result must be float, not of Tensor[(1, 3, 8, 8), int8]"
    )
    assert type_error([x, u], call(x, u, 4)) == (
        "channels and 2 values of kernel_size must be given: the weight does not tell"
    )


def test_a_weight_for_other_channels_is_an_error_when_run() -> None:
    x, u = var("x", shape=(1, Any_(), 8, 8)), var("u", shape=(6, 6, Any_(), 4))
    run = compiled([x, u], nn.contrib_conv2d_winograd_without_weight_transform(x, u, 4, channels=4, kernel_size=3))
    with pytest.raises(VMError, match="dimension 2 of weight is 2, expected 3"):
        run(numbers(1, 3, 8, 8), numbers(6, 6, 2, 4))
