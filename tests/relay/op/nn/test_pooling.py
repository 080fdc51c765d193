"""Pools agree with onnxruntime and numpy, over known and unknown sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.relay.op.onnx_reference import onnx_result
from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import nn, var

Any_ = relay.Any


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def test_pools_agree_with_onnxruntime(dim: Any) -> None:
    x = var("x", shape=(dim(2), 3, dim(9), dim(8)))
    table: dict[str, Any] = {}
    for ceil in (False, True):
        ours: dict[str, Any] = {"pool_size": 3, "strides": 2, "padding": (1, 1, 0, 1), "ceil_mode": ceil}
        theirs: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 1], "ceil_mode": ceil}
        table[f"max, ceil {ceil}"] = nn.max_pool2d(x, **ours), lambda x, t=theirs: onnx_result("MaxPool", x, **t)
        for padded in (False, True):
            table[f"average, ceil {ceil}, padding counts {padded}"] = (
                nn.avg_pool2d(x, **ours, count_include_pad=padded),
                lambda x, t=theirs, p=padded: onnx_result("AveragePool", x, **t, count_include_pad=p),
            )
    dilated = {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [1, 0, 1, 0]}
    table["dilated max"] = (
        nn.max_pool2d(x, (2, 3), dilation=(2, 1), padding=(1, 0)),
        lambda x: onnx_result("MaxPool", x, **dilated),
    )
    table["dilated average"] = (
        nn.avg_pool2d(x, (2, 3), dilation=(2, 1), padding=(1, 0)),
        lambda x: onnx_result("AveragePool", x, opset=19, **dilated),
    )
    sizes = [(2, 3, 9, 8)] if dim(1) == 1 else [(2, 3, 9, 8), (1, 3, 5, 6), (3, 3, 3, 3)]
    assert_table([x], table, *[(numbers(*s),) for s in sizes])


def test_pools_over_one_and_three_axes(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), 3, dim(9))), var("y", shape=(dim(1), 2, dim(4), dim(5), dim(4)))
    table = {
        "max 1d": (nn.max_pool1d(x, 3, 2), lambda x, y: onnx_result("MaxPool", x, kernel_shape=[3], strides=[2])),
        "average 1d": (
            nn.avg_pool1d(x, 2, padding=(1, 0)),
            lambda x, y: onnx_result("AveragePool", x, kernel_shape=[2], pads=[1, 0]),
        ),
        "max 3d": (nn.max_pool3d(y, 2), lambda x, y: onnx_result("MaxPool", y, kernel_shape=[2] * 3)),
        "average 3d": (
            nn.avg_pool3d(y, (1, 2, 3), 2, padding=(0, 1, 1)),
            lambda x, y: onnx_result("AveragePool", y, kernel_shape=[1, 2, 3], strides=[2] * 3, pads=[0, 1, 1] * 2),
        ),
    }
    assert_table([x, y], table, (numbers(2, 3, 9), numbers(1, 2, 4, 5, 4)))


def test_layout_may_put_channels_last_or_in_blocks() -> None:
    data = numbers(2, 4, 6, 6)
    expected = onnx_result("AveragePool", data, kernel_shape=[2, 2], strides=[2, 2])
    x, y = var("x", shape=(Any_(), Any_(), Any_(), 4)), var("y", shape=(2, 2, 6, 6, 2))
    run = compiled(
        [x, y],
        nn.avg_pool2d(x, 2, 2, layout="NHWC"),
        nn.avg_pool2d(y, 2, 2, layout="NCHW2c"),
        nn.global_avg_pool2d(x, "NHWC"),
    )
    last, blocked = data.transpose(0, 2, 3, 1), data.reshape(2, 2, 2, 6, 6).transpose(0, 1, 3, 4, 2)
    of_last, of_blocked, whole = run(np.ascontiguousarray(last), np.ascontiguousarray(blocked))
    assert_same(of_last, expected.transpose(0, 2, 3, 1))
    assert_same(of_blocked, expected.reshape(2, 2, 2, 3, 3).transpose(0, 1, 3, 4, 2))
    assert_same(whole, last.mean((1, 2), keepdims=True))


def adaptive(data: np.ndarray, size: tuple[int, ...], reduce: Callable[..., Any]) -> np.ndarray:
    """Return the adaptive pool by its definition: windows from floor(i * n / m) to ceil((i + 1) * n / m)."""
    result = np.zeros((*data.shape[:2], *size), data.dtype)
    for place in np.ndindex(*size):
        pairs = zip(place, data.shape[2:], size, strict=True)
        window = tuple(slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in pairs)
        result[(..., *place)] = reduce(data[(slice(None), slice(None), *window)], tuple(range(2, data.ndim)))
    return result


def test_adaptive_and_global_pools_follow_their_definition(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), 3, dim(7), dim(6))), var("y", shape=(dim(1), 2, dim(5)))
    z = var("z", shape=(dim(1), 2, dim(4), dim(3), dim(4)))
    table = {
        "average to 3 x 2": (nn.adaptive_avg_pool2d(x, (3, 2)), lambda x, y, z: adaptive(x, (3, 2), np.mean)),
        "max to 3 x 3": (nn.adaptive_max_pool2d(x, 3), lambda x, y, z: adaptive(x, (3, 3), np.max)),
        "average to its own size": (nn.adaptive_avg_pool2d(x), lambda x, y, z: x),
        "global average": (nn.global_avg_pool2d(x), lambda x, y, z: x.mean((2, 3), keepdims=True)),
        "global max": (nn.global_max_pool2d(x), lambda x, y, z: x.max((2, 3), keepdims=True)),
        "average 1d": (nn.adaptive_avg_pool1d(y, 4), lambda x, y, z: adaptive(y, (4,), np.mean)),
        "max 1d": (nn.adaptive_max_pool1d(y, 2), lambda x, y, z: adaptive(y, (2,), np.max)),
        "global average 1d": (nn.global_avg_pool1d(y), lambda x, y, z: y.mean(2, keepdims=True)),
        "average 3d": (nn.adaptive_avg_pool3d(z, (2, 1, 3)), lambda x, y, z: adaptive(z, (2, 1, 3), np.mean)),
        "max 3d": (nn.adaptive_max_pool3d(z, (2, 2, 2)), lambda x, y, z: adaptive(z, (2, 2, 2), np.max)),
        "global max 3d": (nn.global_max_pool3d(z), lambda x, y, z: z.max((2, 3, 4), keepdims=True)),
    }
    sizes = [(7, 6)] if dim(1) == 1 else [(7, 6), (2, 1), (6, 12)]
    assert_table([x, y, z], table, *[(numbers(2, 3, h, w), numbers(1, 2, 5), numbers(1, 2, 4, 3, 4)) for h, w in sizes])


def test_averages_of_integers_do_not_wrap_and_are_cut() -> None:
    x = var("x", shape=(1, 1, 1, 4), dtype="int8")
    data = np.array([[[[127, 126, -127, -126]]]], "int8")
    pooled, whole = compiled([x], nn.avg_pool2d(x, (1, 2), (1, 2)), nn.global_avg_pool2d(x))(data)
    assert_same(pooled, np.array([[[[126, -126]]]], "int8"))
    assert_same(whole, np.zeros((1, 1, 1, 1), "int8"))


def test_type_errors_say_what_does_not_fit() -> None:
    x = var("x", shape=(1, 3, 8, 8))
    assert type_error([x], nn.max_pool2d(x, 9)) == (
        "a window that reaches over 9 does not fit on an axis of 8, padded by 0 and 0"
    )
    assert type_error([x], nn.max_pool2d(x, 2, layout="NCDW")) == (
        "layout 'NCDW' must have the axes H, W, and these in one piece"
    )
    assert type_error([x], nn.avg_pool2d(x, (0, 1))) == "pool_size must be positive, not [0, 1]"
    assert type_error([x], nn.avg_pool2d(x, 2, out_layout="NHWC")) == (
        "out_layout 'NHWC' differs from layout 'NCHW'; use layout_transform for that"
    )
    assert type_error([x], nn.adaptive_avg_pool2d(x, (1, 2, 3))) == (
        "output_size must have 1 or 2 values, not 3: [1, 2, 3]"
    )


def test_a_window_larger_than_an_unknown_axis_is_an_error_when_run() -> None:
    x = var("x", shape=(1, 3, Any_(), Any_()))
    reason = "nn.max_pool2d: a window that reaches over 3 does not fit on spatial axis 0, which is shorter than 3"
    with pytest.raises(VMError, match=reason):
        compiled([x], nn.max_pool2d(x, 3))(numbers(1, 3, 1, 5))
