"""Winograd's transforms, and kernels that compute whole tiles and parts of tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm

from tests.kernels.written_kernels import convolved, normal
from vmkit.kernels.winograd import shared_winograd, winograd
from vmkit.kernels.winograd_points import transform_data, transform_result
from vmkit.kernels.winograd_shape import WinogradPlan, WinogradShape
from vmkit.kernels.winograd_weight import PAIRS, WinogradWeight, weight_matrix


def same(value: Any) -> Any:
    return value


@pytest.mark.parametrize(("reach", "size"), [(r, k) for r in PAIRS for k in range(2, r)])
def test_transforms_of_an_axis_give_the_sum_of_products(reach: int, size: int) -> None:
    data, kernel = normal(reach).astype("float64"), normal(size, seed=1).astype("float64")
    products = (weight_matrix(reach, size) @ kernel) * transform_data(data, float, same)
    expected = np.convolve(data, kernel[::-1], "valid")
    actual = transform_result(reach + 1 - size, products, float, same)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("reach", "axes"), [(4, 1), (6, 1), (8, 1), (4, 2), (6, 2)])
def test_rounding_of_transforms_is_within_the_bound_that_is_given_for_them(reach: int, axes: int) -> None:
    channels, tiles, size = 32, 200, 3
    data, kernel = normal(channels, tiles, *[reach] * axes), normal(channels, 1, *[size] * axes, seed=1)
    matrix = weight_matrix(reach, size)
    factors = along(kernel.astype("float64"), axes, lambda k: np.tensordot(matrix, k, 1)).astype("float32")
    products = (factors * along(data, axes, lambda d: transform_data(d, np.float32, same))).sum(0)
    actual = along(products, axes, lambda m: transform_result(reach - 2, m, np.float32, same))
    assert actual.dtype == "float32"
    made = range(reach - 2)
    places = [(i,) for i in range(size)] if axes == 1 else [(i, j) for i in range(size) for j in range(size)]
    windows = [tuple(slice(p, p + len(made)) for p in place) for place in places]
    exact = sum(
        (data[(..., *w)].astype("float64") * kernel[(..., *p)].reshape(channels, 1, *[1] * axes)).sum(0)
        for p, w in zip(places, windows, strict=True)
    )
    error = (actual - exact) / exact.std()
    assert np.sqrt(np.mean(error**2)) < 1e-6
    assert np.abs(error).max() < 2e-5


def along(array: np.ndarray, axes: int, function: Callable[[np.ndarray], Any]) -> np.ndarray:
    """Return an array whose last axes have each been replaced by what a function makes of the elements on it."""
    for axis in range(-axes, 0):
        array = np.stack(list(function(np.moveaxis(array, axis, 0))), axis=axis)
    return array


@pytest.mark.parametrize(
    ("shape", "tile", "block"),
    [
        ((3, 3, 32, 48), (4, 4), 16),
        ((3, 3, 80, 64), (2, 2), 32),
        ((1, 5, 8, 8), (1, 4), 8),
        ((7, 1, 16, 24), (2, 1), 8),
    ],
)
def test_a_weight_is_transformed_and_rounded_once(
    shape: tuple[int, int, int, int], tile: tuple[int, int], block: int
) -> None:
    plan, weight = WinogradWeight(shape, tile, block), normal(*shape)
    made = np.full(plan.made, np.nan, "float32")
    plan.transform(weight, made)
    down, across = (weight_matrix(reach, k) for reach, k in zip(plan.reach, shape[:2], strict=True))
    exact = np.einsum("yh,xw,hwio->yxio", down, across, weight.astype("float64"))
    blocks = exact.reshape(-1, shape[2], shape[3] // block, block).transpose(2, 0, 1, 3)
    np.testing.assert_allclose(made, blocks, rtol=1e-7, atol=1e-12)
    assert plan.is_possible


@pytest.mark.parametrize(
    ("shape", "tile", "block"),
    [
        ((3, 3, 8, 12), (4, 4), 8),  # half a block
        ((3, 3, 8, 8), (3, 4), 8),  # no points for a reach of 5
        ((1, 3, 8, 8), (4, 4), 8),  # tiles on an axis without a kernel
        ((3, 3, 8, 8), (0, 4), 8),
        ((0, 3, 8, 8), (4, 4), 8),
        ((3, 3, 8, -8), (4, 4), -8),
    ],
)
def test_what_cannot_be_transformed(shape: tuple[int, int, int, int], tile: tuple[int, int], block: int) -> None:
    assert not WinogradWeight(shape, tile, block).is_possible


@pytest.mark.sweep
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("kernel", "tile", "size", "padding", "plan"),
    [
        ((3, 3), (2, 2), (1, 7, 9), (1, 1, 1, 1), WinogradPlan(3, 6)),
        ((3, 3), (2, 2), (2, 4, 4), (0, 0, 0, 0), WinogradPlan(2, 2, is_parallel_over_tiles=False)),
        ((3, 3), (4, 4), (1, 9, 6), (1, 1, 1, 1), WinogradPlan(5, 5)),
        ((3, 3), (4, 4), (3, 5, 11), (2, 0, 0, 1), WinogradPlan(4, 8, is_parallel_over_tiles=False)),
        ((3, 3), (4, 4), (1, 1, 2), (1, 1, 1, 1), WinogradPlan(2, 4)),
        ((1, 3), (1, 6), (2, 1, 17), (0, 1, 0, 1), WinogradPlan(3, 3)),
        ((1, 5), (1, 4), (1, 3, 11), (0, 2, 0, 2), WinogradPlan(2, 4, is_parallel_over_tiles=False)),
        ((7, 1), (2, 1), (1, 9, 4), (3, 0, 3, 0), WinogradPlan(3, 6)),
        ((5, 5), (2, 2), (1, 7, 8), (2, 2, 2, 2), WinogradPlan(2, 4)),
        ((2, 2), (5, 5), (1, 11, 6), (1, 0, 0, 1), WinogradPlan(2, 2)),
        ((2, 3), (3, 2), (1, 6, 9), (0, 1, 1, 1), WinogradPlan(3, 3)),
    ],
)
def test_a_kernel_computes_whole_tiles_and_parts_of_tiles(
    kernel: tuple[int, int],
    tile: tuple[int, int],
    size: tuple[int, int, int],
    padding: tuple[int, int, int, int],
    plan: WinogradPlan,
    is_known: bool,
) -> None:
    lanes, inner, outer = 8, 16, 24
    sizes = size if is_known else (None, None, None)
    shape = WinogradShape(kernel, tile, *sizes, inner, outer, padding, lanes, lanes, True, False, 0.0, None)
    function = winograd(shape, plan).with_attr("global_symbol", "main")
    data, weight, bias = normal(*size, inner), normal(*kernel, inner, outer, seed=1) / 8, normal(outer, seed=2)
    packed = WinogradWeight((*kernel, inner, outer), tile, lanes)
    blocks = np.empty(packed.made, "float32")
    packed.transform(weight, blocks)
    expected = np.maximum(convolved(data, weight, padding) + bias, 0)
    result = tvm.runtime.tensor(np.full(expected.shape, np.nan, "float32"))
    inputs = [tvm.runtime.tensor(np.ascontiguousarray(each)) for each in (data, blocks, bias)]
    tvm.compile(tvm.IRModule({"main": function}), tvm.target.Target("llvm"))["main"](*inputs, result)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=2e-5)


def test_a_shared_kernel_computes_what_is_of_its_kind() -> None:
    lanes, tile, padding = 8, (4, 4), (1, 0, 1, 2)
    kind = WinogradShape((3, 3), tile, 1, 9, 9, 16, 24, padding, lanes, lanes, True, True, -0.5, 0.75)
    other = replace(kind, batch=2, height=5, inner=32, outer=8)
    assert kind.without_sizes() == other.without_sizes() != replace(kind, padding=(1, 1, 1, 1)).without_sizes()
    function = shared_winograd(kind.without_sizes(), WinogradPlan(3, 6)).with_attr("global_symbol", "main")
    main = tvm.compile(tvm.IRModule({"main": function}), tvm.target.Target("llvm"))["main"]
    for size, inner, outer in (((1, 9, 9), 16, 24), ((2, 5, 12), 32, 8), ((1, 1, 1), 8, 8), ((3, 11, 4), 8, 40)):
        data, weight, bias = normal(*size, inner), normal(3, 3, inner, outer, seed=1) / 8, normal(outer, seed=2)
        packed = WinogradWeight((3, 3, inner, outer), tile, lanes)
        blocks = np.empty(packed.made, "float32")
        packed.transform(weight, blocks)
        sums = convolved(data, weight, padding) + bias
        residual = normal(*sums.shape, seed=3)
        result = tvm.runtime.tensor(np.full(sums.shape, np.nan, "float32"))
        inputs = [tvm.runtime.tensor(np.ascontiguousarray(each)) for each in (data, blocks, bias, residual)]
        main(*inputs, result)
        np.testing.assert_allclose(result.numpy(), np.clip(sums + residual, -0.5, 0.75), rtol=1e-4, atol=2e-5)
