"""Boxes and regions of images, and images sampled at points."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.frontend.onnx.feeds import MAPS
from tests.frontend.onnx.programs import (
    Compiled,
    agrees_with_reference,
    array,
    check,
    model,
    node,
    outputs_of,
)
from vmkit.errors import VMError


@pytest.mark.parametrize("rank", [2, 3])
def test_points_of_a_grid(rank: int) -> None:
    modes = ["linear", "nearest", "cubic"][: 5 - rank]
    nodes = [
        node("GridSample", "x grid", f"y{k}", mode=m, padding_mode=p, align_corners=a)
        for k, (m, p, a) in enumerate(product(modes, ("zeros", "border", "reflection"), (0, 1)))
    ]
    shape, points = ["n", 2, "h", "w", 3][: rank + 2], ["n", "k", 4, 2][: rank + 1]
    proto = model(nodes, {"x": (shape, "float32"), "grid": ([*points, rank], "float32")}, outputs_of(nodes), opset=20)
    sizes = (2, 2, 3, 4, 3)[: rank + 2]
    check(proto, {"x": array(*sizes), "grid": array(*(2, 5, 4, 2)[: rank + 1], rank, seed=1)})


def test_a_grid_of_a_size_that_is_read() -> None:
    for count, feeds in ((4, [(2, 1, 3, 5), (2, 3, 4, 2)]), (5, [(2, 1, 3, 2, 4)])):
        rank = count - 2
        nodes = [node("AffineGrid", "t size", "a"), node("AffineGrid", "t size", "b", align_corners=1)]
        inputs = {"t": (["n", rank, rank + 1], "float32"), "size": ([count], "int64")}
        proto = model(nodes, inputs, "a b", opset=20)
        agrees_with_reference(proto, *[{"t": array(2, rank, rank + 1), "size": np.array(f)} for f in feeds])


def test_images_from_blocks_of_sizes_that_are_read() -> None:
    inputs = {"x": (["n", 12, "k"], "float32"), "image": ([2], "int64"), "block": ([2], "int64")}
    nodes = [
        node("Col2Im", "x image block", "a", strides=[1, 2], pads=[0, 1, 1, 0], dilations=[1, 2]),
        node("Col2Im", "x fixed square", "b", strides=[1, 2], pads=[0, 1, 1, 0], dilations=[1, 2]),
    ]
    proto = model(nodes, inputs, "a b", {"fixed": np.array([4, 5]), "square": np.array([2, 2])}, opset=18)
    agrees_with_reference(proto, {"x": array(2, 12, 8), "image": np.array([4, 5]), "block": np.array([2, 2])})


@pytest.mark.parametrize("are_known", [True, False])
def test_images_from_blocks_are_sums_of_what_is_at_a_place(are_known: bool) -> None:
    for image, block, steps, spread, pads in (
        ((8, 6), (2, 2), (2, 2), (1, 1), (0, 0, 0, 0)),
        ((9, 7), (4, 3), (2, 3), (1, 2), (2, 1, 0, 3)),
        ((12, 40), (1, 11), (3, 2), (1, 1), (0, 5, 2, 4)),
        ((13,), (3,), (5,), (2,), (4, 0)),
        ((4, 5, 6), (2, 3, 2), (1, 2, 3), (1, 1, 2), (1, 0, 1, 0, 1, 1)),
    ):
        rank = len(image)
        ends = [image[k] + pads[k] + pads[rank + k] - (block[k] - 1) * spread[k] for k in range(rank)]
        counts = [-(-end // step) for end, step in zip(ends, steps, strict=True)]
        x = array(2, 3 * int(np.prod(block)), int(np.prod(counts)))
        x[0, :3, 0] = np.inf, -np.inf, np.nan
        wanted = np.zeros((2, 3, *(size + 99 for size in image)), "float64")
        columns = x.reshape(2, 3, *block, *counts)
        for k in np.ndindex(*block):
            begins = [k[a] * spread[a] - pads[a] + 50 for a in range(rank)]
            places = (slice(b, b + s * (n - 1) + 1, s) for b, s, n in zip(begins, steps, counts, strict=True))
            wanted[(slice(None), slice(None), *places)] += columns[(slice(None), slice(None), *k)]
        inside = wanted[(slice(None), slice(None), *(slice(50, 50 + size) for size in image))]
        operator = node("Col2Im", "x image block", "y", strides=steps, pads=pads, dilations=spread)
        sizes = {"image": np.array(image), "block": np.array(block)}
        given = {"x": (["n", "m", "k"], "float32")} | ({} if are_known else {k: ([rank], "int64") for k in sizes})
        compiled = Compiled(model([operator], given, "y", sizes if are_known else {}, opset=18))
        (found,) = compiled(x=x, **({} if are_known else sizes))
        np.testing.assert_allclose(found, inside, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("block", [[0, 2], [-1, 2]])
def test_blocks_that_hold_nothing_are_named(block: list[int]) -> None:
    """Nothing is divided by the size of such a block: that would end the process."""
    inputs = {"x": (["n", 4, 5], "float32"), "image": ([2], "int64"), "block": ([2], "int64")}
    compiled = Compiled(model([node("Col2Im", "x image block", "y", dilations=[1, 5])], inputs, "y", opset=18))
    with pytest.raises(VMError, match=r"image\.contrib_col2im: "):
        compiled(x=array(1, 4, 5), image=np.array([6, 6]), block=np.array(block))


def test_regions_of_maps() -> None:
    nodes = [
        node("RoiAlign", "x rois at", f"y{k}", mode="avg", output_height=2, output_width=3, spatial_scale=0.5,
             sampling_ratio=s, coordinate_transformation_mode=c)
        for k, (s, c) in enumerate(product((0, 2), ("half_pixel", "output_half_pixel")))
    ]  # fmt: skip
    nodes += [
        node("RoiAlign", "x rois at", "m", mode="max", output_height=2, output_width=2, sampling_ratio=2),
        node("MaxRoiPool", "x regions", "p", pooled_shape=[2, 2], spatial_scale=0.5),
    ]
    inputs = MAPS | {"rois": (["k", 4], "float32"), "at": (["k"], "int64"), "regions": (["k", 5], "float32")}
    proto = model(nodes, inputs, outputs_of(nodes), opset=16)
    rois = np.array([[0, 0, 9, 7], [2.5, 1, 6, 9.5], [-3, 2, 20, 4]], "float32")
    at = np.array([1, 0, 1])
    regions = np.concatenate([at[:, None].astype("float32"), rois], 1)
    regions[2, 1:] = [1, 2, 9, 4]
    check(proto, {"x": array(2, 2, 8, 9), "rois": rois, "at": at, "regions": regions})


def test_boxes_that_are_left() -> None:
    boxes = {"boxes": (["n", "k", 4], "float32"), "scores": (["n", 2, "k"], "float32")}
    limits = {"limit": ([1], "int64"), "iou": ([1], "float32"), "least": ([1], "float32")}
    nodes = [
        node("NonMaxSuppression", "boxes scores limit iou least", "a"),
        node("NonMaxSuppression", "boxes scores limit", "b", center_point_box=1),
        node("NonMaxSuppression", "boxes scores", "c"),
    ]
    proto = model(nodes, boxes | limits, "a b c", opset=11)
    corners = np.random.default_rng(0).uniform(0, 1, (2, 12, 4)).astype("float32")
    scores = np.random.default_rng(1).uniform(-1, 1, (2, 2, 12)).astype("float32")
    feeds = [(5, 0.3, 0.1), (100, 0.0, -2.0), (0, 0.5, 0.0)]
    check(proto, *[
        {"boxes": corners, "scores": scores, "limit": np.array([k]), "iou": np.array([i], "float32"),
         "least": np.array([s], "float32")}
        for k, i, s in feeds
    ])  # fmt: skip


@pytest.mark.parametrize("count", [1, 15, 16, 17, 600])
def test_many_boxes_of_which_many_are_left(count: int) -> None:
    inputs = {"boxes": ([2, "k", 4], "float32"), "scores": ([2, 3, "k"], "float32")}
    limits = {"limit": ([1], "int64"), "iou": ([1], "float32"), "least": ([1], "float32")}
    proto = model([node("NonMaxSuppression", "boxes scores limit iou least", "a")], inputs | limits, "a", opset=11)
    random = np.random.default_rng(count)
    corner = random.uniform(-1, 1, (2, count, 2))
    corners = np.concatenate([corner, corner + random.uniform(-0.2, 0.2, (2, count, 2))], 2).astype("float32")
    corners[:, 1::7] = corners[:, :-1:7]
    scores = (random.permuted(np.arange(6 * count)).reshape(2, 3, count) / (3 * count) - 1).astype("float32")
    scores[0, 0, ::5] = np.inf if count == 1 else scores[0, 0, ::5]
    check(proto, *[
        {"boxes": corners, "scores": scores, "limit": np.array([k]), "iou": np.array([i], "float32"),
         "least": np.array([s], "float32")}
        for k, i, s in [(count, 0.5, -2.0), (40, 0.2, 0.0), (count, 0.9, 0.5), (1, 0.1, -1.0)]
    ])  # fmt: skip
