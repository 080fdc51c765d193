"""Normalizations agree with onnxruntime and with their definition."""

from __future__ import annotations

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


def group_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, groups: int) -> np.ndarray:
    cut = x.reshape(x.shape[0], groups, -1).astype("float64")
    cut = (cut - cut.mean(2, keepdims=True)) / np.sqrt(cut.var(2, keepdims=True) + 1e-5)
    return (cut.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]).astype("float32")


def even_lrn(x: np.ndarray) -> np.ndarray:
    """Return the response normalization on axis 2 over four neighbours: one before, the element, two behind."""
    padded = np.pad(x, [[0, 0], [0, 0], [1, 2], [0, 0]]) ** 2
    total = sum(padded[:, :, i : i + x.shape[2]] for i in range(4))
    return x / (2 + 0.1 / 4 * total) ** 0.75


def test_normalizations_agree_with_their_references(dim: Any) -> None:
    x = var("x", shape=(dim(2), dim(4), dim(3), dim(5)))
    gamma, beta = var("gamma", shape=(dim(4),)), var("beta", shape=(dim(4),))
    table = {
        "instance": (
            nn.instance_norm(x, gamma, beta, epsilon=1e-3),
            lambda x, g, b: onnx_result("InstanceNormalization", x, g, b, epsilon=1e-3),
        ),
        "group": (nn.group_norm(x, gamma, beta, 2), lambda x, g, b: group_norm(x, g, b, 2)),
        "layer, on axis 1": (
            nn.layer_norm(x, gamma, beta, axis=1),
            lambda x, g, b: onnx_result("LayerNormalization", x.transpose(0, 2, 3, 1).copy(), g, b).transpose(
                0, 3, 1, 2
            ),
        ),
        "layer, neither scaled nor shifted": (
            nn.layer_norm(x, gamma, beta, axis=1, center=False, scale=False),
            lambda x, g, b: onnx_result(
                "LayerNormalization", x.transpose(0, 2, 3, 1).copy(), g * 0 + 1, b * 0
            ).transpose(0, 3, 1, 2),
        ),
        "l2": (nn.l2_normalize(x, 1e-10, [1]), lambda x, g, b: x / np.sqrt((x * x).sum(1, keepdims=True))),
        "l2 of two axes": (
            nn.l2_normalize(x, 100.0, [1, -1]),
            lambda x, g, b: x / np.sqrt(np.maximum((x * x).sum((1, 3), keepdims=True), 100)),
        ),
        "lrn": (
            nn.lrn(x, 3, bias=1.5, alpha=0.1),
            lambda x, g, b: onnx_result("LRN", x, size=3, alpha=0.1, beta=0.75, bias=1.5),
        ),
        "lrn of even size": (
            nn.lrn(x, 4, 2, alpha=0.1),
            lambda x, g, b: even_lrn(x),
        ),
    }
    sizes = [(2, 4, 3, 5)] if dim(1) == 1 else [(2, 4, 3, 5), (1, 6, 2, 2)]
    assert_table([x, gamma, beta], table, *[(numbers(*s), numbers(s[1]), numbers(s[1]) + 1) for s in sizes])


def test_batch_norm_by_given_statistics_on_every_axis(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), 3, dim(4), dim(5))), var("y", shape=(dim(2), dim(4), 3))
    vectors = [var(n) for n in ("gamma", "beta", "mean", "variance")]
    out, mean, variance = nn.batch_norm(x, *vectors, epsilon=1e-3)
    relued = nn.relu(nn.batch_norm(y, *vectors, axis=-1, center=False, scale=False)[0])
    run = compiled([x, y, *vectors], out, mean, variance, relued)
    data, last = numbers(2, 3, 4, 5), numbers(2, 4, 3)
    given = [numbers(3), numbers(3) + 2, numbers(3) * 2, numbers(3) ** 2]
    expected = onnx_result("BatchNormalization", data, *given, epsilon=1e-3)
    plain = np.maximum((last - given[2]) / np.sqrt(given[3] + 1e-5), 0)
    assert_same(run(data, last, *given), (expected, given[2], given[3], plain), rtol=1e-4, atol=1e-5)


def test_batch_norm_behind_a_convolution_is_part_of_its_kernel() -> None:
    x, w = var("x", shape=(1, 3, 8, 8)), var("w", shape=(4, 3, 3, 3))
    vectors = [relay.const(numbers(4) ** 2) for _ in range(4)]
    result = nn.relu(nn.batch_norm(nn.conv2d(x, w), *vectors)[0])
    arrays = numbers(1, 3, 8, 8), numbers(4, 3, 3, 3)
    convolved = onnx_result("Conv", *arrays)
    expected = np.maximum(onnx_result("BatchNormalization", convolved, *[numbers(4) ** 2] * 4), 0)
    assert_same(compiled([x, w], result)(*arrays), expected, rtol=1e-4, atol=1e-5)


def test_short_floats_are_summed_up_in_float32() -> None:
    x, vector = var("x", shape=(2, Any_()), dtype="float16"), var("v", shape=(Any_(),), dtype="float16")
    # The sum of 4096 numbers near 100 is no float16, and near 100 the distance of float16 is 1/16.
    data = (100 + numbers(2, 4096)).astype("float16")
    wide = data.astype("float64")
    expected = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    actual = compiled([x, vector], nn.layer_norm(x, vector, vector, scale=False, center=False))
    assert_same(actual(data, np.zeros(4096, "float16")), expected.astype("float16"), rtol=1e-2, atol=1e-2)


def test_type_errors_say_what_does_not_fit() -> None:
    x, g = var("x", shape=(2, 4, 3)), var("g", shape=(3,))
    assert type_error([x, g], nn.layer_norm(x, g, g, axis=1)) == "gamma has 3 elements, but axis 1 of the data 4"
    assert type_error([x, g], nn.layer_norm(x, g, g, axis=3)) == (
        "axis is 3, but the input has 3 dimensions; allowed are -3 to 2"
    )
    v = var("v", shape=(4,))
    assert type_error([x, v], nn.group_norm(x, v, v, 3)) == "num_groups is 3, which does not divide the 4 channels"
    assert type_error([x], nn.lrn(x, 0)) == "size must be positive, not 0"


def test_unknown_channels_that_do_not_fit_are_an_error_when_run() -> None:
    x, g = var("x", shape=(2, Any_(), 3)), var("g", shape=(Any_(),))
    run = compiled([x, g], nn.instance_norm(x, g, g))
    with pytest.raises(VMError, match=r"nn.instance_norm: gamma has 3 elements, but axis 1 of the data 4"):
        run(numbers(2, 4, 3), numbers(3))
    run = compiled([x, g], nn.group_norm(x, g, g, 2))
    with pytest.raises(VMError, match=r"nn.group_norm: num_groups is 2, which does not divide the channels"):
        run(numbers(2, 3, 3), numbers(3))
