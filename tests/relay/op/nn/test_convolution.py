"""Convolutions agree with onnxruntime, in every order of axes and over known and unknown sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.onnx_reference import onnx_result
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import TypeCheckError, VMError
from vmkit.relay import nn, var

Any_ = relay.Any


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


CONV2D: list[tuple[dict[str, Any], dict[str, Any], tuple[int, ...]]] = [
    ({}, {}, (5, 4, 3, 3)),
    ({"strides": 2, "padding": 1}, {"strides": [2, 2], "pads": [1] * 4}, (5, 4, 3, 3)),
    ({"padding": (1, 2), "dilation": (2, 1)}, {"pads": [1, 2, 1, 2], "dilations": [2, 1]}, (5, 4, 2, 3)),
    ({"padding": (0, 1, 2, 3)}, {"pads": [0, 1, 2, 3]}, (5, 4, 3, 3)),
    ({"groups": 2, "channels": 6, "kernel_size": 3}, {"group": 2}, (6, 2, 3, 3)),
    ({"groups": 4, "padding": 1}, {"group": 4, "pads": [1] * 4}, (8, 1, 3, 3)),
    ({"channels": 5, "kernel_size": (1, 1)}, {}, (5, 4, 1, 1)),
]


def test_conv2d_agrees_with_onnxruntime(dim: Any) -> None:
    x = var("x", shape=(dim(2), 4, dim(6), dim(7)))
    weights = [var(f"w{i}", shape=shape) for i, (_, _, shape) in enumerate(CONV2D)]
    results = [nn.conv2d(x, w, **ours) for w, (ours, _, _) in zip(weights, CONV2D, strict=True)]
    run = compiled([x, *weights], *results)
    arrays = [numbers(*shape) for _, _, shape in CONV2D]
    sizes = [(2, 4, 6, 7)] if dim(1) == 1 else [(2, 4, 6, 7), (1, 4, 3, 3), (3, 4, 9, 5)]
    for size in sizes:
        data = numbers(*size)
        expected = [onnx_result("Conv", data, w, **theirs) for w, (_, theirs, _) in zip(arrays, CONV2D, strict=True)]
        assert_same(run(data, *arrays), expected, rtol=1e-4, atol=1e-5)


def test_axes_may_come_in_every_order() -> None:
    data, weight = numbers(2, 4, 6, 7), numbers(6, 2, 3, 3)
    expected = onnx_result("Conv", data, weight, group=2, strides=[2, 1], pads=[1, 0, 1, 0])
    options: dict[str, Any] = {"groups": 2, "strides": (2, 1), "padding": (1, 0)}
    nhwc, hwio = data.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0)
    x, w = var("x", shape=(Any_(), Any_(), Any_(), 4)), var("w", shape=(3, 3, 2, 6))
    run = compiled(
        [x, w],
        nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO", **options),
        nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO", out_layout="NCHW", **options),
    )
    same, turned = run(np.ascontiguousarray(nhwc), np.ascontiguousarray(hwio))
    assert_same(same, expected.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)
    assert_same(turned, expected, rtol=1e-4, atol=1e-5)


def test_depthwise_weight_may_hold_a_multiplier() -> None:
    data, weight = numbers(1, 5, 5, 4), numbers(3, 3, 4, 2)
    x, w = var("x", shape=(1, Any_(), Any_(), 4)), var("w", shape=(3, 3, 4, 2))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWOI"}
    result = nn.conv2d(x, w, groups=4, channels=8, kernel_size=3, **layouts)
    plain = np.ascontiguousarray(weight.transpose(2, 3, 0, 1).reshape(8, 1, 3, 3))
    expected = onnx_result("Conv", np.ascontiguousarray(data.transpose(0, 3, 1, 2)), plain, group=4)
    assert_same(compiled([x, w], result)(data, weight), expected.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)


def test_conv1d_and_conv3d_agree_with_onnxruntime(dim: Any) -> None:
    x, w = var("x", shape=(dim(2), 4, dim(9))), var("w", shape=(6, 2, 3))
    y, v = var("y", shape=(dim(1), 2, dim(4), dim(5), dim(4))), var("v", shape=(3, 2, 2, 3, 2))
    run = compiled(
        [x, w, y, v],
        nn.conv1d(x, w, strides=2, padding=(1, 2), groups=2),
        nn.conv3d(y, v, padding=(1, 0, 1), dilation=(2, 1, 1)),
    )
    arrays = numbers(2, 4, 9), numbers(6, 2, 3), numbers(1, 2, 4, 5, 4), numbers(3, 2, 2, 3, 2)
    expected = (
        onnx_result("Conv", *arrays[:2], strides=[2], pads=[1, 2], group=2),
        onnx_result("Conv", *arrays[2:], pads=[1, 0, 1] * 2, dilations=[2, 1, 1]),
    )
    assert_same(run(*arrays), expected, rtol=1e-4, atol=1e-5)


def test_out_dtype_is_the_type_of_the_sum() -> None:
    x, w = var("x", shape=(1, 64, 1, 1), dtype="uint8"), var("w", shape=(1, 64, 1, 1), dtype="int8")
    data, weight = np.full((1, 64, 1, 1), 255, "uint8"), np.full((1, 64, 1, 1), -128, "int8")
    expected = np.full((1, 1, 1, 1), -255 * 128 * 64, "int32")
    assert_same(compiled([x, w], nn.conv2d(x, w, out_dtype="int32"))(data, weight), expected)


def test_an_empty_batch_gives_an_empty_batch() -> None:
    x, w = var("x", shape=(Any_(), 3, 4, 4)), var("w", shape=(2, 3, 3, 3))
    assert compiled([x, w], nn.conv2d(x, w))(numbers(0, 3, 4, 4), numbers(2, 3, 3, 3)).shape == (0, 2, 2, 2)


def test_builder_keeps_padding_of_all_sides_as_relay_did() -> None:
    x, w = var("x", shape=(1, 3, 8, 8)), var("w", shape=(2, 3, 3, 3))
    attrs = nn.conv2d(x, w, padding=1, strides=2, kernel_size=3).attrs
    assert (list(attrs.padding), list(attrs.strides), list(attrs.kernel_size)) == ([1, 1, 1, 1], [2, 2], [3, 3])
    with pytest.raises(TypeCheckError, match=r"padding must have 1, 2 or 4 values, not 3: \[1, 2, 3\]"):
        nn.conv2d(x, w, padding=(1, 2, 3))


def test_type_of_a_weight_without_annotation_follows_from_channels_and_kernel() -> None:
    for layout, expected in (("OIHW", "(6, 2, 3, 5)"), ("HWIO", "(3, 5, 2, 6)")):
        x, w = var("x", shape=(Any_(), 4, 8, 8)), var("w")
        result = nn.conv2d(x, w, groups=2, channels=6, kernel_size=(3, 5), kernel_layout=layout)
        relay.transform.infer_expr(relay.Function([x, w], result))
        assert str(w.checked_type) == f"Tensor[{expected}, float32]"


@pytest.mark.parametrize(
    ("shape", "options", "reason"),
    [
        ((5, 3, 3, 3), {}, "the data has 4 channels, but the weight takes 3 in each of 1 groups: 3"),
        ((5, 1, 3, 3), {"groups": 3}, "groups is 3, which does not divide the 4 channels of the data"),
        ((5, 2, 3, 3), {"groups": 2}, "groups is 2, which does not divide the 5 channels of the result"),
        ((5, 4, 3, 3), {"channels": 6}, "channels is 6, but the weight makes 5"),
        ((5, 4, 3, 3), {"kernel_size": 5}, "kernel_size is 5 x 5, but the weight's kernel is 3 x 3"),
        ((5, 4, 3), {}, "weight must have 4 dimensions, not 3: Tensor[(5, 4, 3), float32]"),
        ((5, 4, 3, 3), {"strides": 0}, "strides must be positive, not [0, 0]"),
        ((5, 4, 3, 3), {"data_layout": "NCDW"}, "data_layout 'NCDW' must order the axes N, C, H, W"),
        ((5, 4, 3, 3), {"data_layout": "nchw"}, "'nchw' is no layout: write one capital letter an axis"),
        ((5, 4, 9, 3), {}, "a window that reaches over 9 does not fit on an axis of 6, padded by 0 and 0"),
    ],
)
def test_type_errors_say_what_does_not_fit(shape: Any, options: dict[str, Any], reason: str) -> None:
    x, w = var("x", shape=(2, 4, 6, 7)), var("w", shape=shape)
    assert type_error([x, w], nn.conv2d(x, w, **options)).startswith(reason)


@pytest.mark.parametrize(
    ("data", "weight", "reason"),
    [
        ((1, 3, 5, 5), (2, 4, 3, 3), "nn.conv2d: the data has 3 channels, but the weight takes 4"),
        ((1, 4, 5, 2), (2, 4, 3, 3), "does not fit on spatial axis 1, which is shorter than 3"),
    ],
)
def test_unknown_dimensions_that_do_not_fit_are_an_error_when_run(data: Any, weight: Any, reason: str) -> None:
    x, w = var("x", shape=[Any_()] * 4), var("w", shape=weight)
    with pytest.raises(VMError, match=reason):
        compiled([x, w], nn.conv2d(x, w))(numbers(*data), numbers(*weight))


TRANSPOSED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    (
        {"strides": 2, "padding": 1, "output_padding": 1},
        {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]},
    ),
    ({"strides": (3, 1), "groups": 2}, {"strides": [3, 1], "group": 2}),
    ({"dilation": 2, "padding": (0, 1, 1, 0)}, {"dilations": [2, 2], "pads": [0, 1, 1, 0]}),
]


def test_transposed_convolutions_agree_with_onnxruntime(dim: Any) -> None:
    x, w = var("x", shape=(dim(2), 4, dim(5), dim(4))), var("w", shape=(4, 3, 3, 2))
    run = compiled([x, w], *[nn.conv2d_transpose(x, w, **ours) for ours, _ in TRANSPOSED])
    weight = numbers(4, 3, 3, 2)
    for size in [(2, 4, 5, 4)] if dim(1) == 1 else [(2, 4, 5, 4), (1, 4, 3, 3), (1, 4, 1, 2)]:
        data = numbers(*size)
        expected = [onnx_result("ConvTranspose", data, weight, **theirs) for _, theirs in TRANSPOSED]
        assert_same(run(data, weight), expected, rtol=1e-4, atol=1e-5)


def test_transposed_convolutions_over_one_and_three_axes() -> None:
    x, w = var("x", shape=(2, 4, Any_())), var("w", shape=(4, 3, 3))
    y, v = var("y", shape=(1, 2, 3, 3, 3)), var("v", shape=(2, 2, 2, 2, 2))
    run = compiled([x, w, y, v], nn.conv1d_transpose(x, w, 2, 1), nn.conv3d_transpose(y, v, strides=2))
    arrays = numbers(2, 4, 5), numbers(4, 3, 3), numbers(1, 2, 3, 3, 3), numbers(2, 2, 2, 2, 2)
    expected = (
        onnx_result("ConvTranspose", *arrays[:2], strides=[2], pads=[1, 1]),
        onnx_result("ConvTranspose", *arrays[2:], strides=[2, 2, 2]),
    )
    assert_same(run(*arrays), expected, rtol=1e-4, atol=1e-5)


def test_transposed_weight_may_come_in_every_order() -> None:
    data, weight = numbers(1, 4, 3, 3), numbers(4, 3, 2, 2)
    x, w = var("x", shape=(1, 3, 3, 4)), var("w", shape=(2, 2, 3, 4))
    result = nn.conv2d_transpose(x, w, strides=2, data_layout="NHWC", kernel_layout="HWOI")
    arrays = [np.ascontiguousarray(a) for a in (data.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0))]
    expected = onnx_result("ConvTranspose", data, weight, strides=[2, 2]).transpose(0, 2, 3, 1)
    assert_same(compiled([x, w], result)(*arrays), expected, rtol=1e-4, atol=1e-5)


def test_transposed_type_errors_say_what_does_not_fit() -> None:
    x, w = var("x", shape=(2, 4, 6, 7)), var("w", shape=(3, 4, 3, 3))
    assert type_error([x, w], nn.conv2d_transpose(x, w)) == "the data has 4 channels, but the weight takes 3"
    v = var("v", shape=(4, 2, 3, 3))
    assert type_error([x, v], nn.conv2d_transpose(x, v, channels=3)) == "channels is 3, but the weight makes 2"
    assert type_error([x, v], nn.conv2d_transpose(x, v, output_padding=-1)) == (
        "output_padding must not be negative: [-1, -1]"
    )
    assert type_error([x, v], nn.conv2d_transpose(x, v, padding=5)) == (
        "padding [5, 5, 5, 5] cuts off more than the whole result of an axis of 6"
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_builders_take_groups_before_channels(rank: int) -> None:
    x, w = var("x", shape=(1, 4, *[3] * rank)), var("w", shape=(4, 3, *[2] * rank))
    build = (nn.conv1d_transpose, nn.conv2d_transpose, nn.conv3d_transpose)[rank - 1]
    attrs = build(x, w, [2] * rank, [0] * rank, [1] * rank, 2, 6, [2] * rank).attrs
    assert (attrs.groups, attrs.channels, list(attrs.kernel_size)) == (2, 6, [2] * rank)
