"""Gradients of pools and convolutions follow from their definition, over known and unknown sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import nn, var

Any_ = relay.Any


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def padded(data: np.ndarray, padding: tuple[int, ...], value: float) -> np.ndarray:
    top, left, bottom, right = padding
    return np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)


def pool_gradient(kind: str, grad: np.ndarray, data: np.ndarray, kernel: Any, strides: Any, padding: Any) -> Any:
    """Give every window's gradient to its first largest element, or to all that count; kind "all" counts padding."""
    whole = padded(data, padding, -np.inf if kind == "max" else 0)
    counts = padded(np.ones_like(data), padding, 1 if kind == "all" else 0)
    result = np.zeros_like(whole)
    for n, c, i, j in np.ndindex(*grad.shape):
        y, x = i * strides[0], j * strides[1]
        window = np.s_[n, c, y : y + kernel[0], x : x + kernel[1]]
        if kind == "max":
            row, column = np.unravel_index(np.argmax(whole[window]), whole[window].shape)
            result[n, c, y + row, x + column] += grad[n, c, i, j]
        else:
            result[window] += grad[n, c, i, j] / max(counts[window].sum(), 1)
    top, left, _, _ = padding
    return result[:, :, top : top + data.shape[2], left : left + data.shape[3]]


WINDOWS = [
    ((3, 3), (2, 2), (1, 1, 1, 1)),
    ((2, 3), (1, 2), (0, 1, 1, 0)),
    ((2, 2), (3, 3), (0, 0, 0, 0)),
]


def test_pool_gradients_follow_their_definition(dim: Any) -> None:
    data = np.round(numbers(2, 3, 8, 9), 1)  # rounded, so that some windows have their largest element twice
    x = var("x", shape=(dim(2), 3, dim(8), dim(9)))
    params, arrays, results, expected = [x], [data], [], []
    for i, (kernel, strides, padding) in enumerate(WINDOWS):
        size = [(data.shape[2 + a] + padding[a] + padding[2 + a] - kernel[a]) // strides[a] + 1 for a in (0, 1)]
        grad = numbers(2, 3, *size)
        g = var(f"g{i}", shape=(dim(2), 3, dim(size[0]), dim(size[1])))
        results += [
            nn.max_pool2d_grad(g, x, kernel, strides, padding),
            nn.avg_pool2d_grad(g, x, kernel, strides, padding),
            nn.avg_pool2d_grad(g, x, kernel, strides, padding, count_include_pad=True),
        ]
        expected += [pool_gradient(k, grad, data, kernel, strides, padding) for k in ("max", "mean", "all")]
        params.append(g)
        arrays.append(grad)
    assert_same(compiled(params, *results)(*arrays), tuple(expected))


def test_pool_gradient_keeps_the_layout_and_reaches_past_the_end_with_ceil() -> None:
    data, grad = numbers(1, 2, 5, 6), numbers(1, 2, 3, 3)
    x, g = var("x", shape=(1, 5, 6, 2)), var("g", shape=(1, 3, 3, 2))
    options = {"pool_size": 2, "strides": 2, "layout": "NHWC", "ceil_mode": True}
    run = compiled([g, x], nn.max_pool2d_grad(g, x, **options), nn.avg_pool2d_grad(g, x, **options))
    arrays = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (grad, data)]
    expected = [pool_gradient(k, grad, data, (2, 2), (2, 2), (0, 0, 1, 0)) for k in ("max", "mean")]
    assert_same(run(*arrays), [e.transpose(0, 2, 3, 1) for e in expected])


