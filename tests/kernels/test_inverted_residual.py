"""Products of lines around a depthwise convolution, in one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.written_kernels import built, normal
from vmkit.kernels.inverted_residual import DepthwiseShape, InvertedResidualShape, inverted_residual
from vmkit.kernels.packed_gemm_plan import PackedGemmShape

LANES = 8


def packed(weight: np.ndarray, block: int) -> np.ndarray:
    whole = np.pad(weight, ((0, 0), (0, -weight.shape[1] % block)), constant_values=np.nan)  # filled up, and not used
    return np.ascontiguousarray(whole.reshape(weight.shape[0], -1, block).transpose(1, 0, 2))


def convolved(data: np.ndarray, window: np.ndarray, d: DepthwiseShape) -> np.ndarray:
    top, left, bottom, right = d.padding
    padded = np.pad(data.astype("float64"), ((0, 0), (top, bottom), (left, right), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, d.size, axis=(1, 2))[:, :: d.strides[0], :: d.strides[1]]
    return np.einsum("nyxcij,ijc->nyxc", views, window)


# Padding on sides of its own; windows that have nothing in common, and are apart; one column; one position; a line
# that is no whole number of tiles.
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("size", "strides", "padding", "image"),
    [
        ((3, 3), (1, 1), (1, 1, 1, 1), (7, 9)),
        ((3, 3), (2, 2), (0, 1, 2, 0), (8, 11)),
        ((5, 5), (1, 2), (2, 2, 2, 2), (11, 13)),
        ((2, 3), (3, 4), (1, 0, 0, 1), (11, 10)),
        ((3, 1), (1, 1), (2, 0, 0, 0), (5, 1)),
        ((3, 3), (1, 1), (0, 0, 0, 0), (3, 3)),
        ((1, 3), (1, 1), (0, 2, 0, 2), (2, 40)),
    ],
)
@pytest.mark.parametrize(
    ("has_expand", "units", "block", "is_known", "chunks"),
    [(True, 24, 16, True, 1), (True, 12, 16, False, 2), (True, 8, 8, True, 3), (False, 20, 24, True, 1)],
)
def test_a_kernel_computes_all_three_layers(
    size: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    image: tuple[int, int],
    has_expand: bool,
    units: int,
    block: int,
    is_known: bool,
    chunks: int,
) -> None:
    batch, inner, channels = 2, 6 if has_expand else 40, 40
    d = DepthwiseShape(size, strides, padding, True, -0.75, 0.5)
    down, across = d.fitted(*image)
    expand = PackedGemmShape((1, image[1]), inner, channels, 16, LANES, True, False, 0.0, 1.5) if has_expand else None
    project = PackedGemmShape((1, across), channels, units, block, LANES, True, True, -1.0, None, least=LANES // 2)
    shape = InvertedResidualShape(batch if is_known else None, *image, expand, d, project)
    data, residual = normal(batch, *image, inner), normal(batch, down, across, units, seed=1)
    window, last = normal(*size, channels, seed=2), normal(channels, units, seed=3)
    biases = [normal(n, seed=4 + at) for at, n in enumerate((channels, units, channels))]
    before, more = data.astype("float64"), []
    if has_expand:
        first = normal(inner, channels, seed=7)
        before, more = np.clip(before @ first + biases[2], 0, 1.5), [packed(first, 16), biases[2]]
    middle = np.clip(convolved(before, window, d) + biases[0], -0.75, 0.5)
    expected = np.maximum(middle @ last + biases[1] + residual, -1)
    inputs = [data, window, biases[0], packed(last, block), biases[1], *more, residual]
    chunks = max(1, min(chunks, down * strides[0] // size[0]))
    (result,) = built(inverted_residual(shape, 16, chunks))(inputs, [expected.shape])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_what_no_number_is_stays_so() -> None:
    d = DepthwiseShape((3, 3), (1, 1), (1, 1, 1, 1), False, 0.0, 6.0)
    project = PackedGemmShape((1, 5), LANES, LANES, LANES, LANES)
    data = np.ones((1, 5, 5, LANES), "float32")
    data[0, 0, 0, 3] = np.nan
    inputs = [data, np.ones((3, 3, LANES), "float32"), np.eye(LANES, dtype="float32")[None]]
    kernel = inverted_residual(InvertedResidualShape(1, 5, 5, None, d, project), 16)
    (result,) = built(kernel)(inputs, [(1, 5, 5, LANES)])
    is_near = np.zeros((5, 5), bool)
    is_near[:2, :2] = True
    np.testing.assert_array_equal(np.isnan(result[0, :, :, 3]), is_near)
