"""Images resized, by scales and sizes that are known or read at run time."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.feeds import IMAGE, IMAGES, MAPS
from tests.frontend.onnx.programs import (
    Compiled,
    agrees_with_reference,
    array,
    check,
    model,
    node,
    outputs_of,
)
from vmkit.errors import ModelError

RESIZES = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest"},
    {"mode": "linear"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "cubic"},
]


@pytest.mark.parametrize("attributes", RESIZES)
def test_resize(attributes: dict[str, Any]) -> None:
    nodes = [node("Resize", "x _ scales", "a", **attributes), node("Resize", "x _ _ sizes", "b", **attributes)]
    constants = {"scales": np.array([1, 1, 2, 3], "float32"), "sizes": np.array([2, 4, 10, 3])}
    proto = model(nodes, {"x": ([2, 4, "h", "w"], "float32")}, "a b", constants)
    check(proto, *[{"x": array(2, 4, h, w)} for h, w in ((5, 6), (4, 3))])


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("attributes", [*RESIZES[:3], {"mode": "linear", "antialias": 1}])
@pytest.mark.parametrize("sizes", [[1, 3, 14, 26], [2, 5, 14, 4], [1, 3, 7, 13]])
def test_sizes_of_all_axes_resize_a_batch_of_any_size_too(
    attributes: dict[str, Any], sizes: list[int], dtype: str
) -> None:
    x = {"x": (["n", 3, 7, 13], dtype)}
    nodes = [node("Resize", "x _ _ sizes", "y", **attributes)]
    proto = model(nodes, x, "y", {"sizes": np.array(sizes)}, opset=19)
    feeds = [{"x": (array(n, 3, 7, 13) * 50 + 100).astype(dtype)} for n in (1, 2, 3)]
    if dtype == "uint8" and attributes["mode"] == "linear":
        for feed in feeds:  # how halves are rounded between axes is each library's own
            feed["x"][...] = 64
    agrees_with_reference(proto, *feeds)


def test_upsample() -> None:
    proto = model([node("Upsample", "x scales", "y")], IMAGE, "y", {"scales": np.array([1, 1, 2, 2], "float32")}, 9)
    check(proto, *IMAGES)


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
    proto = model(nodes, MAPS | {"scales": ([2], "float32"), "sizes": ([2], "int64")}, outputs_of(nodes), opset=19)
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
    proto = model(nodes, MAPS | {"sizes": ([4], "int64")}, outputs_of(nodes), opset=19)
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
    inputs = MAPS | {"sizes": ([2], "int64"), "roi": ([4], "float32")}
    proto = model(nodes, inputs, outputs_of(nodes), {"fixed": np.array([3, 3])}, opset=19)
    agrees_with_reference(
        proto,
        {"x": array(1, 2, 6, 7), "sizes": np.array([3, 4]), "roi": np.array([0.1, 0.3, 0.8, 1.2], "float32")},
        {"x": array(2, 2, 5, 3), "sizes": np.array([8, 2]), "roi": np.array([-0.2, 0, 0.5, 1], "float32")},
    )


def test_filters_along_each_axis_of_lines_of_any_length() -> None:
    nodes = [
        node("Resize", "x _ _ sizes", "a", mode="linear", antialias=1, axes=[2, 3]),
        node("Resize", "x _ _ sizes", "b", mode="cubic", antialias=1, axes=[2, 3], exclude_outside=1),
        node("Resize", "x _ _ sizes", "c", mode="linear", antialias=1, axes=[1, 2]),
    ]
    proto = model(nodes, MAPS | {"sizes": ([2], "int64")}, outputs_of(nodes), opset=19)
    agrees_with_reference(
        proto,
        {"x": array(2, 2, 20, 37), "sizes": np.array([9, 50])},
        {"x": array(1, 2, 5, 16), "sizes": np.array([2, 5])},
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
    proto = model([node("Resize", "x _ _ sizes", "y", **attributes)], MAPS, "y", {"sizes": np.array([1, 2, 3, 3])}, 19)
    with pytest.raises(ModelError, match=reason):
        Compiled(proto)
