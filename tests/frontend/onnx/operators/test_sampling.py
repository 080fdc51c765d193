"""Images resized, sampled, cut into windows and put together again, with sizes that are read at run time."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, model, node
from vmkit.errors import ModelError, VMError

IMAGE = {"x": (["n", 2, "h", "w"], "float32")}


def agrees_with_reference(proto: onnx.ModelProto, *feeds: dict[str, Any]) -> Compiled:
    """Assert that one compilation agrees with ONNX's reference on every feed."""
    compiled, names = Compiled(proto), [o.name for o in proto.graph.output]
    for feed in feeds:
        expected = [np.asarray(v) for v in ReferenceEvaluator(proto).run(None, feed)]
        assert_agrees(compiled(**feed), expected, names)
    return compiled


def outputs(nodes: list[Any]) -> str:
    return " ".join(o for n in nodes for o in n.output if o)


MODES = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_by_scales_and_sizes_that_are_read(mode: str) -> None:
    nodes = [
        node(
            "Resize", inputs, f"{inputs.split()[-1]}{k}", mode=mode, coordinate_transformation_mode=c,
            exclude_outside=int(k % 2 and mode == "cubic"), axes=[2, 3],
        )
        for k, (c, inputs) in enumerate(product(MODES, ("x _ scales", "x _ _ sizes")))
    ]  # fmt: skip
    proto = model(nodes, IMAGE | {"scales": ([2], "float32"), "sizes": ([2], "int64")}, outputs(nodes), opset=19)
    agrees_with_reference(
        proto,
        {"x": array(2, 2, 4, 5), "scales": np.array([2, 0.6], "float32"), "sizes": np.array([3, 9])},
        {"x": array(1, 2, 3, 2), "scales": np.array([0.5, 1.7], "float32"), "sizes": np.array([2, 3])},
    )


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_pixels_by_every_rounding(rounding: str) -> None:
    nodes = [
        node("Resize", "x _ _ sizes", f"y{k}", coordinate_transformation_mode=c, nearest_mode=rounding)
        for k, c in enumerate(MODES)
    ]
    proto = model(nodes, IMAGE | {"sizes": ([4], "int64")}, outputs(nodes), opset=19)
    agrees_with_reference(proto, *[{"x": array(1, 2, 4, 4), "sizes": np.array([1, 2, *s])} for s in ((7, 8), (3, 2))])


def test_regions_filters_and_proportions() -> None:
    nodes = [
        node(
            "Resize", "x roi _ sizes", "a", mode="linear", coordinate_transformation_mode="tf_crop_and_resize",
            axes=[2, 3], extrapolation_value=9.0,
        ),
        node("Resize", "x _ _ sizes", "b", mode="linear", antialias=1, axes=[2, 3]),
        node("Resize", "x _ _ sizes", "c", mode="cubic", antialias=1, axes=[2, 3], cubic_coeff_a=-0.5),
        node("Resize", "x _ _ sizes", "d", mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
        node("Resize", "x _ _ sizes", "e", mode="nearest", axes=[3, 2], keep_aspect_ratio_policy="not_smaller"),
        node("Resize", "x _ _ fixed", "f", mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    ]  # fmt: skip
    inputs = IMAGE | {"sizes": ([2], "int64"), "roi": ([4], "float32")}
    proto = model(nodes, inputs, outputs(nodes), {"fixed": np.array([3, 3])}, opset=19)
    agrees_with_reference(
        proto,
        {"x": array(1, 2, 6, 7), "sizes": np.array([3, 4]), "roi": np.array([0.1, 0.3, 0.8, 1.2], "float32")},
        {"x": array(2, 2, 5, 3), "sizes": np.array([8, 2]), "roi": np.array([-0.2, 0, 0.5, 1], "float32")},
    )


def test_whole_numbers_are_resized_without_passing_their_limits() -> None:
    values = np.array([[[[0, 255, 0, 255]]]], "uint8")
    proto = model([node("Resize", "x _ _ sizes", "y", mode="cubic")], {"x": ([1, 1, 1, 4], "uint8")}, "y",
                  {"sizes": np.array([1, 1, 1, 9])}, opset=19)  # fmt: skip
    made = Compiled(proto)(x=values)[0].astype(int)
    assert made[0, 0, 0, 0] <= 5 and made.max() == 255 and made.min() >= 0


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"mode": "area"}, "mode is 'area'; it is one of nearest, linear, cubic"),
        ({"nearest_mode": "up"}, "nearest_mode is 'up'"),
        ({"coordinate_transformation_mode": "tf_crop_and_resize"}, "tf_crop_and_resize needs the input roi"),
        ({"keep_aspect_ratio_policy": "fit"}, "keep_aspect_ratio_policy is 'fit'"),
    ],
)
def test_a_resize_that_makes_no_sense_is_refused(attributes: dict[str, Any], reason: str) -> None:
    proto = model([node("Resize", "x _ _ sizes", "y", **attributes)], IMAGE, "y", {"sizes": np.array([1, 2, 3, 3])}, 19)
    with pytest.raises(ModelError, match=reason):
        Compiled(proto)


