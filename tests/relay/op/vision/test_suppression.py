"""Valid counts and non-maximum suppression follow their definition, with known and unknown sizes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.relay.op.vision.box_reference import best_first, boxes, overlap
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import var, vision

Any_ = relay.Any


def detections(batch: int, count: int, seed: int = 0) -> np.ndarray:
    """Return boxes of three classes, -1 among them, with scores in steps (so that some are equal), 0 among them."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(-1, 3, (batch, count, 1)).astype("float32")
    scores = (rng.integers(-1, 8, (batch, count, 1)) / 8).astype("float32")
    return np.concatenate([classes, scores, boxes(rng, batch, count)], 2)


def valid_counts(data: np.ndarray, threshold: float, id_index: int = 0, score_index: int = 1) -> tuple[Any, ...]:
    counts, moved = np.zeros(len(data), "int32"), np.full_like(data, -1)
    indices = np.full(data.shape[:2], -1, "int32")
    for i, image in enumerate(data):
        valid = [j for j, b in enumerate(image) if b[score_index] > threshold and (id_index < 0 or b[id_index] >= 0)]
        counts[i] = len(valid)
        moved[i, : len(valid)], indices[i, : len(valid)] = image[valid], valid
    return counts, moved, indices


def test_valid_boxes_are_moved_to_the_front(dim: Any) -> None:
    x = var("x", shape=(dim(2), dim(9), dim(6)))
    threshold = var("threshold", shape=())
    run = compiled(
        [x, threshold],
        vision.get_valid_counts(x, 0.25).astuple(),
        vision.get_valid_counts(x, threshold, id_index=-1, score_index=2).astuple(),
    )
    sizes = [(2, 9)] if dim(1) == 1 else [(2, 9), (1, 1), (0, 3), (3, 0)]
    for batch, count in sizes:
        data = detections(batch, count)
        data[:, 1::5, 1] = np.nan
        assert_same(run(data, np.float32(0.6)), (valid_counts(data, 0.25), valid_counts(data, np.float32(0.6), -1, 2)))


def suppressed(
    data: np.ndarray,
    valid: np.ndarray,
    limit: int,
    iou: float,
    force: bool = False,
    top_k: int = -1,
    id_index: int = 0,
) -> tuple[np.ndarray, list[list[int]]]:
    """Return the boxes with the dropped ones -1, and the position of each row, or -1."""
    result, rows = np.full_like(data, -1), []
    for image, made, total in zip(data, result, np.clip(valid, 0, data.shape[1]), strict=True):
        order = best_first(image[:total, 1])[: top_k if top_k > 0 else None] if iou > 0 else list(range(total))
        kept: list[int] = []
        picked = [-1] * len(image)
        for row, j in enumerate(order):
            if iou > 0:
                if len(kept) == limit:
                    continue
                if image[j, 1] > 0:
                    rivals = [k for k in kept if id_index < 0 or image[k, id_index] >= 0]
                    rivals = [k for k in rivals if force or id_index < 0 or image[k, id_index] == image[j, id_index]]
                    if any(overlap(image[j, 2:6], image[k, 2:6]) >= np.float32(iou) for k in rivals):
                        continue
                    kept.append(j)
            made[row], picked[row] = image[j], j
        rows.append(picked)
    return result, rows


