"""Deformable convolution and correlation agree with their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.onnx_reference import onnx_result
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import nn, var


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def test_deformable_convolution_without_offsets_is_a_convolution(dim: Any) -> None:
    x, w = var("x", shape=(dim(2), 4, dim(6), dim(7))), var("w", shape=(5, 4, 3, 3))
    offset = var("offset", shape=(dim(2), 36, dim(6), dim(7)))
    result = nn.deformable_conv2d(x, offset, w, padding=1, deformable_groups=2)
    data, weight = numbers(2, 4, 6, 7), numbers(5, 4, 3, 3)
    expected = onnx_result("Conv", data, weight, pads=[1] * 4)
    assert_same(
        compiled([x, offset, w], result)(data, np.zeros((2, 36, 6, 7), "float32"), weight), expected, 1e-4, 1e-5
    )


def test_offsets_move_the_points_of_the_window(dim: Any) -> None:
    x, offset, w = (
        var("x", shape=(1, 1, 1, dim(5))),
        var("offset", shape=(1, 2, 1, dim(5))),
        var("w", shape=(1, 1, 1, 1)),
    )
    moved = np.zeros((1, 2, 1, 5), "float32")
    moved[0, 1, 0] = [1, 0.5, 0, -3, 1]
    data = np.array([[[[10, 20, 30, 40, 50]]]], "float32")
    run = compiled([x, offset, w], nn.deformable_conv2d(x, offset, w))
    assert_same(run(data, moved, np.ones((1, 1, 1, 1), "float32")), np.array([[[[20, 25, 30, 10, 0]]]], "float32"))
    if dim(1) != 1:
        with pytest.raises(VMError, match=r"nn.deformable_conv2d: dimension 3 of offset is 5, expected 4"):
            run(data[..., :4], moved, np.ones((1, 1, 1, 1), "float32"))


def deformed(data: np.ndarray, offset: np.ndarray, weight: np.ndarray, groups: int, parts: int) -> np.ndarray:
    """Return the deformable convolution of a padded image of (C, H, W) by its definition, with a 3 x 3 kernel."""
    (channels, height, width), (outputs, inputs, *_) = data.shape, weight.shape

    def pixel(c: int, y: float, x: float) -> float:
        # A pixel past the end is 0; so is all before the first one.
        if not (0 <= y < height and 0 <= x < width):
            return 0.0
        top, left = int(np.floor(y)), int(np.floor(x))
        whole, a, b = np.pad(data[c], ((0, 1), (0, 1))), y - top, x - left
        rows = [whole[r, left] * (1 - b) + whole[r, left + 1] * b for r in (top, top + 1)]
        return rows[0] * (1 - a) + rows[1] * a

    result = np.zeros((outputs, *offset.shape[1:]), "float32")
    for o, y, x in np.ndindex(*result.shape):
        for i, ky, kx in np.ndindex(inputs, 3, 3):
            c = o // (outputs // groups) * inputs + i
            at = (c // (channels // parts) * 9 + ky * 3 + kx) * 2
            place = y - 1 + ky + offset[at, y, x], x - 1 + kx + offset[at + 1, y, x]
            result[o, y, x] += weight[o, i, ky, kx] * pixel(c, *place)
    return result


def test_groups_of_channels_and_of_offsets_in_both_layouts(dim: Any) -> None:
    data, offset, weight = numbers(1, 4, 5, 6), numbers(1, 72, 5, 6), numbers(6, 2, 3, 3)
    expected = deformed(data[0], offset[0], weight, 2, 4)[None]
    x, d, w = var("x", shape=(dim(1), 4, dim(5), dim(6))), var("d", shape=(dim(1), 72, 5, dim(6))), var("w")
    y, e, v = var("y", shape=(1, dim(5), 6, 4)), var("e", shape=(1, 5, 6, dim(72))), var("v", shape=(3, 3, dim(2), 6))
    options: dict[str, Any] = {"padding": 1, "groups": 2, "deformable_groups": 4, "channels": 6, "kernel_size": 3}
    run = compiled(
        [x, d, w, y, e, v],
        nn.deformable_conv2d(x, d, w, **options),
        nn.deformable_conv2d(y, e, v, data_layout="NHWC", kernel_layout="HWIO", **options),
    )
    last = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (data, offset)]
    actual = run(data, offset, weight, *last, np.ascontiguousarray(weight.transpose(2, 3, 1, 0)))
    assert_same(actual, (expected, expected.transpose(0, 2, 3, 1)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("multiplies", [True, False])
def test_correlation_compares_patches_at_displacements(dim: Any, multiplies: bool) -> None:
    x, y = (var(n, shape=(dim(2), dim(3), dim(6), dim(5))) for n in "xy")
    a, b = numbers(2, 3, 6, 5), numbers(2, 3, 6, 5)[::-1].copy()
    # A kernel of one element, displacements of -1, 0 and 1, a border of 1 on all sides.
    padded = np.pad(b, [[0, 0], [0, 0], [1, 1], [1, 1]])
    moved = [padded[:, :, i : i + 6, j : j + 5] for i in range(3) for j in range(3)]
    expected = np.stack([(a * m if multiplies else np.abs(a - m)).mean(1) for m in moved], 1)
    assert_same(compiled([x, y], nn.correlation(x, y, 1, 1, 1, 1, 1, multiplies))(a, b), expected, 1e-4, 1e-5)


def test_type_errors_say_what_does_not_fit() -> None:
    x, offset, w = var("x", shape=(1, 4, 6, 6)), var("offset", shape=(1, 9, 4, 4)), var("w", shape=(5, 4, 3, 3))
    assert type_error([x, offset, w], nn.deformable_conv2d(x, offset, w)) == (
        "offset must have shape (1, 18, 4, 4), not Tensor[(1, 9, 4, 4), float32]"
    )
    assert type_error([x, w], nn.correlation(x, w, 1, 1, 1, 1, 0, True)).startswith(
        "data1 and data2 must have one type"
    )
    assert type_error([x], nn.correlation(x, x, 2, 1, 1, 1, 0, True)) == "kernel_size must be odd and positive, not 2"
    unknown = var("unknown")
    result = nn.deformable_conv2d(x, unknown, w, channels=5, kernel_size=3)
    relay.transform.infer_expr(relay.Function([x, unknown, w], result))
    assert str(unknown.checked_type) == "Tensor[(1, 18, 4, 4), float32]"