@pytest.mark.parametrize("rank", [2, 3])
def test_points_of_a_grid(rank: int) -> None:
    modes = ["linear", "nearest", "cubic"][: 5 - rank]
    nodes = [
        node("GridSample", "x grid", f"y{k}", mode=m, padding_mode=p, align_corners=a)
        for k, (m, p, a) in enumerate(product(modes, ("zeros", "border", "reflection"), (0, 1)))
    ]
    shape, points = ["n", 2, "h", "w", 3][: rank + 2], ["n", "k", 4, 2][: rank + 1]
    proto = model(nodes, {"x": (shape, "float32"), "grid": ([*points, rank], "float32")}, outputs(nodes), opset=20)
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


def test_maxima_and_where_they_were() -> None:
    window = {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 1, 1]}
    nodes = [
        node("MaxPool", "x", "a i", **window),
        node("MaxPool", "x", "b j", storage_order=1, dilations=[1, 2], **window),
        node("MaxPool", "x", "c k", ceil_mode=1, **window),
        node("MaxPool", "s", "d l", kernel_shape=[2], strides=[3], ceil_mode=1),
        node("MaxPool", "v", "e m", kernel_shape=[2, 1, 2], storage_order=1),
    ]
    inputs = {
        "x": (["n", 2, "h", "w"], "float32"), "s": ([2, 1, "h"], "float32"), "v": ([1, 2, 3, 2, 3], "float32"),
    }  # fmt: skip
    proto = model(nodes, inputs, outputs(nodes), opset=12)
    check(
        proto,
        *[{"x": array(n, 2, h, 7), "s": array(2, 1, h), "v": array(1, 2, 3, 2, 3)} for n, h in ((2, 6), (1, 5))],
    )


