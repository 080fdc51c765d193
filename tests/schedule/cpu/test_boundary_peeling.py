"""Windows that stop at the edges give what windows over a padded copy do, whatever reaches over which edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import s_tir, te, tirx, topi

from vmkit.compiler.kernel_pipeline import PIPELINE
from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import packed, peeled_window
from vmkit.schedule.cpu.boundary_peeling import Boundaries
from vmkit.schedule.rule import D, Rule
from vmkit.target import canonical_target
from vmkit.values.host_memory import aligned_empty

TARGET = canonical_target("llvm -mcpu=znver3").primary
CHANNELS = 8
h, w = tirx.Var("h", "int64"), tirx.Var("w", "int64")


@dataclass(frozen=True)
class Window:
    """What a window is: sizes, strides, dilations, and the padding above, left, below and right."""

    size: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)


WINDOWS = {
    "same": Window(),
    "every second": Window(stride=(2, 2)),
    "wide, and far over the edges": Window(size=(5, 7), padding=(2, 3, 2, 3)),
    "dilated": Window(dilation=(2, 3), padding=(2, 3, 2, 3)),
    "over the end only": Window(stride=(2, 2), padding=(0, 0, 1, 1)),
    "over the beginning only": Window(stride=(1, 2), padding=(1, 2, 0, 0)),
    "along a line only": Window(size=(1, 3), padding=(0, 1, 0, 1)),
    "across lines only": Window(size=(3, 1), padding=(1, 0, 1, 0)),
    "nothing but padding at the corners": Window(size=(2, 2), stride=(1, 3), padding=(3, 3, 3, 3)),
}


def sums(window: Window, height: object, width: object) -> tirx.PrimFunc:
    """Return a depthwise convolution over channels-last data."""
    data = te.placeholder((2, height, width, CHANNELS), name="data")
    weight = te.placeholder((*window.size, CHANNELS, 1), name="weight")
    made = topi.nn.depthwise_conv2d_nhwc(data, weight, window.stride, window.padding, window.dilation)
    return te.create_prim_func([data, weight, topi.nn.relu(made)])


def largest(window: Window, height: object, width: object) -> tirx.PrimFunc:
    """Return the largest elements of windows."""
    data = te.placeholder((2, height, width, CHANNELS), name="data")
    made = topi.nn.pool2d(data, window.size, window.stride, window.dilation, window.padding, "max", layout="NHWC")
    return te.create_prim_func([data, made])


def first_layer(window: Window, height: object, width: object) -> tirx.PrimFunc:
    """Return a convolution of three channels with a packed weight."""
    data = te.placeholder((2, height, width, 3), name="data")
    weight = te.placeholder((2, *window.size, 3, CHANNELS), name="weight")
    padded = topi.nn.pad(data, [0, *window.padding[:2], 0], [0, *window.padding[2:], 0])
    (down, right), (along, across) = window.stride, window.dilation
    y, x, c = (te.reduce_axis((0, size), name) for size, name in zip((*window.size, 3), "yxc", strict=True))
    made = te.compute(
        (2, *out_size(window, height, width), 2 * CHANNELS),
        lambda b, i, j, o: te.sum(
            padded[b, i * down + y * along, j * right + x * across, c] * weight[o // CHANNELS, y, x, c, o % CHANNELS],
            [y, x, c],
        ),
    )
    return te.create_prim_func([data, weight, topi.nn.relu(made)])


def out_size(window: Window, height: object, width: object) -> list[object]:
    top, left, bottom, right = window.padding
    have = zip((height, width), (top + bottom, left + right), window.size, window.dilation, window.stride, strict=True)
    return [(size + more - (steps - 1) * dilation - 1) // stride + 1 for size, more, steps, dilation, stride in have]


KERNELS = {
    "sums": (sums, peeled_window.RULE, [peeled_window.Decisions(CHANNELS, rows, rows != 1, False) for rows in (1, 4)]),
    "largest": (largest, peeled_window.RULE, [peeled_window.Decisions(CHANNELS, 3, False, True)]),
    "first layer": (first_layer, packed.RULE, [packed.Decisions(4, 1, True, False)]),
}

ANY_WIDTH = (peeled_window.RULE, peeled_window.Decisions(CHANNELS, 4, True, False))


@pytest.mark.sweep
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_known_sizes_have_their_values(name: str, kernel: str) -> None:
    function, rule, decisions = KERNELS[kernel]
    for size in (12, 13):
        plain = function(WINDOWS[name], 6, size)
        shapes = [[int(d) for d in param.ty.shape] for param in plain.params]
        made = {f"made{at}": scheduled(plain, rule, each) for at, each in enumerate(decisions)}
        run = built({**made, "plain": plain})
        for each in made:
            np.testing.assert_allclose(call(run[each], shapes), call(run["plain"], shapes), 1e-5, 1e-5)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_sizes_known_at_run_time_have_their_values(name: str) -> None:
    window = WINDOWS[name]
    plain = sums(window, h, w)
    made = scheduled(plain, peeled_window.RULE, peeled_window.Decisions(CHANNELS, 4, True, True))
    run = built({"made": made, "plain": plain})
    for height, width in ((6, 1), (7, 2), (6, 3), (6, 7), (7, 8), (6, 17), (9, 21)):
        out = [2, *map(int, out_size(window, height, width)), CHANNELS]
        shapes = [[2, height, width, CHANNELS], [*window.size, CHANNELS, 1], out]
        if min(out) > 0:
            np.testing.assert_allclose(call(run["made"], shapes), call(run["plain"], shapes), 1e-5, 1e-5)


def bare_sums() -> tirx.PrimFunc:
    """Return a depthwise convolution that nothing is made of."""
    data = te.placeholder((2, h, w, CHANNELS), name="data")
    weight = te.placeholder((3, 3, CHANNELS, 1), name="weight")
    return te.create_prim_func([data, weight, topi.nn.depthwise_conv2d_nhwc(data, weight, 1, 1, 1)])


@pytest.mark.parametrize("is_bare", [False, True])
def test_positions_that_are_not_there_are_not_written(is_bare: bool) -> None:
    run = built({"made": scheduled(bare_sums() if is_bare else sums(Window(), h, w), *ANY_WIDTH)})
    for width in (1, 2, 3):
        written = aligned_empty(3 * 5 * width * CHANNELS * 4).view("float32").reshape(3, 5, width, CHANNELS)
        written[...] = np.nan
        data, weight = np.ones((2, 5, width, CHANNELS), "float32"), np.ones((3, 3, CHANNELS, 1), "float32")
        run["made"](*map(tvm.runtime.tensor, (data, weight)), tvm.runtime.from_dlpack(written[:2]))
        assert not np.isnan(written[:2]).any() and np.isnan(written[2]).all()


@pytest.mark.parametrize(("name", "count"), [("same", 2), ("over the end only", 2), ("over the beginning only", 3)])
def test_narrow_lines_have_no_version_where_tiles_test_for_the_end_of_a_line(name: str, count: int) -> None:
    made = scheduled(sums(WINDOWS[name], h, w), *ANY_WIDTH)
    sums_of_tiles: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(made.body, (s_tir.SBlock, sums_of_tiles.append))
    assert sum(block.name_hint.endswith("update") for block in sums_of_tiles) == count


def test_tiles_between_those_at_the_edges_test_nothing() -> None:
    text = scheduled(
        sums(Window(), 9, 40), peeled_window.RULE, peeled_window.Decisions(CHANNELS, 4, True, False)
    ).script()
    assert text.count("T.if_then_else") == 2  # the first and the last of ten tiles


def test_steps_along_a_line_are_unrolled_where_they_test_nothing() -> None:
    made = scheduled(sums(Window(), h, w), peeled_window.RULE, peeled_window.Decisions(CHANNELS, 4, True, False))
    loops: list[tirx.For] = []
    tvm_ffi.structural_walk(made.body, (tirx.For, loops.append))
    along = [loop for loop in loops if loop.loop_var.name == "dj"]
    tests = {"if_then_else" in str(loop.body): loop.kind == tirx.ForKind.UNROLLED for loop in along}
    assert len(along) == 2 and tests == {True: False, False: True}  # tiles at the edges and between them


@pytest.mark.parametrize("size", [40, w], ids=["known", "at run time"])
def test_sums_of_every_tile_are_in_registers(size: object) -> None:
    """Loops that share a sum, and steps that are counted from a line's place, would have it in memory for all tiles."""
    made = scheduled(sums(Window(), h, size), peeled_window.RULE, peeled_window.Decisions(CHANNELS, 4, True, False))
    kernel = tvm.IRModule({"made": made.with_attr("global_symbol", "made")})
    assert "BackendAllocWorkspace" not in tvm.tirx.build(kernel, TARGET, PIPELINE).inspect_source("ll")


