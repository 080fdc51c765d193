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