def test_maxima_are_written_back() -> None:
    inputs = {"x": (["n", 2, 2, 3], "float32"), "at": (["n", 2, 2, 3], "int64"), "shape": ([4], "int64")}
    nodes = [
        node("MaxUnpool", "x at", "a", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxUnpool", "x at shape", "b", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    at = np.sort(np.random.default_rng(0).permutation(96)[:24]).reshape(2, 2, 2, 3)
    proto = model(nodes, inputs, "a b", opset=11)
    agrees_with_reference(proto, {"x": array(2, 2, 2, 3), "at": at, "shape": np.array([2, 2, 5, 8])})


@pytest.mark.parametrize("ceil", [0, 1])
def test_roots_of_sums_over_windows(ceil: int) -> None:
    nodes = [
        node("LpPool", "x", "a", kernel_shape=[2, 3], strides=[2, 2], pads=[1, 0, 0, 1], ceil_mode=ceil),
        node("LpPool", "x", "b", kernel_shape=[2, 2], dilations=[2, 1], p=3, ceil_mode=ceil),
        node("AveragePool", "x", "c", kernel_shape=[3, 2], strides=[2, 3], ceil_mode=ceil, dilations=[1, 2]),
        node("AveragePool", "x", "d", kernel_shape=[3, 3], strides=[3, 2], pads=[1, 1, 1, 1], ceil_mode=ceil,
             count_include_pad=1),
    ]  # fmt: skip
    proto = model(nodes, {"x": (["n", 2, "h", 6], "float32")}, outputs(nodes), opset=19)
    check(proto, {"x": array(2, 2, 6, 6)}, {"x": array(1, 2, 5, 6)})


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_windows_that_cover_inputs_of_any_size(auto_pad: str) -> None:
    window = {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": auto_pad}
    nodes = [node("MaxPool", "x", "a", **window), node("AveragePool", "x", "b", **window)]
    nodes += [node("AveragePool", "x", "c", count_include_pad=1, **window), node("LpPool", "x", "d", **window)]
    nodes += [node("LpPool", "x", "e", ceil_mode=1, **window)]
    proto = model(nodes, IMAGE, "a b c d e", opset=18)
    check(proto, {"x": array(2, 2, 6, 7)}, {"x": array(1, 2, 5, 4)})


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
    inputs = IMAGE | {"rois": (["k", 4], "float32"), "at": (["k"], "int64"), "regions": (["k", 5], "float32")}
    proto = model(nodes, inputs, outputs(nodes), opset=16)
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


def test_centres_cut_out_and_padded() -> None:
    nodes = [node("CenterCropPad", "x shape", "a", axes=[1, -1]), node("CenterCropPad", "x fixed", "b", axes=[2])]
    inputs = {"x": (["n", 3, 4, "w"], "float32"), "shape": ([2], "int64")}
    proto = model(nodes, inputs, "a b", {"fixed": np.array([7])}, opset=18)
    agrees_with_reference(
        proto,
        {"x": array(2, 3, 4, 6), "shape": np.array([6, 3])},
        {"x": array(1, 3, 4, 2), "shape": np.array([2, 7])},
    )


def test_an_update_outside_of_a_cache_is_an_error() -> None:
    inputs = {"c": (["n", 5, 2], "float32"), "u": (["n", "k", 2], "float32"), "at": (["n"], "int64")}
    nodes = [
        node("TensorScatter", "c u at", "a", axis=1),
        node("TensorScatter", "c u at", "b", axis=1, mode="circular"),
    ]
    compiled = agrees_with_reference(
        model(nodes, inputs, "a b", opset=24), {"c": array(2, 5, 2), "u": array(2, 2, 2), "at": np.array([3, 0])}
    )
    with pytest.raises(VMError, match="an update does not lie inside the cache"):
        compiled(c=array(2, 5, 2), u=array(2, 2, 2), at=np.array([4, 0]))


def test_distinct_elements_and_rows() -> None:
    nodes = [
        node("Unique", "x", "a b c d"),
        node("Unique", "x", "e f g h", axis=0),
        node("Unique", "x", "i j k l", axis=-1),
        node("Unique", "x", "m o p q", sorted=0),
        node("Unique", "v", "r s t u"),
    ]
    inputs = {"x": (["n", 3], "int64"), "v": (["k"], "float32")}
    proto = model(nodes, inputs, outputs(nodes), opset=11)
    values = np.array([2, 1, np.inf, 1, -0.5], "float32")
    rows = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4], [0, 9, 9], [2, 3, 4]])
    check(proto, {"x": rows, "v": values}, {"x": rows[:1], "v": values[:1]})


def test_determinants() -> None:
    compiled = Compiled(model([node("Det", "x", "y")], {"x": (["n", 2, "k", "k"], "float32")}, "y"))
    for size in (1, 2, 5):
        x = array(3, 2, size, size)
        np.testing.assert_allclose(compiled(x=x)[0], np.linalg.det(x), rtol=1e-4, atol=1e-4)