def picked_indices(rows: list[list[int]], indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    left = [[i[k] for k in row if k >= 0] for row, i in zip(rows, indices, strict=True)]
    result = np.full(indices.shape, -1, "int32")
    for made, row in zip(result, left, strict=True):
        made[: len(row)] = row
    return result, np.array([len(row) for row in left], "int32").reshape(-1, 1)


def valid_first(data: np.ndarray) -> np.ndarray:
    result = np.full_like(data, -1)
    for made, image in zip(result, data, strict=True):
        left = image[image[:, 0] >= 0]
        made[: len(left)] = left
    return result


def test_suppression_keeps_the_best_of_overlapping_boxes(dim: Any) -> None:
    x, valid = var("x", shape=(dim(2), dim(12), 6)), var("valid", shape=(dim(2),), dtype="int32")
    indices = var("indices", shape=(dim(2), dim(12)), dtype="int32")
    limit, iou = var("limit", shape=(), dtype="int32"), var("iou", shape=())
    ways = list(product((False, True), (-1, 5), (0, -1)))
    calls = []
    for force, top_k, id_index in ways:
        options = {"force_suppress": force, "top_k": top_k, "id_index": id_index}
        plain = vision.non_max_suppression(x, valid, indices, limit, iou, return_indices=False, **options)
        calls += [plain, vision.non_max_suppression(x, valid, indices, limit, iou, **options).astuple()]
    bottom = {"return_indices": False, "invalid_to_bottom": True}
    calls.append(vision.non_max_suppression(x, valid, indices, 3, 0.4, **bottom))
    run = compiled([x, valid, indices, limit, iou], *calls)
    data, rng = detections(2, 12), np.random.default_rng(1)
    places = np.stack([rng.permutation(12) for _ in range(2)]).astype("int32")
    for counts, most, threshold in (
        ((12, 7), -1, 0.3),
        ((12, 1), 3, 0.3),
        ((12, 12), 0, 0.5),
        ((0, 12), 99, 0.1),
        ((99, -5), 2, 0.0),
    ):
        given = np.array(counts, "int32")
        *actual, last = run(data, given, places, np.int32(most), np.float32(threshold))
        for way, plain, picked in zip(ways, actual[::2], actual[1::2], strict=True):
            expected, rows = suppressed(data, given, most, threshold, *way)
            assert_same(plain, expected)
            assert_same(picked, picked_indices(rows, places))
        assert_same(last, valid_first(suppressed(data, given, 3, 0.4)[0]))


def test_suppression_takes_no_boxes_no_images_and_scores_that_are_no_numbers() -> None:
    x, valid = var("x", shape=(Any_(), Any_(), 6)), var("valid", shape=(Any_(),), dtype="int64")
    indices = var("indices", shape=(Any_(), Any_()), dtype="int64")
    picked = vision.non_max_suppression(x, valid, indices, 4, 0.3).astuple()
    run = compiled([x, valid, indices], picked, vision.non_max_suppression(x, valid, indices, return_indices=False))
    for batch, count in ((0, 4), (2, 0), (1, 9)):
        data, total = detections(batch, count), np.full(batch, count)
        data[:, ::3, 1], data[:, 1::4, 3] = np.nan, np.nan
        places = np.broadcast_to(np.arange(count), (batch, count))
        (_, rows), (plain, _) = suppressed(data, total, 4, 0.3), suppressed(data, total, -1, 0.5)
        assert_same(run(data, total, places), (picked_indices(rows, places), plain))
    with pytest.raises(VMError, match="vision.non_max_suppression: 3 valid counts for a batch of 2"):
        run(detections(2, 5), np.zeros(3, "int64"), np.zeros((2, 5), "int64"))
    with pytest.raises(VMError, match="indices must have an element for each of 5 boxes, not 4"):
        run(detections(2, 5), np.zeros(2, "int64"), np.zeros((2, 4), "int64"))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_boxes_may_be_of_other_widths_and_lie_elsewhere_in_the_row(dtype: str) -> None:
    x, valid = var("x", shape=(2, 12, 8), dtype=dtype), var("valid", shape=(2,), dtype="int32")
    options = {"coord_start": 1, "score_index": 6, "id_index": 7, "return_indices": False}
    counts, moved, _ = vision.get_valid_counts(x, 0.2, id_index=7, score_index=6)
    run = compiled([x, valid], vision.non_max_suppression(x, valid, valid, -1, 0.375, **options), counts, moved)
    data, given = detections(2, 12).astype(dtype), np.array([12, 9], "int32")
    places = [0, 6, 1, 2, 3, 4]
    wide = np.full((2, 12, 8), 7, dtype)
    wide[..., [7, *places[1:]]] = data
    plain, total, front = run(wide, given)
    expected = suppressed(data.astype("float32"), given, -1, 0.375)[0]
    assert_same(plain[..., [7, *places[1:]]], expected.astype(dtype))
    assert_same((total, front), valid_counts(wide, 0.2, 7, 6)[:2])


def test_builders_give_what_unpacks() -> None:
    x, valid = var("x", shape=(2, 5, 6)), var("valid", shape=(2,), dtype="int32")
    assert len(vision.get_valid_counts(x, 0.5)) == 3
    assert len(vision.non_max_suppression(x, valid, var("i", shape=(2, 5), dtype="int32"))) == 2
    assert relay.op.vision.non_max_suppression(x, valid, valid, return_indices=False).attrs.top_k == -1


def test_type_errors_name_what_does_not_fit() -> None:
    x, valid = var("x", shape=(2, 5, 6)), var("valid", shape=(2,), dtype="int32")
    whole = var("whole", shape=(2, 5, 6), dtype="int32")
    plain = {"return_indices": False}
    for call, message in (
        (vision.get_valid_counts(x, 0.5, score_index=6), "score_index is 6, but a box has only 6 numbers"),
        (vision.get_valid_counts(whole, 0.5), "data must be floats, not Tensor[(2, 5, 6), int32]"),
        (
            vision.non_max_suppression(x, valid, valid, coord_start=3, **plain),
            "coord_start is 3, but a box has only 6 numbers",
        ),
        (vision.non_max_suppression(x, valid, valid, score_index=-1, **plain), "score_index must not be negative"),
        (
            vision.non_max_suppression(x, valid, valid),
            "indices must have shape (2, 5), an element for each box, not Tensor[(2), int32]",
        ),
        (
            vision.non_max_suppression(x, var("v", shape=(3,), dtype="int32"), valid, **plain),
            "the batches of valid_count and data differ: 3 and 2",
        ),
        (
            vision.non_max_suppression(x, valid, valid, relay.const(0.5, "float32"), **plain),
            "max_output_size must be integers",
        ),
    ):
        expression = call.astuple() if isinstance(call, relay.TupleWrapper) else call
        assert message in type_error(relay.free_vars(expression), expression)
