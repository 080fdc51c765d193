"""Prior boxes, the boxes predicted from them, and YOLO's reorganisation follow their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import var, vision

Any_ = relay.Any


def priors(
    x: np.ndarray,
    sizes: Any = (1.0,),
    ratios: Any = (1.0,),
    steps: Any = (-1.0, -1.0),
    offsets: Any = (0.5, 0.5),
    clip: bool = False,
) -> np.ndarray:
    height, width = x.shape[2:]
    made = []
    for i, j in np.ndindex(height, width):
        center = [
            (place + offset) * (step if step > 0 else 1 / size)
            for place, offset, step, size in zip((i, j), offsets, steps, (height, width), strict=True)
        ]
        for size, ratio in [(s, 1.0) for s in sizes] + [(sizes[0], r) for r in ratios[1:]]:
            w, h = size * height / width * np.sqrt(ratio) / 2, size / np.sqrt(ratio) / 2
            made.append([center[1] - w, center[0] - h, center[1] + w, center[0] + h])
    result = np.array(made, "float32").reshape(1, -1, 4).astype(x.dtype)
    return result.clip(0, 1) if clip else result


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_pixel_has_its_prior_boxes(dim: Any, dtype: str) -> None:
    x = var("x", shape=(dim(2), 3, dim(3), dim(5)), dtype=dtype)
    ways: list[Any] = [
        (),
        ((0.3, 1.5, 0.7), (1.3, 2.4), (2.0, 1.5), (0.2, 0.3), True),
        ((0.5,), (1, 2, 0.5), (-1, 0.25), (0, 1)),
    ]
    table = {str(way): (vision.multibox_prior(x, *way), lambda x, w=way: priors(x, *w)) for way in ways}
    sizes = [(2, 3, 5)] if dim(1) == 1 else [(2, 3, 5), (0, 1, 4), (1, 4, 4)]
    assert_table([x], table, *[(np.zeros((n, 3, h, w), dtype),) for n, h, w in sizes])


def located(
    scores: np.ndarray,
    moves: np.ndarray,
    anchors: np.ndarray,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Any = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    batch, classes, count = scores.shape
    result, counts = np.full((batch, count, 6), -1, scores.dtype), np.zeros(batch, "int32")
    for i, j in np.ndindex(batch, count):
        found, best = 0, -1.0
        for k in range(0 if keep_background else 1, classes):
            if scores[i, k, j] > best:
                found, best = k, scores[i, k, j]
        found = found if best >= np.float32(threshold) else 0
        if not keep_background and found == 0:
            continue
        low, high = anchors[0, j, :2].astype("float64"), anchors[0, j, 2:].astype("float64")
        move = moves[i, 4 * j : 4 * j + 4] * np.array(variances)
        center, reach = move[:2] * (high - low) + (low + high) / 2, np.exp(move[2:]) * (high - low) / 2
        box = np.concatenate([center - reach, center + reach])
        label = found if keep_background else found - 1
        result[i, counts[i]] = [label, best, *(box.clip(0, 1) if clip else box)]
        counts[i] += 1
    return result, counts


def test_predictions_move_the_prior_boxes(dim: Any) -> None:
    s, m = var("s", shape=(dim(2), dim(3), dim(7))), var("m", shape=(dim(2), dim(28)))
    a = var("a", shape=(1, dim(7), 4))
    ways: list[Any] = [(), (False, 0.6), (True, 0.6, (1, 2, 0.5, 0.25), True), (False, 0.0, (0.1,) * 4, True)]
    run = compiled([s, m, a], *[vision.multibox_transform_loc(s, m, a, *way).astuple() for way in ways])
    rng = np.random.default_rng(0)
    for batch, classes, count in [(2, 3, 7)] if dim(1) == 1 else [(2, 3, 7), (0, 3, 2), (2, 1, 3), (1, 4, 0)]:
        scores = rng.uniform(0, 1, (batch, classes, count)).astype("float32")
        scores[:, :, ::3], scores[:, 1:2, 1::3] = 0.001, np.nan
        moves = rng.normal(size=(batch, 4 * count)).astype("float32")
        anchors = rng.uniform(0, 1, (1, count, 4)).astype("float32")
        for way, actual in zip(ways, run(scores, moves, anchors), strict=True):
            assert_same(actual, located(scores, moves, anchors, *way))


def test_predictions_that_do_not_fit_the_prior_boxes_are_refused() -> None:
    s, m, a = var("s", shape=(2, 3, Any_())), var("m", shape=(2, Any_())), var("a", shape=(Any_(), Any_(), 4))
    run = compiled([s, m, a], vision.multibox_transform_loc(s, m, a).astuple())
    scores, moves, anchors = np.zeros((2, 3, 5), "float32"), np.zeros((2, 20), "float32"), np.zeros((1, 5, 4), "float32")
    with pytest.raises(VMError, match="loc_pred holds 19 numbers, the boxes need 20"):
        run(scores, moves[:, 1:].copy(), anchors)
    with pytest.raises(VMError, match="4 prior boxes and scores for 5"):
        run(scores, moves, anchors[:, 1:].copy())
    with pytest.raises(VMError, match="anchor must hold one set of prior boxes, not none"):
        run(scores, moves, anchors[1:].copy())
    m, a = var("m", shape=(2, 20)), var("a", shape=(1, 6, 4))
    s = var("s", shape=(2, 3, 5))
    for call, message in (
        (vision.multibox_transform_loc(s, m, a), "the numbers of boxes of anchor and cls_prob differ: 6 and 5"),
        (
            vision.multibox_transform_loc(s, m, a, variances=(1, 2)),
            "variances must hold 4 numbers, not [1.0, 2.0]",
        ),
    ):
        assert type_error([s, m, a], call.astuple()) == message
    x = var("x", shape=(1, 2, 3, 4))
    assert type_error([x], vision.multibox_prior(x, ())) == "sizes and ratios must each hold a number at least"
    assert type_error([x], vision.multibox_prior(x, steps=(1,))) == (
        "steps must hold two numbers, for y and x, not [1.0]"
    )


def reorganised(x: np.ndarray, stride: int) -> np.ndarray:
    """Blocks of pixels become channels in memory that is read as an image of fewer, larger channels."""
    n, c, h, w = x.shape
    wide = x.reshape(n, c // stride**2, h, stride, w, stride)
    moved = wide.transpose(0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(moved).reshape(n, c * stride**2, h // stride, w // stride)


def test_yolo_lays_blocks_of_pixels_side_by_side(dim: Any) -> None:
    x = var("x", shape=(dim(2), dim(36), dim(6), dim(12)))
    table = {str(k): (vision.yolo_reorg(x, k), lambda x, k=k: reorganised(x, k)) for k in (1, 2, 3)}
    sizes = [(2, 36, 6, 12)] if dim(1) == 1 else [(2, 36, 6, 12), (1, 72, 12, 6), (0, 36, 6, 6)]
    assert_table([x], table, *[(np.random.default_rng(0).normal(size=s).astype("float32"),) for s in sizes])


def test_yolo_refuses_sizes_that_the_stride_does_not_divide() -> None:
    x, y = var("x", shape=(1, Any_(), Any_(), 4)), var("y", shape=(1, 3, 4, 4))
    run = compiled([x], vision.yolo_reorg(x, 2))
    with pytest.raises(VMError, match="the channels of data must be a multiple of 4, for a stride of 2"):
        run(np.zeros((1, 6, 4, 4), "float32"))
    with pytest.raises(VMError, match="the height of data must be a multiple of 2, for a stride of 2"):
        run(np.zeros((1, 4, 3, 4), "float32"))
    assert type_error([y], vision.yolo_reorg(y, 2)) == (
        "the channels of data, 3, must be a multiple of 4, for a stride of 2"
    )
    assert type_error([y], vision.yolo_reorg(y, 0)) == "stride must be positive, not 0"