def weight_gradient(
    grad: np.ndarray, data: np.ndarray, kernel: Any, strides: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray:
    outputs, inputs = grad.shape[1], data.shape[1] // groups
    whole, result = padded(data, padding, 0), np.zeros((outputs, inputs, *kernel), "float32")
    for o, i, a, b in np.ndindex(*result.shape):
        y, x = a * dilation[0], b * dilation[1]
        rows = slice(y, y + (grad.shape[2] - 1) * strides[0] + 1, strides[0])
        columns = slice(x, x + (grad.shape[3] - 1) * strides[1] + 1, strides[1])
        result[o, i, a, b] = (whole[:, o // (outputs // groups) * inputs + i, rows, columns] * grad[:, o]).sum()
    return result


CONVOLUTIONS = [
    ((1, 1), (1, 1, 1, 1), (1, 1), 1, 4),
    ((2, 1), (1, 0, 1, 0), (1, 2), 2, 6),
    ((1, 1), (0, 0, 0, 0), (1, 1), 4, 4),
]


def test_weight_gradient_follows_its_definition(dim: Any) -> None:
    data = numbers(2, 4, 8, 9)
    x = var("x", shape=(dim(2), 4, dim(8), dim(9)))
    params, arrays, results, expected = [x], [data], [], []
    for i, (strides, padding, dilation, groups, outputs) in enumerate(CONVOLUTIONS):
        size = [
            (data.shape[2 + a] + padding[a] + padding[2 + a] - 2 * dilation[a] - 1) // strides[a] + 1 for a in (0, 1)
        ]
        grad = numbers(2, outputs, *size)
        g = var(f"g{i}", shape=(dim(2), outputs, dim(size[0]), dim(size[1])))
        how = (strides, padding, dilation, groups)
        results.append(nn.conv2d_backward_weight(g, x, *how, channels=outputs, kernel_size=(3, 3)))
        expected.append(weight_gradient(grad, data, (3, 3), *how))
        params.append(g)
        arrays.append(grad)
    assert_same(compiled(params, *results)(*arrays), tuple(expected), rtol=1e-4, atol=1e-4)


def test_weight_gradient_takes_layouts_and_a_data_type() -> None:
    data, grad = numbers(2, 4, 6, 6), numbers(2, 2, 4, 4)
    x, g = var("x", shape=(2, 6, 6, 4)), var("g", shape=(2, 2, 4, 4))
    result = nn.conv2d_backward_weight(
        g, x, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO", out_dtype="float64"
    )
    expected = weight_gradient(grad, data, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1).transpose(2, 3, 1, 0)
    actual = compiled([g, x], result)(grad, np.ascontiguousarray(data.transpose(0, 2, 3, 1)))
    assert_same(actual, expected.astype("float64"), rtol=1e-4, atol=1e-4)


def test_type_errors_say_what_does_not_fit() -> None:
    x, g = var("x", shape=(1, 3, 8, 8)), var("g", shape=(1, 3, 5, 4))
    assert type_error([g, x], nn.max_pool2d_grad(g, x, 2, 2)) == (
        "out_grad must have the shape of the pool's result, Tensor[(1, 3, 4, 4), float32], not "
        "Tensor[(1, 3, 5, 4), float32]"
    )
    assert type_error([g, x], nn.conv2d_backward_weight(g, x)) == (
        "kernel_size must be given with 2 values, for the shape of the weight follows from it"
    )
    assert type_error([g, x], nn.conv2d_backward_weight(g, x, kernel_size=(4, 4))) == (
        "axis W of grad has 4 elements; the convolution of data gives 5"
    )


def test_gradients_of_the_wrong_size_are_an_error_when_run() -> None:
    x, g = var("x", shape=(1, 3, Any_(), Any_())), var("g", shape=(1, 3, Any_(), Any_()))
    run = compiled([g, x], nn.avg_pool2d_grad(g, x, 2, 2))
    with pytest.raises(VMError, match="dimension 2 of out_grad is 5, but that of the pool's result 4"):
        run(numbers(1, 3, 5, 4), numbers(1, 3, 8, 8))
    run = compiled([g, x], nn.conv2d_backward_weight(g, x, kernel_size=(3, 3)))
    with pytest.raises(VMError, match="axis H of grad has 5 elements; the convolution of data gives 6"):
        run(numbers(1, 3, 5, 6), numbers(1, 3, 8, 8))


def test_pool_gradients_as_relay_wrote_them_have_no_dilation() -> None:
    data, grad = numbers(1, 1, 4, 4), numbers(1, 1, 2, 2)
    for name, kind in (("max", "max"), ("avg", "mean")):
        mod = relay.parse(
            f"""#[version = "0.0.5"]
            def @main(%g: Tensor[(1, 1, 2, 2), float32], %x: Tensor[(1, 1, 4, 4), float32]) {{
              nn.{name}_pool2d_grad(%g, %x, pool_size=[2, 2], strides=[2, 2], dilation=[], padding=[0, 0, 0, 0])
            }}"""
        )
        written = compiled(mod["main"].params, mod["main"].body)(grad, data)
        assert_same(written, pool_gradient(kind, grad, data, (2, 2), (2, 2), (0, 0, 0, 0)))
    # With nothing said the window is one element, so the gradient passes through.
    same, x = var("s", shape=(1, 1, 4, 4)), var("x", shape=(1, 1, 4, 4))
    run = compiled([same, x], nn.max_pool2d_grad(same, x), nn.avg_pool2d_grad(same, x))
    assert_same(run(data, data), (data, data))
