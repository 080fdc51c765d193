"""Pooling of regions and region proposals follow their definition, with known and unknown sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.vision.box_reference import best_first
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import var, vision

Any_ = relay.Any


def aligned(x: np.ndarray, rois: np.ndarray, size: Any, scale: float, ratio: int, mode: str) -> np.ndarray:
    batch, channels, height, width = x.shape
    result = np.zeros((len(rois), channels, *size), "float32")
    for r, (i, left, top, right, bottom) in enumerate(rois.astype("float64")):
        image = x[int(np.clip(i, 0, batch - 1))]
        begin, extent = np.array([top, left]) * scale, np.array([bottom - top, right - left]) * scale
        step = np.maximum(extent, 1) / size
        count = [ratio] * 2 if ratio > 0 else np.ceil(step).astype(int)
        for at in np.ndindex(*size):
            values = []
            for p in np.ndindex(*count):
                y, x_ = begin + (at + (np.array(p) + 0.5) / count) * step
                inside = -1 <= y <= height and -1 <= x_ <= width
                values.append(sample(image, y, x_) if inside else np.zeros(channels))
            result[(r, slice(None), *at)] = np.mean(values, 0) if mode == "avg" else np.max(values, 0)
    return result


def sample(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """Return the channels of an image at a point between its pixels."""
    y, x = min(max(y, 0), image.shape[1] - 1), min(max(x, 0), image.shape[2] - 1)
    rows, columns = [int(y), min(int(y) + 1, image.shape[1] - 1)], [int(x), min(int(x) + 1, image.shape[2] - 1)]
    part_y, part_x = y - rows[0], x - columns[0]
    four = image[:, rows][:, :, columns]
    return four @ [1 - part_x, part_x] @ [1 - part_y, part_y]


def pooled(x: np.ndarray, rois: np.ndarray, size: Any, scale: float) -> np.ndarray:
    result = np.zeros((len(rois), x.shape[1], *size), "float32")
    for r, roi in enumerate(rois.astype("float64")):
        image = x[int(np.clip(roi[0], 0, len(x) - 1))]
        left, top, right, bottom = (np.sign(roi[1:] * scale) * np.floor(abs(roi[1:] * scale) + 0.5)).astype(int)
        for at in np.ndindex(*size):
            edges = []
            for k, (low, high, limit) in enumerate(((top, bottom, x.shape[2]), (left, right, x.shape[3]))):
                step = max(high - low + 1, 1) / size[k]
                first, stop = np.floor(at[k] * step + 1e-5), np.ceil((at[k] + 1) * step - 1e-5)
                edges.append(slice(*np.clip([first + low, stop + low], 0, limit).astype(int)))
            bin_ = image[(slice(None), *edges)]
            result[(r, slice(None), *at)] = bin_.max((1, 2)) if bin_.size else 0
    return result


def regions(count: int) -> np.ndarray:
    """Return regions of which some lie partly or wholly outside, some have no extent, some no image."""
    rng = np.random.default_rng(1)
    low = rng.integers(-12, 32, (count, 2)) / 2
    corners = np.concatenate([low, low + rng.integers(-4, 40, (count, 2)) / 2], 1)
    return np.concatenate([rng.integers(-1, 4, (count, 1)), corners], 1).astype("float32")


def last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def test_regions_are_pooled_to_one_size(dim: Any) -> None:
    x, r = var("x", shape=(dim(2), dim(3), dim(8), dim(10))), var("r", shape=(dim(9), 5))
    y = var("y", shape=(dim(2), dim(8), dim(10), dim(3)))
    ways = [((2, 3), 0.5, -1, "avg"), ((3, 2), 0.75, 2, "max"), ((1, 1), 1.0, -1, "max")]
    calls = [vision.roi_align(x, r, s, f, k, mode=m) for s, f, k, m in ways]
    calls += [vision.roi_align(y, r, s, f, k, "NHWC", m) for s, f, k, m in ways]
    calls += [vision.roi_pool(x, r, (3, 2), 0.5), vision.roi_pool(y, r, (2, 2), 1.0, "NHWC")]
    run = compiled([x, y, r], *calls)
    sizes = [(2, 3, 8, 10, 9)] if dim(1) == 1 else [(2, 3, 8, 10, 9), (1, 2, 1, 1, 4), (2, 0, 4, 4, 3), (0, 3, 4, 4, 0)]
    for *size, count in sizes:
        data, rois = np.random.default_rng(0).normal(size=size).astype("float32"), regions(count)
        actual = run(data, last(data), rois)
        expected = [aligned(data, rois, *way) for way in ways]
        assert_same(actual[:3], expected, rtol=1e-4, atol=1e-5)
        assert_same(actual[3:6], [last(e) for e in expected], rtol=1e-4, atol=1e-5)
        assert_same(actual[6:], [pooled(data, rois, (3, 2), 0.5), last(pooled(data, rois, (2, 2), 1.0))])


def test_regions_without_end_are_no_trouble() -> None:
    x, r = var("x", shape=(1, 1, 4, 4)), var("r", shape=(Any_(), 5))
    run = compiled([x, r], vision.roi_align(x, r, (2, 2), 1.0), vision.roi_pool(x, r, (2, 2), 1.0))
    huge = np.array([[0, -1e9, -1e9, 1e9, 1e9], [0, np.nan, 0, np.inf, 3], [np.nan, -np.inf, 0, 0, np.inf]], "float32")
    mean, top = run(np.ones((1, 1, 4, 4), "float32"), huge)
    assert np.isfinite(mean).all() and np.isfinite(top).all()
    np.testing.assert_allclose(mean[0], 0, atol=1e-6)


def test_regions_that_do_not_fit_are_refused() -> None:
    x, r = var("x", shape=(Any_(), 2, 4, Any_())), var("r", shape=(Any_(), Any_()))
    run = compiled([x, r], vision.roi_align(x, r, (2, 2), 1.0))
    with pytest.raises(VMError, match=r"vision.roi_align: a region has 5 numbers, not 4"):
        run(np.zeros((1, 2, 4, 4), "float32"), np.zeros((3, 4), "float32"))
    with pytest.raises(VMError, match=r"vision.roi_align: an image without pixels"):
        run(np.zeros((0, 2, 4, 4), "float32"), np.zeros((3, 5), "float32"))
    for call, message in (
        (vision.roi_align(x, r, (2, 2), 1.0, mode="sum"), "mode must be avg or max, not 'sum'"),
        (vision.roi_pool(x, r, (2, 2), 1.0, "NCWH"), "layout must be one of NCHW, NHWC, not 'NCWH'"),
        (vision.roi_pool(x, r, (2,), 1.0), "pooled_size must hold a height and a width, each positive, not [2]"),
    ):
        assert type_error([x, r], call) == message


def proposed(p: np.ndarray, d: np.ndarray, info: np.ndarray, scales: Any, ratios: Any, stride: int, *more: Any) -> Any:
    threshold, before, after, least, by_sides = more
    result = np.zeros((len(p), after, 5))
    for b, (high, wide, zoom) in enumerate(info):
        rows = []
        for y, x in np.ndindex(*p.shape[2:]):
            for k, (ratio, scale) in enumerate((r, s) for r in ratios for s in scales):
                w = np.floor(np.sqrt(np.floor(stride**2 / ratio)) + 0.5) * scale
                size = np.array([w, np.floor(w / scale * ratio + 0.5) * scale])
                center = np.array([x, y]) * stride + 0.5 * (stride - 1)
                move = d[b, 4 * k : 4 * k + 4, y, x].astype("float64")
                low, top = center - 0.5 * (size - 1), center + 0.5 * (size - 1)
                if by_sides:
                    low, top = low + move[:2], top + move[2:]
                else:
                    middle, reach = center + move[:2] * size, 0.5 * (np.exp(move[2:]) * size - 1)
                    low, top = middle - reach, middle + reach
                edge = np.array([wide, high]) - 1
                low, top = np.maximum(np.minimum(low, edge), 0), np.maximum(np.minimum(top, edge), 0)
                score = p[b, len(scales) * len(ratios) + k, y, x]
                score = -1 if y >= int(high / stride) or x >= int(wide / stride) else score
                if (top - low + 1 < zoom * least).any():
                    low, top, score = low - zoom * least / 2, top + zoom * least / 2, -1
                rows.append([*low, *top, score])
        boxes, kept = np.array(rows), []
        for j in best_first(boxes[:, 4])[: before if before > 0 else None]:
            if all(pixel_overlap(boxes[j], boxes[k]) <= threshold for k in kept):
                kept.append(j)
        for i in range(after):
            result[b, i] = [b, *boxes[kept[i % len(kept)], :4]]
    return result.reshape(-1, 5).astype("float32")


def pixel_overlap(a: np.ndarray, b: np.ndarray) -> Any:
    both = np.prod(np.maximum(np.minimum(a[2:4], b[2:4]) - np.maximum(a[:2], b[:2]) + 1, 0))
    return both / (np.prod(a[2:4] - a[:2] + 1) + np.prod(b[2:4] - b[:2] + 1) - both)


def test_proposals_are_the_best_moved_anchors(dim: Any) -> None:
    p, d = var("p", shape=(dim(2), 8, dim(3), dim(4))), var("d", shape=(dim(2), 16, dim(3), dim(4)))
    info = var("info", shape=(dim(2), 3))
    ways = [
        ((0.5, 2.0), (0.5, 2.0), 16, 0.5, 20, 6, 4, False),
        ((1.0, 2.0), (0.5, 1.0), 8, 0.6, -1, 60, 6, True),
    ]
    run = compiled([p, d, info], *[vision.proposal(p, d, info, *way) for way in ways])
    rng = np.random.default_rng(0)
    scores, moves = rng.uniform(0, 1, (2, 8, 3, 4)).astype("float32"), rng.normal(size=(2, 16, 3, 4)).astype("float32")
    sizes = np.array([[40, 64, 1.0], [48, 40, 1.5]], "float32")
    for way, actual in zip(ways, run(scores, moves, sizes), strict=True):
        assert_same(actual, proposed(scores, moves, sizes, *way), rtol=1e-4, atol=1e-3)


def test_proposals_of_other_shapes_are_refused() -> None:
    p, d, info = var("p", shape=(1, 2, 3, 3)), var("d", shape=(1, 4, 3, 4)), var("info", shape=(1, 3))
    call = vision.proposal(p, d, info, (1.0,), (1.0,), 16, 0.5, 10, 4, 4, False)
    assert type_error([p, d, info], call) == "the widths of bbox_pred and cls_prob differ: 4 and 3"
