"""Kernels over an axis of unknown size have versions for small sizes, and the right values at every size."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import te, tirx

import vmkit
from tests.schedule.cpu.kernels import called, doubled, loops_of
from vmkit import relay
from vmkit.compiler.stages import fused_kernels
from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import packed
from vmkit.schedule.cpu.versions import by_size, fewer_rows, for_fewer_rows, for_one_row
from vmkit.target import canonical_target

n = tirx.Var("n", "int64")
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 29, 40, 100)
TARGETS = ("llvm", "llvm -mcpu=znver3", "llvm -mcpu=rocketlake")


def dense(block: int, inner: int = 12) -> tirx.PrimFunc:
    """Return a product with a packed weight, and what follows it."""
    data = te.placeholder((n, inner), name="data")
    weight = te.placeholder((2, inner, block), name="weight")
    k = te.reduce_axis((0, inner), "k")
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


# A small weight, and one that is prefetched from memory.
@pytest.mark.parametrize(("block", "inner"), [(16, 12), (32, 1030)])
@pytest.mark.parametrize("target", TARGETS)
def test_a_product_has_its_values_at_every_size(target: str, block: int, inner: int) -> None:
    run = built(dense(block, inner), target)
    weight = normal(2, inner, block)
    matrix = weight.transpose(1, 0, 2).reshape(inner, 2 * block)
    for size in SIZES:
        data = normal(size, inner, seed=1)
        np.testing.assert_allclose(run(data, weight, (size, 2 * block)), np.maximum(data @ matrix, 0), 1e-4, 1e-4)


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


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["native", "llvm"])
@pytest.mark.parametrize(("channels", "groups"), [(32, 1), (38, 1), (40, 4), (32, 32)])
def test_a_layer_has_its_values_at_every_width(channels: int, groups: int, target: str) -> None:
    """Of blocks that are whole, blocks that are filled up, and windows along all channels."""
    inputs = max(groups, 4)
    weight, rng = normal(2, 3, inputs // groups, channels), np.random.default_rng(2)
    x = relay.var("x", shape=(1, 3, n, inputs))
    layer = relay.nn.conv2d(
        x, relay.const(weight), data_layout="NHWC", kernel_layout="HWIO", padding=(0, 1), groups=groups
    )
    function = relay.Function([x], relay.nn.relu(relay.add(layer, relay.const(normal(channels)))))
    machine = vmkit.VirtualMachine(vmkit.compile(function, target=target))
    with vmkit.PassContext(opt_level=0):
        plain = vmkit.VirtualMachine(vmkit.compile(function, target="llvm"))
    for size in SIZES[1:]:
        data = rng.standard_normal((1, 3, size, inputs)).astype("float32")
        np.testing.assert_allclose(machine.run(data).numpy(), plain.run(data).numpy(), 1e-4, 1e-5)


def test_what_all_versions_begin_with_stands_before_them_once() -> None:
    x, weight = relay.var("x", shape=(1, 5, n, 4)), relay.const(normal(3, 3, 4, 32))
    layer = relay.nn.conv2d(x, weight, data_layout="NHWC", kernel_layout="HWIO", padding=(1, 1))
    target = canonical_target("llvm -mcpu=rocketlake").primary
    mod = rules.schedule_kernels(fused_kernels(relay.Function([x], layer), target), target)
    text = next(f.script() for g, f in mod.functions.items() if "conv2d" in g.name_hint)
    assert len(re.findall(r"if .* >= T.int64\(\d+\):", text)) == 4
    assert text.count('T.sblock("pad_temp")') == 1
    assert text.index('T.sblock("pad_temp")') < text.index(">= T.int64")


def test_a_version_for_a_few_positions_has_no_loop_over_tiles_that_reach_over_no_edge() -> None:
    x = relay.var("x", shape=(1, 5, n, 8))
    pool = relay.nn.max_pool2d(x, (3, 3), (1, 2), padding=(1, 1, 0, 0), layout="NHWC")
    target = canonical_target("llvm -mcpu=rocketlake").primary
    mod = rules.schedule_kernels(fused_kernels(relay.Function([x], pool), target), target)
    text = next(f.script() for g, f in mod.functions.items() if "pool" in g.name_hint)
    versions = re.split(r"if .* >= T.int64\((?=\d+\):)", text)[1:]
    assert [(version[0], version.count('_update")')) for version in versions] == [("4", 2), ("1", 1)]


def test_windows_with_nothing_in_common_have_one_version() -> None:
    def versions(channels: int) -> int:
        x = relay.var("x", shape=(n, 5, 5, channels))
        pool = relay.nn.global_avg_pool2d(x, layout="NHWC")
        target = canonical_target("llvm -mcpu=rocketlake").primary
        mod = rules.schedule_kernels(fused_kernels(relay.Function([x], pool), target), target)
        text = next(f.script() for g, f in mod.functions.items() if "pool" in g.name_hint)
        return max(1, len(re.findall(r"if .* >= T.int64\(\d+\):", text)))

    assert versions(24) == versions(64) == 1
    assert versions(8) == 2  # a single vector


@pytest.mark.parametrize("channels", [8, 24, 64])
def test_windows_have_their_values_at_every_number_of_batches_and_positions(channels: int) -> None:
    x = relay.var("x", shape=(n, 4, tirx.Var("m", "int64"), channels))
    pools = [
        relay.nn.global_avg_pool2d(x, layout="NHWC"),
        relay.nn.max_pool2d(x, (2, 1), (2, 1), layout="NHWC"),
        relay.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1), layout="NHWC"),
    ]
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.Tuple(pools))))
    for batches, width in [(1, 1), (1, 2), (2, 3), (3, 7), (9, 1), (4, 18)]:
        data = normal(batches, 4, width, channels)
        padded = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
        expected = [
            data.mean((1, 2), keepdims=True),
            np.maximum(data[:, ::2], data[:, 1::2]),
            windows.max((-2, -1)),
        ]
        for found, value in zip(machine.run(data), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), value, 1e-5, 1e-6)


@pytest.mark.parametrize(("kernel", "most"), [(dense, 8), (convolution, 16)])
def test_no_position_is_tested_in_a_tile(kernel: Callable[[int], tirx.PrimFunc], most: int) -> None:
    text = scheduled(kernel(16), "llvm -mcpu=rocketlake").script()
    assert [int(least) for least in re.findall(r"if .* >= T.int64\((\d+)\):", text)] == [most, 4, 2, 1]
    assert len(re.findall(r"\bif\b", text)) == 4
    assert "T.where" not in text


def test_the_decisions_given_are_those_of_the_largest_version() -> None:
    target = canonical_target("llvm -mcpu=rocketlake").primary
    plain = rules.prepared(convolution(16))
    assert plain is not None
    given = packed.Decisions(rows=6, unrolled=3, weight_first=False, parallel=False)
    versions = packed.versions(plain, target, given)
    assert versions is not None
    assert versions[1] == [(6, given), *((rows, replace(given, rows=rows)) for rows in (4, 2, 1))]
    assert "T.unroll(T.int64(6))" in rules.scheduled(plain, packed.RULE, target, given).script()


def scheduled(kernel: tirx.PrimFunc, target: str) -> tvm.IRModule:
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


@pytest.mark.parametrize(("rows", "fewer"), [(8, [4, 2, 1]), (4, [2, 1]), (3, [2, 1]), (1, [])])
def test_there_are_versions_for_fewer_rows_than_a_tile_has(rows: int, fewer: list[int]) -> None:
    assert fewer_rows(rows) == fewer
    sch = doubled(n)
    decisions = packed.Decisions(rows, 1, True, False)
    found = for_fewer_rows(sch, loops_of(sch)[0], decisions)
    if rows == 1:
        assert found is None
        return
    assert found is not None
    size, versions = found
    assert str(size) == "n" and versions == [(r, replace(decisions, rows=r)) for r in (rows, *fewer)]


def test_fewer_rows_may_go_one_by_one_with_decisions_of_their_own() -> None:
    sch = doubled(n)
    decisions, alone = packed.Decisions(6, 1, True, False), packed.Decisions(1, 2, True, False)
    found = for_one_row(sch, loops_of(sch)[0], decisions, alone)
    assert found is not None
    size, versions = found
    assert str(size) == "n" and versions == [(6, decisions), (1, alone)]


def test_a_known_size_has_one_version() -> None:
    sch, decisions = doubled(7), packed.Decisions(4, 1, True, False)
    assert for_fewer_rows(sch, loops_of(sch)[0], decisions) is None
    assert for_one_row(sch, loops_of(sch)[0], decisions, replace(decisions, rows=1)) is None


def test_the_first_version_whose_least_size_there_is_runs() -> None:
    def plus(value: int) -> tirx.PrimFunc:
        x = te.placeholder((n,), name="x")
        return te.create_prim_func([x, te.compute((n,), lambda i: x[i] + value, name="sum")])

    function = by_size(plus(0), n, [(5, plus(5)), (2, plus(2))])
    for size, added in ((7, 5), (5, 5), (4, 2), (2, 2)):
        x = np.arange(size, dtype="float32")
        assert called(function, [x], (size,)).tolist() == (x + added).tolist()
    assert np.isnan(called(function, [np.zeros(1, "float32")], (1,))).all()


def test_three_vectors_of_channels_are_three_and_not_one() -> None:
    x = relay.var("x", shape=(n, 5, 5, 24))
    pool = relay.nn.global_avg_pool2d(x, layout="NHWC")
    target = canonical_target("llvm -mcpu=znver3").primary
    mod = rules.schedule_kernels(fused_kernels(relay.Function([x], pool), target), target)
    text = next(f.script() for g, f in mod.functions.items() if "pool" in g.name_hint)
    assert "T.unroll(T.int64(3))" in text or "T.unroll(3)" in text
    assert "T.vectorized(T.int64(8))" in text and "T.vectorized(T.int64(24))" not in text
