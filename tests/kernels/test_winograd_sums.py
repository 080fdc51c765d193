"""The sum itself in kernels of Winograd's convolution, which find it to be faster for few results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

from tests.kernels.written_kernels import convolved, normal
from vmkit.kernels.builder import integer
from vmkit.kernels.winograd import shared_winograd
from vmkit.kernels.winograd_plan import Machine, costs_of, plan_winograd
from vmkit.kernels.winograd_shape import WinogradCosts, WinogradPlan, WinogradShape
from vmkit.kernels.winograd_sums import are_few
from vmkit.kernels.winograd_weight import PLAIN_TILE, WinogradWeight

MACHINE = Machine(lanes=16, registers=32)
ALWAYS = WinogradCosts(1, 1, 1, 1, 0, 0, 8)
NEVER = WinogradCosts(0, 0, 0, 0, 1, 1, 8)


def shape_of(inner: int, outer: int) -> WinogradShape:
    """Return a convolution over images of unknown size, without tiles."""
    return WinogradShape((3, 3), (1, 1), 1, None, None, inner, outer, (1, 1, 1, 1), 32, 16)


@pytest.mark.parametrize(
    ("kernel", "tile", "padding", "costs"),
    [
        ((3, 3), (4, 4), (1, 0, 1, 2), ALWAYS),
        ((3, 3), (2, 2), (0, 0, 0, 0), replace(ALWAYS, sum_rows=5)),
        ((1, 5), (1, 4), (0, 2, 0, 2), ALWAYS),
        ((3, 3), (4, 4), (1, 0, 1, 2), NEVER),
    ],
)
def test_a_kernel_computes_the_same_either_way(
    kernel: tuple[int, int], tile: tuple[int, int], padding: tuple[int, int, int, int], costs: WinogradCosts
) -> None:
    lanes = 8
    kind = WinogradShape(kernel, tile, None, None, None, 0, 0, padding, lanes, lanes, True, True, -0.5, 0.75)
    function = shared_winograd(kind, WinogradPlan(3, 6, few=costs)).with_attr("global_symbol", "main")
    main = tvm.compile(tvm.IRModule({"main": function}), tvm.target.Target("llvm"))["main"]
    for size, inner, outer in (((1, 3, 4), 16, 24), ((2, 5, 12), 8, 8), ((3, 11, 6), 8, 40)):
        data, weight, bias = normal(*size, inner), normal(*kernel, inner, outer, seed=1) / 8, normal(outer, seed=2)
        packed = [WinogradWeight((*kernel, inner, outer), each, lanes) for each in (tile, PLAIN_TILE)]
        blocks = [np.full(each.made, np.nan, "float32") for each in packed]
        for each, made in zip(packed, blocks, strict=True):
            each.transform(weight, made)
        if costs is not NEVER:
            blocks[0][...] = np.nan  # what is not to be read
        else:
            blocks[1][...] = np.nan
        sums = convolved(data, weight, padding) + bias
        residual = normal(*sums.shape, seed=3)
        result = tvm.runtime.tensor(np.full(sums.shape, np.nan, "float32"))
        inputs = [tvm.runtime.tensor(np.ascontiguousarray(each)) for each in (data, *blocks, bias, residual)]
        main(*inputs, result)
        np.testing.assert_allclose(result.numpy(), np.clip(sums + residual, -0.5, 0.75), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("channels", "few", "many"),
    [(64, (4, 6), (28, 28)), (128, (4, 6), (28, 28)), (256, (4, 6), (20, 20)), (512, (5, 4), (10, 10))],
)
def test_few_results_are_sums_and_many_are_tiles(channels: int, few: tuple[int, int], many: tuple[int, int]) -> None:
    planned = plan_winograd(shape_of(channels, channels), MACHINE)
    assert planned is not None
    shape, plan = planned
    costs = costs_of(shape, plan, MACHINE)
    chosen = [
        are_few(shape, costs, plan.rows, integer(-(-down // shape.tile[0]) * -(-across // shape.tile[1])), integer(n))
        for (down, across), n in ((size, size[0] * size[1]) for size in (few, many))
    ]
    assert [bool(int(each)) for each in chosen] == [True, False]
