"""Kernels over an axis of unknown size have copies for small sizes, and the values of the plain ones at every size."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from vmkit.tophub import rules

n = tirx.Var("n", "int64")
SIZES = (0, 1, 2, 3, 4, 7, 8, 9, 16, 29, 40)
TARGETS = ("llvm", "llvm -mcpu=znver3", "llvm -mcpu=rocketlake")


def dense(block: int) -> tirx.PrimFunc:
    """Return a product with a packed weight, and what follows it."""
    data = te.placeholder((n, 12), name="data")
    weight = te.placeholder((2, 12, block), name="weight")
    k = te.reduce_axis((0, 12), "k")
    total = te.compute(
        (n, 2 * block), lambda i, j: te.sum(data[i, k] * weight[j // block, k, j % block], k), name="total"
    )
    result = te.compute((n, 2 * block), lambda i, j: te.max(total[i, j], tirx.const(0, "float32")), name="result")
    return te.create_prim_func([data, weight, result])


def convolution(block: int) -> tirx.PrimFunc:
    """Return a convolution with stride 2 along an axis of which only the input's size has a name."""
    data = te.placeholder((2, n, 3), name="data")
    weight = te.placeholder((2, 4, 3, block), name="weight")
    w, c = te.reduce_axis((0, 4), "w"), te.reduce_axis((0, 3), "c")
    width = (n - 4) // 2 + 1
    result = te.compute(
        (2, width, 2 * block),
        lambda b, i, j: te.sum(data[b, 2 * i + w, c] * weight[j // block, w, c, j % block], [w, c]),
        name="result",
    )
    return te.create_prim_func([data, weight, result])


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_has_its_values_at_every_size(target: str) -> None:
    block = 16
    run = built(dense(block), target)
    weight = normal(2, 12, block)
    matrix = weight.transpose(1, 0, 2).reshape(12, 2 * block)
    for size in SIZES:
        data = normal(size, 12, seed=1)
        np.testing.assert_allclose(run(data, weight, (size, 2 * block)), np.maximum(data @ matrix, 0), 1e-5, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_a_convolution_has_its_values_at_every_size(target: str) -> None:
    block = 16
    run = built(convolution(block), target)
    weight = normal(2, 4, 3, block)
    matrix = weight.transpose(1, 2, 0, 3).reshape(12, 2 * block)
    for size in SIZES[1:]:
        data = normal(2, 2 * size + 3, 3, seed=1)
        windows = np.stack([data[:, 2 * i : 2 * i + 4].reshape(2, 12) for i in range(size)], 1)
        np.testing.assert_allclose(run(data, weight, (2, size, 2 * block)), windows @ matrix, 1e-5, 1e-5)


@pytest.mark.parametrize("kernel", [dense, convolution])
def test_no_position_is_tested_in_a_tile(kernel: object) -> None:
    text = scheduled(kernel(16), "llvm -mcpu=rocketlake").script()  # type: ignore[operator]
    assert len(re.findall(r"for tile in", text)) == len((16, 8, 4, 2, 1))
    assert "T.where" not in text
    assert len(re.findall(r"\bif\b", text)) == 4


def scheduled(kernel: tirx.PrimFunc, target: str) -> tvm.IRModule:
    from vmkit.target import canonical_target

    return rules.schedule_kernels(tvm.IRModule({"main": kernel}), canonical_target(target).primary)


def built(kernel: tirx.PrimFunc, target: str):  # type: ignore[no-untyped-def]
    """Return a scheduled kernel, built for this machine, as a function of two arrays and the shape of its result."""
    main = tvm.compile(scheduled(kernel, target), "llvm")["main"]

    def run(data: np.ndarray, weight: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        result = tvm.runtime.tensor(np.full(shape, np.nan, "float32"))
        main(tvm.runtime.tensor(data), tvm.runtime.tensor(weight), result)
        return result.numpy()

    return run


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")
