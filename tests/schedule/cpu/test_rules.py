"""Schedule rules keep values, and apply to the kernels that they are for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx, topi

from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import (
    column_reduction,
    concatenation,
    contraction,
    dense,
    dot,
    elementwise,
    full_reduction,
    leading_reduction,
    line_window,
    packed,
    peeled_window,
    piecewise,
    product,
    row_reduction,
    short_rows,
    transpose,
    window,
)
from vmkit.schedule.expressions import known
from vmkit.schedule.inlining import inline_cheap_blocks

TARGET = tvm.target.Target("llvm")
WIDE = tvm.target.Target({"kind": "llvm", "mcpu": "znver3", "num-cores": 2})  # decided for, not built for
n = tirx.Var("n", "int64")


def conv(stride: int, pad: int) -> Callable[..., te.Tensor]:
    return lambda x, w: topi.nn.relu(topi.nn.conv2d_nchw(x, w, stride, pad, 1))


def packed_dense(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    blocks, size, lanes = (int(d) for d in w.shape)
    k = te.reduce_axis((0, size), name="k")
    made = te.compute(
        (*x.shape[:-1], blocks * lanes),
        lambda *i: te.sum(x[(*i[:-1], k)] * w[i[-1] // lanes, k, i[-1] % lanes], axis=k),
    )
    return topi.nn.relu(made)


def packed_conv(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    blocks, width, size, lanes = (int(d) for d in w.shape)
    i, k = te.reduce_axis((0, width), name="i"), te.reduce_axis((0, size), name="k")
    made = te.compute(
        (x.shape[0], x.shape[1] - (width - 1), blocks * lanes),
        lambda b, at, o: te.sum(x[b, at + i, k] * w[o // lanes, i, k, o % lanes], axis=[i, k]),
    )
    return topi.nn.relu(made)


def largest(x: te.Tensor) -> te.Tensor:
    lowest = tirx.const(-np.inf, "float32")
    pick = te.comm_reducer(lambda a, b: tirx.Max(a, b), lambda dtype: lowest)
    k = te.reduce_axis((0, x.shape[1]), name="k")
    # The first row has nothing but what it starts from.
    return te.compute((x.shape[0],), lambda i: pick(tirx.Select(i == 0, lowest, x[i, k]), axis=k))


KERNELS = {
    "conv 3x3": (conv(1, 1), [(n, 8, 14, 14), (12, 8, 3, 3)], contraction),
    "largest of windows, odd width": (
        lambda x: topi.nn.pool2d(x, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), "max"),
        [(n, 16, 17, 19)],
        line_window,
    ),
    "conv 1x1, odd width": (conv(1, 0), [(2, 5, 7, 13), (6, 5, 1, 1)], contraction),
    "conv 7x7, stride 2": (conv(2, 3), [(1, 3, 32, 32), (8, 3, 7, 7)], contraction),
    "matmul": (lambda a, b: topi.matmul(a, b), [(n, 24), (24, 48)], product),
    "average pool": (lambda x: topi.nn.pool2d(x, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), "avg"), [(n, 4, 9, 9)], None),
    "max pool": (
        lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max"),
        [(n, 4, 32, 32)],
        line_window,
    ),
    "max pool of windows that are apart": (
        lambda x: topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max"),
        [(2, 4, 32, 32)],
        elementwise,
    ),
    "max pool of windows that are apart, short lines": (
        lambda x: topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max"),
        [(2, 4, 14, 15)],
        line_window,
    ),
    "average pool, stride 2": (
        lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 0, 1, 1), "avg", count_include_pad=False),
        [(n, 4, 31, 29)],
        line_window,
    ),
    "average pool, stride 3": (
        lambda x: topi.nn.pool2d(x, (2, 4), (1, 3), (1, 2), (0, 3, 1, 3), "avg"),
        [(n, 4, 9, 23)],
        line_window,
    ),
    "average pool along lines only, stride 2": (
        lambda x: topi.nn.pool1d(x, (3,), (2,), (1,), (1, 1), "avg"),
        [(n, 4, 41)],
        line_window,
    ),
    "average pool of long windows, stride 4": (
        lambda x: topi.nn.pool2d(x, (7, 40), (2, 4), (1, 1), (3, 0, 3, 0), "avg"),
        [(n, 2, 12, 97)],
        line_window,
    ),
    "max pool of volumes": (
        lambda x: topi.nn.pool3d(x, (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1, 0, 1, 1), "max", layout="NCDHW"),
        [(n, 2, 7, 9, 18)],
        line_window,
    ),
    "max pool, channels last": (
        lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max", layout="NHWC"),
        [(n, 14, 23, 24)],
        peeled_window,
    ),
    "max pool, channels last, without padding": (
        lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (0, 0, 0, 0), "max", layout="NHWC"),
        [(n, 13, 23, 64)],
        window,
    ),
    "average pool of windows that are apart, channels last": (
        lambda x: topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "avg", layout="NHWC"),
        [(n, 12, 6, 48)],
        window,
    ),
    "maxima of all pixels as a window": (
        lambda x: topi.nn.pool2d(x, (5, 7), (1, 1), (1, 1), (0, 0, 0, 0), "max", layout="NHWC"),
        [(n, 5, 7, 64)],
        leading_reduction,
    ),
    "maxima of columns as windows": (
        lambda x: topi.nn.pool2d(x, (5, 1), (1, 1), (1, 1), (0, 0, 0, 0), "max", layout="NHWC"),
        [(n, 5, 7, 64)],
        leading_reduction,
    ),
    "global average": (lambda x: topi.nn.global_pool(x, "avg", layout="NHWC"), [(n, 7, 7, 40)], leading_reduction),
    "global average in parts": (
        lambda x: topi.nn.global_pool(x, "avg", layout="NHWC"),
        [(n, 7, 7, 512)],
        leading_reduction,
    ),
    "sums of columns": (lambda x: topi.sum(x, axis=1), [(n, 13, 100)], leading_reduction),
    "sums of rows and images": (lambda x: topi.sum(x, axis=[0, 1]), [(3, 12, 70)], leading_reduction),
    "sums of any number of rows": (lambda x: topi.sum(x, axis=1), [(2, n, 48)], leading_reduction),
    "sums of images of any height": (lambda x: topi.sum(x, axis=[1, 2]), [(2, n, 7, 48)], leading_reduction),
    "maxima of channels": (lambda x: topi.max(x, axis=1), [(n, 6, 28, 28)], leading_reduction),
    "lines of several parts": (lambda x: topi.sum(x, axis=0), [(8, 72, 60)], leading_reduction),
    "sums of squares, with a root": (
        lambda x: topi.sqrt(topi.sum(x * x, axis=[1, 2], keepdims=True)),
        [(n, 5, 7, 48)],
        leading_reduction,
    ),
    "depthwise": (
        lambda x, w: topi.nn.relu(topi.nn.depthwise_conv2d_nhwc(x, w, (1, 1), (1, 1), (1, 1))),
        [(n, 28, 19, 32), (3, 3, 32, 1)],
        window,
    ),
    "depthwise, stride 2": (
        lambda x, w: topi.nn.relu(topi.nn.depthwise_conv2d_nhwc(x, w, (2, 2), (1, 1), (1, 1))),
        [(n, 28, 19, 32), (3, 3, 32, 1)],
        peeled_window,
    ),
    "depthwise over rows of unknown length": (
        lambda x, w: topi.nn.relu(topi.nn.depthwise_conv2d_nhwc(x, w, (1, 1), (1, 1), (1, 1))),
        [(1, 12, n, 16), (3, 3, 16, 1)],
        peeled_window,
    ),
    "column sums": (lambda x: topi.sum(x, axis=1), [(n, 70, 48)], leading_reduction),
    "dense, packed": (packed_dense, [(n, 21, 24), (3, 24, 16)], dense),
    "dense, packed, one axis": (packed_dense, [(n, 24), (3, 24, 16)], dense),
    "dense, packed, from memory": (packed_dense, [(n, 260), (20, 260, 16)], dense),
    "packed": (packed_conv, [(n, 23, 24), (3, 2, 24, 16)], packed),
    "packed, rows of unknown length": (packed_conv, [(2, n, 24), (3, 1, 24, 16)], packed),
    "dense": (lambda x, w: topi.nn.relu(topi.nn.dense(x, w)), [(n, 64), (20, 64)], product),
    "dense of odd length": (lambda x, w: topi.nn.dense(x, w), [(n, 7), (3, 7)], elementwise),
    "row sums": (lambda x: topi.sum(x, axis=-1), [(n, 128)], dot),
    "row sums of odd length": (lambda x: topi.sum(x, axis=-1), [(n, 6, 37)], dot),
    "sums of short rows": (lambda x: topi.sum(x, axis=-1), [(n, 37, 10)], short_rows),
    "row sums of any length": (lambda x: topi.sum(x * x, axis=-1), [(6, n)], dot),
    "largest of images": (lambda x: topi.max(x, axis=[1, 2]), [(n, 9, 23)], dot),
    "means of axes apart": (lambda x: topi.sum(x, axis=[0, 2]) / 33.0, [(11, n, 45)], dot),
    "long rows of odd length": (lambda x: topi.sum(x, axis=-1), [(n, 701)], dot),
    "sum of all of odd sizes": (lambda x: topi.sum(x), [(n, 13, 5)], full_reduction),
    "sum of all": (lambda x: topi.sum(x), [(n, 3)], elementwise),
    "sum of all, whole vectors": (lambda x: topi.sum(x), [(n, 48)], full_reduction),
    "mean square": (lambda x: topi.sqrt(topi.sum(x * x) / 9.0), [(31, n, 80)], full_reduction),
    "largest of all": (lambda x: topi.max(x, axis=None), [(131, 9, 128)], full_reduction),
    "sum of an axis": (lambda x: topi.sum(x), [(n,)], full_reduction),
    "sum of few": (lambda x: topi.sum(x), [(31,)], elementwise),
    "mean square of a long axis": (lambda x: topi.sqrt(topi.sum(x * x) / 9.0), [(8192,)], full_reduction),
    "largest of an axis": (lambda x: topi.max(x, axis=None), [(101,)], full_reduction),
    "largest of a long axis": (lambda x: topi.max(x, axis=None), [(20_011,)], full_reduction),
    "softmax": (lambda x: topi.nn.softmax(x), [(n, 50)], row_reduction),
    "softmax of few": (lambda x: topi.nn.softmax(x), [(n, 1)], elementwise),
    "softmax of three": (lambda x: topi.nn.softmax(x), [(n, 3)], row_reduction),
    "softmax in steps": (lambda x: topi.nn.fast_softmax(x), [(7, n)], row_reduction),
    "softmax of odd length in steps": (lambda x: topi.nn.fast_softmax(x), [(n, 37)], row_reduction),
    "largest of rows": (largest, [(n, 48)], dot),
    "softmax of rows of unknown length": (lambda x: topi.nn.softmax(x), [(37, n)], row_reduction),
    "softmax, shared": (lambda x: topi.nn.softmax(x), [(n, 300, 117)], row_reduction),
    "normal over two axes": (
        lambda x, a, b: topi.nn.layer_norm(x, a, b, [1, 2], 1e-5),
        [(n, 9, 21), (9, 21), (9, 21)],
        row_reduction,
    ),
    "softmax of whole vectors": (lambda x: topi.nn.softmax(x), [(n, 2, 48)], row_reduction),
    "softmax of long rows": (lambda x: topi.nn.softmax(x), [(n, 768)], row_reduction),
    "softmax of columns": (lambda x: topi.nn.softmax(x, 1), [(n, 9, 50)], column_reduction),
    "softmax of as many columns": (lambda x: topi.nn.softmax(x, 0), [(96, 96)], column_reduction),
    "softmax of any columns": (lambda x: topi.nn.softmax(x, 1), [(2, 5, n)], column_reduction),
    "softmax of any length of columns": (lambda x: topi.nn.softmax(x, 0), [(n, 7, 32)], column_reduction),
    "softmax of one column": (lambda x: topi.nn.softmax(x, 1), [(n, 9, 1)], elementwise),
    "normal over the axes before": (
        lambda x, a, b: topi.nn.layer_norm(x, a, b, [0, 1], 1e-5),
        [(n, 9, 21), (n, 9), (n, 9)],
        column_reduction,
    ),
    "normal over axes apart": (
        lambda x, a, b: topi.nn.layer_norm(x, a, b, [0, 2], 1e-5),
        [(12, n, 12), (12, 12), (12, 12)],
        elementwise,
    ),
    "layer norm": (lambda x, a, b: layer_norm(x, a, b), [(n, 5, 32), (32,), (32,)], row_reduction),
    "chain": (lambda x: topi.tanh(topi.nn.relu(topi.add(x, x))), [(n, 33)], elementwise),
    "transpose": (lambda x: topi.transpose(x, (1, 0)), [(n, 300)], transpose),
    "transpose of odd sizes": (lambda x: topi.transpose(x, (1, 0)), [(131, 129)], transpose),
    "transpose of many elements": (lambda x: topi.transpose(x, (1, 0)), [(701, 403)], transpose),
    "transpose and add": (
        lambda x, y: topi.add(topi.nn.relu(topi.transpose(x, (0, 2, 1))), y),
        [(n, 19, 70), (n, 70, 19)],
        transpose,
    ),
    "to channels last": (lambda x: topi.transpose(x, (0, 2, 3, 1)), [(n, 24, 9, 56)], transpose),
    "to channels first": (lambda x: topi.transpose(x, (0, 3, 1, 2)), [(2, n, 9, 24)], transpose),
    "to channels last, few channels": (lambda x: topi.transpose(x, (0, 2, 3, 1)), [(n, 3, 9, 56)], elementwise),
    "transpose of heads": (lambda x: topi.transpose(x, (0, 2, 1, 3)), [(1, n, 9, 24)], elementwise),
    "joined channels": (
        lambda x, y: topi.nn.relu(topi.concatenate([topi.add(x, x), y], -1)),
        [(2, n, 9, 24), (2, n, 9, 40)],
        concatenation,
    ),
    "joined channels, many": (lambda x, y: topi.concatenate([x, y], -1), [(n, 5, 1040), (n, 5, 16)], concatenation),
    "joined channels, odd": (lambda x, y: topi.concatenate([x, y], -1), [(n, 9, 24), (n, 9, 7)], concatenation),
    "interleaved": (lambda x: interleaved(x, 2, 0), [(n, 6, 5, 96)], piecewise),
    "interleaved and cropped": (lambda x: interleaved(x, 3, 2), [(n, 3, 4, 72)], piecewise),
    "interleaved, few channels": (lambda x: interleaved(x, 2, 1), [(n, 5, 4, 12)], elementwise),
    "interleaved, channels first": (
        lambda x: topi.transpose(interleaved(x, 2, 1), (0, 3, 1, 2)),
        [(n, 6, 11, 96)],
        transpose,
    ),
    "interleaved and joined": (
        lambda x, y: topi.concatenate([topi.nn.relu(interleaved(x, 2, 0)), y], -1),
        [(n, 3, 5, 64), (n, 6, 10, 8)],
        piecewise,
    ),
    "joined lines": (
        lambda *xs: topi.nn.relu(topi.concatenate(xs, -1)),
        [(n, 5, 8), (n, 5, 3), (n, 5, 16)],
        concatenation,
    ),
    "joined lines, many": (
        lambda bias, *xs: topi.nn.relu(topi.add(topi.concatenate(xs, -1), bias)),
        [(72,), *[(n, 5, 8)] * 9],
        concatenation,
    ),
    "joined lines, shared": (lambda *xs: topi.concatenate(xs, 2), [(n, 9, 1200), (n, 9, 800)], concatenation),
    "joined with nothing": (lambda *xs: topi.concatenate(xs, -1), [(2, 5, 8), (2, 5, 0)], concatenation),
    "joined along another axis": (lambda *xs: topi.concatenate(xs, 1), [(n, 5, 8), (n, 3, 8)], concatenation),
    "joined channels of small images": (
        lambda x, *xs: topi.concatenate([topi.nn.relu(x), *xs], 1),
        [(n, 12, 7, 7), (n, 5, 7, 7), (n, 1, 7, 7)],
        concatenation,
    ),
    "joined along another axis, long lines": (
        lambda *xs: topi.concatenate(xs, 1),
        [(n, 5, 8, 8), (n, 3, 8, 8)],
        elementwise,
    ),
    "short rows": (lambda x, y: topi.add(topi.exp(x), y), [(n, 9, 7, 5), (9, 1, 1)], elementwise),
    "short rows, in parts": (lambda x: topi.exp(x), [(n, 64, 7, 16)], elementwise),
    "short rows of odd number": (lambda x: topi.exp(x), [(3, 77, 77)], elementwise),
    "scalar": (lambda x: topi.exp(x), [()], elementwise),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_scheduled_kernel_keeps_its_values(name: str) -> None:
    function, shapes, _ = KERNELS[name]
    plain = kernel(function, shapes)
    whole = function(*placeholders(shapes)).shape
    scheduled = rules.schedule_kernels(plain, TARGET)
    assert scheduled["main"].attrs["tirx.is_scheduled"]
    for batch in (1, 3):
        np.testing.assert_allclose(
            run(scheduled, shapes, whole, batch), run(plain, shapes, whole, batch), rtol=2e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", [k for k, (_, _, rule) in KERNELS.items() if rule is not None])
def test_the_rule_that_applies_is_the_one_for_the_kernel(name: str) -> None:
    function, shapes, expected = KERNELS[name]
    schedule = s_tir.Schedule(kernel(function, shapes))
    inline_cheap_blocks(schedule)
    first = next(rule for rule in rules.RULES if rule.decide(schedule, TARGET) is not None)
    assert first is expected.RULE


@pytest.mark.parametrize(("channels", "part"), [(256, 256), (512, 256), (1024, 1024), (2048, 2048)])
def test_lines_that_would_be_unrolled_are_summed_in_parts(channels: int, part: int) -> None:
    """Beyond some hundred vectors LLVM leaves them in a loop by itself."""
    plain = kernel(lambda x: topi.nn.global_pool(x, "avg", layout="NHWC"), [(1, 7, 7, channels)])
    schedule = rules.prepared(plain["main"])
    assert schedule is not None
    decided = leading_reduction.RULE.decide(schedule, WIDE)
    assert decided is not None
    assert decided.part == part


@pytest.mark.sweep(each=4)
@pytest.mark.parametrize("name", KERNELS)
def test_every_decision_that_may_be_tried_keeps_the_values(name: str) -> None:
    function, shapes, _ = KERNELS[name]
    plain = kernel(function, shapes)
    whole = function(*placeholders(shapes)).shape
    schedule = rules.prepared(plain["main"])
    assert schedule is not None
    rule = next(rule for rule in rules.RULES if rule.decide(schedule, WIDE) is not None)
    tried = spread(list(rule.candidates(schedule, WIDE)))
    variants = {}
    for at, decisions in enumerate(tried):
        assert rule.from_json(json.loads(json.dumps(rule.to_json(decisions)))) == decisions
        variants[f"try{at}"] = rules.scheduled(schedule, rule, WIDE, decisions).with_attr("global_symbol", f"try{at}")
    built = tvm.compile(tvm.IRModule(variants), TARGET)
    for batch in (1, 3):
        expected = run(plain, shapes, whole, batch)
        for at, decisions in enumerate(tried):
            result = call(built[f"try{at}"], shapes, whole, batch)
            np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6, err_msg=str(decisions))


@pytest.mark.parametrize(
    "name",
    [
        "softmax of rows of unknown length",
        "transpose",
        "to channels first",
        "softmax in steps",
        "row sums of any length",
        "means of axes apart",
    ],
)
def test_an_unknown_axis_of_several_tiles_keeps_its_values(name: str) -> None:
    function, shapes, _ = KERNELS[name]
    plain = kernel(function, shapes)
    whole = function(*placeholders(shapes)).shape
    built, expected = (tvm.compile(mod, TARGET)["main"] for mod in (rules.schedule_kernels(plain, WIDE), plain))
    for size in (7, 8, 45, 64):
        np.testing.assert_allclose(
            call(built, shapes, whole, size), call(expected, shapes, whole, size), rtol=2e-5, atol=1e-6
        )


def spread(candidates: list[Any], count: int = 6) -> list[Any]:
    """Return the first of some candidates and a few of the others, evenly."""
    return candidates[:1] + candidates[1 :: max(1, len(candidates) // count)]


def test_records_of_other_fields_or_types_are_no_decisions() -> None:
    good = dot.Decisions(8, 2, True)
    assert dot.RULE.from_json({"lanes": 8, "outputs": 2, "parallel": True}) == good
    for bad in (
        {"lanes": 8},
        {"lanes": 8, "outputs": 2, "parallel": 1},
        {"lanes": 8, "outputs": "2", "parallel": True},
    ):
        assert dot.RULE.from_json(bad) is None


def test_records_from_before_a_decision_was_there_are_decisions() -> None:
    old = {"rows": 8, "blocks": 1, "unrolled": 4, "lines": 0, "ahead": False, "chunk": 0, "parallel": True}
    assert dense.RULE.from_json(old) == dense.Decisions(8, 1, 4, 0, False, 0, True, widened=False)
    assert dense.RULE.from_json({**old, "widened": 1}) is None


def test_rows_of_elements_that_lie_together_are_one_loop() -> None:
    def inner(function: Callable[..., te.Tensor], *shapes: Sequence[object]) -> list[int | None]:
        schedule = rules.prepared(kernel(function, shapes)["main"])
        assert schedule is not None
        elementwise.RULE.apply(schedule, TARGET, elementwise.Decisions(1 << 40))
        (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
        return [known(schedule.get(loop).extent) for loop in schedule.get_loops(block)]

    assert inner(topi.exp, (n, 64, 7, 7)) == [None, 3136]
    assert inner(topi.exp, (4, 64, 7, 7)) == [4, 3136]
    assert inner(topi.exp, (512, 7, 7)) == [8, 3136]
    assert inner(topi.exp, (3, 77, 77)) == [3, 77, 77]
    assert inner(topi.add, (2, 8, 6, 5), (8, 1, 1)) == [2, 8, 30]
    assert inner(topi.add, (2, 8, 6, 5), (5,)) == [2, 8, 6, 5]
    assert inner(lambda x: topi.transpose(x, (0, 2, 1)), (4, 3, 5)) == [4, 5, 3]
    assert inner(topi.exp, (4, 0, 5)) == [4, 0, 5]


def test_a_stage_is_inlined_only_where_that_repeats_no_work() -> None:
    def steps(x: te.Tensor) -> te.Tensor:
        same = te.compute(x.shape, lambda i: te.exp(x[i]), name="same")
        rows = te.compute(x.shape, lambda i: same[i] * 2, name="rows")
        return te.compute((5, *x.shape), lambda j, i: rows[i] + j, name="spread")

    schedule = s_tir.Schedule(kernel(steps, [(n,)]))
    inline_cheap_blocks(schedule)
    names = [schedule.get(b).name_hint for b in schedule.get_child_blocks(schedule.get_sblock("root"))]
    assert names == ["rows", "spread"]


def interleaved(x: te.Tensor, stride: int, crop: int) -> te.Tensor:
    """Return channels (row, column, channel) of blocks put side by side, without the first rows and columns."""
    batch, height, width, channels = x.shape
    made = int(channels) // stride**2

    def element(i: Any, y: Any, x_: Any, c: Any) -> Any:
        row, column = y + crop, x_ + crop
        channel = (row % stride * stride + column % stride) * made + c
        return x(i, row // stride, column // stride, channel)

    return te.compute((batch, height * stride - crop, width * stride - crop, made), element)


def layer_norm(x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
    return topi.nn.layer_norm(x, gamma, beta, [2], 1e-5)


def kernel(function: Callable[..., te.Tensor], shapes: Sequence[Sequence[object]]) -> tvm.IRModule:
    inputs = placeholders(shapes)
    return tvm.IRModule({"main": te.create_prim_func([*inputs, function(*inputs)])})


def placeholders(shapes: Sequence[Sequence[object]]) -> list[te.Tensor]:
    return [te.placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]


def run(mod: tvm.IRModule, shapes: Sequence[Sequence[object]], whole: Sequence[tirx.Expr], batch: int) -> np.ndarray:
    return call(tvm.compile(mod, TARGET)["main"], shapes, whole, batch)


def call(
    built: Callable[..., None], shapes: Sequence[Sequence[object]], whole: Sequence[tirx.Expr], batch: int
) -> np.ndarray:
    rng = np.random.default_rng(0)
    sizes = [[batch if d is n else d for d in shape] for shape in shapes]
    inputs = [tvm.runtime.tensor(rng.standard_normal(s).astype("float32")) for s in sizes]
    shape = [int(d) if isinstance(d, tirx.IntImm) else batch for d in whole]
    result = tvm.runtime.tensor(np.zeros(shape, "float32"))
    built(*inputs, result)
    return result.numpy()