def test_padding_that_adds_something_is_kept() -> None:
    data = te.placeholder((1, 8, 8, CHANNELS), name="data")
    padded = topi.nn.pad(data, [0, 1, 1, 0], [0, 1, 1, 0], pad_value=1.0)
    y, x = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
    made = te.compute((1, 4, 4, CHANNELS), lambda b, i, j, c: te.sum(padded[b, 2 * i + y, 2 * j + x, c], [y, x]))
    schedule = rules.prepared(te.create_prim_func([data, made]))
    assert schedule is not None
    assert peeled_window.RULE.decide(schedule, TARGET) is None


def test_windows_along_vectors_are_kept() -> None:
    """The elements of a vector reach over an edge at different steps."""
    data = te.placeholder((1, h, w, 96), name="data")
    padded = topi.nn.pad(data, [0, 0, 0, 2], [0, 0, 0, 2])
    k = te.reduce_axis((0, 5), "k")
    made = te.compute((1, h, w, 96), lambda b, i, j, c: te.sum(padded[b, i, j, c + k], k))
    schedule = rules.prepared(te.create_prim_func([data, made]))
    assert schedule is not None
    assert peeled_window.RULE.decide(schedule, TARGET) is None


@pytest.mark.parametrize(
    ("boundaries", "rows", "expected"),
    [
        (Boundaries(1, 1, 1, ()), 4, (1, 1)),
        (Boundaries(3, 3, 1, ()), 1, (3, 3)),
        (Boundaries(3, 0, 2, ()), 1, (2, 1)),
        (Boundaries(0, 0, 1, (1,)), 4, (0, 0)),
    ],
)
def test_how_many_tiles_reach_over_an_edge(boundaries: Boundaries, rows: int, expected: tuple[int, int]) -> None:
    assert boundaries.tiles(rows) == expected


def scheduled(function: tirx.PrimFunc, rule: Rule[D], decisions: D) -> tirx.PrimFunc:
    plain = rules.prepared(function)
    assert plain is not None
    return rules.scheduled(plain, rule, TARGET, decisions)


def built(functions: dict[str, tirx.PrimFunc]) -> tvm.runtime.Module:
    named = {name: function.with_attr("global_symbol", name) for name, function in functions.items()}
    return tvm.compile(tvm.IRModule(named), TARGET)


def call(function: tvm.runtime.PackedFunc, shapes: Sequence[Sequence[int]]) -> np.ndarray:
    rng = np.random.default_rng(0)
    *inputs, out = shapes
    result = tvm.runtime.tensor(np.full(out, np.nan, "float32"))
    function(*(tvm.runtime.tensor(rng.standard_normal(s).astype("float32")) for s in inputs), result)
    return result.numpy()
