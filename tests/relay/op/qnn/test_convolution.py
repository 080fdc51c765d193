"""Quantised convolutions are exact in int32: every layout, grouping, dilation and form of zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.qnn.references import integers
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.relay import const, var
from vmkit.relay.qnn import op as qnn

_SCALE = const(0.5)


def convolved(
    x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> np.ndarray:
    """Return the convolution of NCHW by OIHW in int64."""
    x = np.pad(x, [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2])
    outputs, inputs, height, width = w.shape
    reach = [(k - 1) * dilation + 1 for k in (height, width)]
    sizes = [(n - r) // stride + 1 for n, r in zip(x.shape[2:], reach, strict=True)]
    result = np.zeros((x.shape[0], outputs, *sizes), "int64")
    for o in range(outputs):
        first = o // (outputs // groups) * inputs
        for i, j in np.ndindex(height, width):
            top, left = i * dilation, j * dilation
            view = x[:, first : first + inputs, top : top + stride * sizes[0] : stride,
                     left : left + stride * sizes[1] : stride]  # fmt: skip
            result[:, o] += np.einsum("nchw,c->nhw", view, w[o, :, i, j])
    return result


def transposed(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0, groups: int = 1) -> np.ndarray:
    """Return the transposed convolution of NCHW by IOHW in int64."""
    (n, inputs, h, wd), (_, outputs, kh, kw) = x.shape, w.shape
    result = np.zeros((n, outputs * groups, (h - 1) * stride + kh, (wd - 1) * stride + kw), "int64")
    for c in range(inputs):
        first = c // (inputs // groups) * outputs
        for i, j in np.ndindex(h, wd):
            at = np.s_[:, first : first + outputs, i * stride : i * stride + kh, j * stride : j * stride + kw]
            result[at] += x[:, c, i, j][:, None, None, None] * w[c][None]
    end = -padding or None
    return result[:, :, padding:end, padding:end]


def order(array: np.ndarray, axes: str, wanted: str) -> np.ndarray:
    return np.ascontiguousarray(array.transpose([axes.index(a) for a in wanted]))


@pytest.mark.parametrize(
    ("data_layout", "kernel_layout"),
    [
        ("NCHW", "OIHW"),
        pytest.param("NCHW", "HWIO", marks=pytest.mark.nightly),
        ("NHWC", "HWIO"),
        *(pytest.param("NHWC", kernel, marks=pytest.mark.nightly) for kernel in ("HWOI", "OHWI")),
    ],
)
def test_conv2d_pads_with_the_zero_point_in_every_layout(data_layout: str, kernel_layout: str, dim: Any) -> None:
    sizes = {"N": dim(2), "C": 6, "H": dim(7), "W": dim(8)}
    x = var("x", shape=[sizes[a] for a in data_layout], dtype="uint8")
    data = integers("uint8", 2, 6, 7, 8)
    cases = [
        ("int8", (6, 6, 3, 3), 130, 0, {"padding": 1}),
        ("uint8", (4, 6, 3, 2), 3, 117, {"padding": 2, "stride": 2}),
        ("int8", (4, 3, 2, 2), 9, np.int32([1, 0, -5, 90]), {"groups": 2, "padding": 1}),
        ("int8", (6, 1, 3, 3), 7, np.int32([1, 2, 3, 4, 5, 6]), {"groups": 6, "dilation": 2}),
        ("int8", (12, 1, 3, 3), 1, -3, {"groups": 6, "padding": 1}),
    ]
    calls, expected = [], []
    for k, (dtype, shape, zero, kernel_zero, how) in enumerate(cases):
        w = integers(dtype, *shape, seed=k)
        zeros = np.asarray(kernel_zero, "int32")
        result = convolved(data.astype("int64") - zero, w - zeros.reshape(-1, 1, 1, 1).astype("int64"), **how)
        expected.append(order(result, "NCHW", data_layout).astype("int32"))
        names = {"stride": "strides"}
        calls.append(
            qnn.conv2d(
                *(x, const(order(w, "OIHW", kernel_layout)), const(zero), const(zeros), _SCALE, _SCALE),
                kernel_size=shape[2:],
                channels=shape[0],
                data_layout=data_layout,
                kernel_layout=kernel_layout,
                **{names.get(key, key): value for key, value in how.items()},
            )
        )
    assert_same(compiled([x], *calls)(order(data, "NCHW", data_layout)), tuple(expected))


@pytest.mark.parametrize("kernel_layout", ["OIHW", "HWOI", pytest.param("HWIO", marks=pytest.mark.nightly)])
def test_a_depthwise_weight_may_hold_several_kernels_of_a_channel(kernel_layout: str) -> None:
    x, data = var("x", shape=(1, 3, 5, 5), dtype="int8"), integers("int8", 1, 3, 5, 5)
    w, zeros = integers("int8", 6, 1, 2, 2), np.int32([1, -2, 3, -4, 5, -6])
    stacked = order(w.reshape(3, 2, 2, 2), "OIHW", kernel_layout)
    by_channel = np.int32([7, 8, 9])
    calls = [
        qnn.conv2d(
            x, const(stacked), const(4), const(z), _SCALE, _SCALE, (2, 2), 6, groups=3, kernel_layout=kernel_layout
        )
        for z in (zeros, by_channel)
    ]
    expected = [
        convolved(data.astype("int64") - 4, w - z.reshape(-1, 1, 1, 1).astype("int64"), groups=3).astype("int32")
        for z in (zeros, np.repeat(by_channel, 2))
    ]
    assert_same(compiled([x], *calls)(data), tuple(expected))


def test_zero_points_and_weights_may_come_at_run_time() -> None:
    x = var("x", shape=(relay.Any(), 4, relay.Any(), 6), dtype="int8")
    w = var("w", shape=(5, 4, 3, 3), dtype="uint8")
    zero, zeros = var("zero", shape=(), dtype="int32"), var("zeros", shape=(5,), dtype="int32")
    data, weight = integers("int8", 2, 4, 5, 6), integers("uint8", 5, 4, 3, 3)
    vector = np.int32([0, 255, 128, 3, -9])
    run = compiled(
        [x, w, zero, zeros],
        qnn.conv2d(x, w, zero, zeros, _SCALE, _SCALE, (3, 3), 5, padding=(1, 2)),
        qnn.conv2d(x, w, zero, zero, _SCALE, _SCALE, (3, 3), 5, padding=(1, 2), out_dtype="int16"),
        qnn.conv2d(x, w, zero, zero, _SCALE, _SCALE, (3, 3), 5, padding=(1, 2), out_dtype="int64"),
    )
    padded = np.pad(data.astype("int64") + 11, [(0, 0), (0, 0), (1, 1), (2, 2)])
    by_vector = convolved(padded, weight - vector.reshape(-1, 1, 1, 1).astype("int64"))
    by_number = convolved(padded, weight.astype("int64") + 11)
    expected = by_vector.astype("int32"), by_number.astype("int16"), by_number
    assert_same(run(data, weight, np.int32(-11), vector), expected)


@pytest.mark.parametrize(
    ("data_layout", "kernel_layout"),
    [("NCHW", "IOHW"), ("NHWC", "HWOI"), pytest.param("NHWC", "IOHW", marks=pytest.mark.nightly)],
)
def test_conv2d_transpose_subtracts_zero_points(data_layout: str, kernel_layout: str, dim: Any) -> None:
    sizes = {"N": dim(2), "C": 4, "H": dim(3), "W": dim(5)}
    x = var("x", shape=[sizes[a] for a in data_layout], dtype="int8")
    data = integers("int8", 2, 4, 3, 5)
    cases: list[tuple[tuple[int, ...], int, Any, dict[str, int]]] = [
        ((4, 3, 2, 2), 5, 3, {}),
        ((4, 3, 3, 3), -8, np.int32([1, 2, -3]), {"stride": 2, "padding": 1}),
        ((4, 2, 3, 3), 1, np.int32([4, -5, 6, 7]), {"groups": 2}),
    ]
    calls, expected = [], []
    for k, (shape, zero, kernel_zero, how) in enumerate(cases):
        w, groups = integers("int8", *shape, seed=k), how.get("groups", 1)
        zeros = np.broadcast_to(np.asarray(kernel_zero, "int64"), shape[1] * groups).reshape(groups, shape[1])
        shift = np.repeat(zeros, shape[0] // groups, axis=0)[:, :, None, None]
        result = transposed(data.astype("int64") - zero, w - shift, **how)
        expected.append(order(result, "NCHW", data_layout).astype("int32"))
        calls.append(
            qnn.conv2d_transpose(
                *(x, const(order(w, "IOHW", kernel_layout)), const(zero), const(np.int32(kernel_zero)), _SCALE, _SCALE),
                strides=how.get("stride", 1),
                padding=how.get("padding", 0),
                groups=groups,
                channels=shape[1] * groups,
                kernel_size=shape[2:],
                data_layout=data_layout,
                kernel_layout=kernel_layout,
            )
        )
    assert_same(compiled([x], *calls)(order(data, "NCHW", data_layout)), tuple(expected))


def test_mistakes_are_named() -> None:
    x, w = var("x", shape=(1, 4, 5, 5), dtype="int8"), var("w", shape=(6, 4, 3, 3), dtype="int8")
    zero, pair = const(0), const(np.zeros(2, "int32"))

    def error(*parameters: Any, data: Any = x, **options: Any) -> str:
        return type_error([data, w], qnn.conv2d(data, w, *parameters, kernel_size=(3, 3), channels=6, **options))

    floats = var("f", shape=(1, 4, 5, 5))
    assert error(zero, zero, _SCALE, _SCALE, data=floats) == "data must be one of int8, uint8, int16, not float32"
    assert error(pair, zero, _SCALE, _SCALE).startswith("input_zero_point must be one number, not")
    assert error(zero, pair, _SCALE, _SCALE).startswith("kernel_zero_point must be one number or a vector of 6, not")
    assert error(zero, zero, zero, _SCALE) == "input_scale must be float32, not int32"
    assert "out_dtype must be one of int16, int32, int64" in error(zero, zero, _SCALE, _SCALE, out_dtype="float32")
