"""Suppression of every class by itself follows its definition, with known and unknown sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.vision.box_reference import best_first, boxes, overlap
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import var, vision
from vmkit.relay.transform import infer_expr

Any_ = relay.Any


def scored(batch: int, classes: int, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return boxes and scores of which some are equal, some not positive, and one is no number."""
    rng = np.random.default_rng(seed)
    scores = (rng.integers(-10, 9, (batch, classes, count)) / 8).astype("float32")
    scores[:, ::2, 1::6] = np.nan
    return boxes(rng, batch, count), scores


def left_of_class(corners: np.ndarray, scores: np.ndarray, most: int, iou: float, least: float) -> list[int]:
    """Return the boxes that are left of one class, best first."""
    left: list[int] = []
    for j in best_first(scores) if iou > 0 else []:
        if not scores[j] > max(least, -1.0) or (most > 0 and len(left) == most):
            continue
        if scores[j] > 0 and any(overlap(corners[j], corners[k]) >= np.float32(iou) for k in left):
            continue
        left.append(j)
    return left


def onnx(corners: np.ndarray, scores: np.ndarray, *limits: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = [
        (b, c, j) for b, c in np.ndindex(*scores.shape[:2]) for j in left_of_class(corners[b], scores[b, c], *limits)
    ]
    result = np.full((scores.size, 3), -1, "int64")
    result[: len(rows)] = np.array(rows, "int64").reshape(-1, 3)
    return result, np.array([len(rows)])


def tensorflow(corners: np.ndarray, scores: np.ndarray, *limits: Any) -> tuple[np.ndarray, ...]:
    batch, classes, count = scores.shape
    indices, values = np.zeros((batch, classes * count, 2), "int64"), np.zeros((batch, classes * count), "float32")
    totals = np.zeros(batch, "int64")
    for b in range(batch):
        rows = [(c, j) for c in range(classes) for j in left_of_class(corners[b], scores[b, c], *limits)]
        totals[b] = len(rows)
        for i, (c, j) in enumerate(rows):
            indices[b, i], values[b, i] = (c, j), scores[b, c, j]
    return indices, values, totals


def test_every_class_is_suppressed_by_itself(dim: Any) -> None:
    x, s = var("x", shape=(dim(2), dim(12), 4)), var("s", shape=(dim(2), dim(3), dim(12)))
    most, iou, least = var("most", shape=(1,), dtype="int64"), var("iou", shape=()), var("least", shape=(1,))
    call = vision.all_class_non_max_suppression
    run = compiled(
        [x, s, most, iou, least],
        call(x, s, most, iou, least).astuple(),
        call(x, s, most, iou, least, "tensorflow").astuple(),
        call(x, s, 2, 0.4, 0.25).astuple(),
        call(x, s).astuple(),
    )
    sizes = [(2, 3, 12)] if dim(1) == 1 else [(2, 3, 12), (0, 3, 4), (2, 0, 4), (2, 3, 0), (1, 1, 1)]
    for size in sizes:
        data = scored(*size)
        for limits in ((-1, 0.3, 0.25), (2, 0.3, -5.0), (0, 0.5, 0.0), (99, 1.0, -1.0), (3, 0.0, 0.0)):
            dtypes = zip(("int64", "float32", "float32"), ([limits[0]], limits[1], [limits[2]]), strict=True)
            actual = run(*data, *[np.array(value, dtype) for dtype, value in dtypes])
            assert_same(actual[0], onnx(*data, *limits))
            assert_same(actual[1], tensorflow(*data, *limits))
            assert_same(actual[2], onnx(*data, 2, 0.4, 0.25))
            assert_same(actual[3], onnx(*data, -1, -1.0, -1.0))


def test_the_number_of_rows_is_known_where_that_of_images_and_boxes_is() -> None:
    s = var("s", shape=(2, 3, 5))
    known = vision.all_class_non_max_suppression(var("x", shape=(2, 5, 4)), s)
    assert len(known) == 2
    assert len(vision.all_class_non_max_suppression(var("x", shape=(2, 5, 4)), s, output_format="tensorflow")) == 3
    unknown = vision.all_class_non_max_suppression(var("x", shape=(2, Any_(), 4)), s)
    for call, rows in ((known, "30"), (unknown, "?")):
        assert str(infer_expr(call.astuple()).fields[0]) == f"Tensor[({rows}, 3), int64]"


def regular(
    corners: np.ndarray, scores: np.ndarray, per_class: int, most: int, classes: int, iou: float, least: float
) -> tuple[np.ndarray, ...]:
    batch = len(corners)
    found, values = np.zeros((batch, most, 4), "float32"), np.zeros((batch, most), "float32")
    names, counts = np.zeros((batch, most), "float32"), np.zeros(batch, "int32")
    for b in range(batch):
        rows: list[tuple[Any, ...]] = []
        for c in range(classes):
            of_class = scores[b, :, c + scores.shape[2] - classes]
            left: list[int] = []
            for j in best_first(of_class):
                if of_class[j] >= np.float32(least) and len(left) < per_class:
                    if all(upright_overlap(corners[b, j], corners[b, k]) <= np.float32(iou) for k in left):
                        left.append(j)
            rows += [(of_class[j], c, j) for j in left]
        rows = sorted(rows, key=lambda row: -row[0])[:most]
        counts[b] = len(rows)
        for i, (score, c, j) in enumerate(rows):
            found[b, i], names[b, i], values[b, i] = corners[b, j], c, score
    return found, names, values, counts


def upright_overlap(a: np.ndarray, b: np.ndarray) -> Any:
    """A box whose corners are swapped overlaps nothing."""
    upright = all((x[2] - x[0]) * (x[3] - x[1]) > 0 for x in (a, b))
    return overlap(a, b) if upright else 0.0


def test_the_best_detections_of_all_classes_are_left(dim: Any) -> None:
    x, s = var("x", shape=(dim(2), dim(12), 4)), var("s", shape=(dim(2), dim(12), dim(4)))
    ways = [(3, 5, 3, 0.3, 0.1), (99, 40, 4, 0.5, 0.25), (2, 1, 2, 0.0, -9.0), (0, 4, 3, 0.3, 0.1), (4, 0, 3, 0.3, 0.1)]
    run = compiled([x, s], *[vision.regular_non_max_suppression(x, s, *way).astuple() for way in ways])
    sizes = [(2, 12, 4)] if dim(1) == 1 else [(2, 12, 4), (0, 3, 4), (2, 0, 4), (1, 1, 5)]
    for batch, count, classes in sizes:
        _, scores = scored(batch, classes, count)
        corners = boxes(np.random.default_rng(0), batch, count, upright=True)
        corners[:, 1::4, 3] = corners[:, 1::4, 1] - 0.2
        data = corners, np.ascontiguousarray(scores.transpose(0, 2, 1))
        for way, actual in zip(ways, run(*data), strict=True):
            assert_same(actual, regular(*data, *way))


def test_sizes_that_differ_are_refused_before_or_when_run() -> None:
    x, s = var("x", shape=(Any_(), Any_(), Any_())), var("s", shape=(Any_(), Any_(), Any_()))
    every = compiled([x, s], vision.all_class_non_max_suppression(x, s).astuple())
    best = compiled([x, s], vision.regular_non_max_suppression(x, s, 3, 5, 3, 0.3, 0.1).astuple())
    corners, scores = scored(2, 3, 5)
    with pytest.raises(VMError, match="there are scores of 4 boxes and 5 boxes"):
        every(corners, scores[:, :, :4].copy())
    with pytest.raises(VMError, match="the batches differ: 1 of scores and 2 of boxes"):
        every(corners, scores[:1].copy())
    with pytest.raises(VMError, match="a box has 4 numbers, not 3"):
        every(corners[:, :, :3].copy(), scores)
    with pytest.raises(VMError, match="num_classes is 3, there are fewer scores"):
        best(corners, scores[:, :2].transpose(0, 2, 1).copy())
    x, s = var("x", shape=(2, 5, 4)), var("s", shape=(2, 3, 6))
    for call, message in (
        (vision.all_class_non_max_suppression(x, s), "the numbers of boxes of scores and boxes differ: 6 and 5"),
        (
            vision.all_class_non_max_suppression(x, s, output_format="torch"),
            "output_format must be onnx or tensorflow, not 'torch'",
        ),
        (
            vision.regular_non_max_suppression(x, var("s", shape=(2, 5, 2)), 3, 5, 3, 0.3, 0.1),
            "num_classes is 3, but there are scores of 2 classes",
        ),
        (
            vision.regular_non_max_suppression(x, s, 3, -5, 3, 0.3, 0.1),
            "max_detections must not be negative, it is -5",
        ),
    ):
        assert type_error(relay.free_vars(call.astuple()), call.astuple()) == message
