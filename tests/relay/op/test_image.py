"""Resizing, cropping and sampling agree with onnxruntime and with their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.onnx_reference import onnx_result, resized
from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import image, nn, var

Any_ = relay.Any
MODES = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def test_resizes_agree_with_onnxruntime(dim: Any) -> None:
    x = var("x", shape=(dim(2), 3, dim(4), dim(6)))
    table: dict[str, Any] = {}
    for mode in MODES:
        theirs = {"coordinate_transformation_mode": mode}
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            table[f"nearest, {mode}, {rounding}"] = (
                image.resize2d(x, (7, 5), None, "NCHW", "nearest_neighbor", mode, rounding_method=rounding),
                lambda x, t=theirs, r=rounding: resized(x, (7, 5), mode="nearest", nearest_mode=r, **t),
            )
        table[f"linear, {mode}"] = (
            image.resize2d(x, (7, 5), coordinate_transformation_mode=mode),
            lambda x, t=theirs: resized(x, (7, 5), mode="linear", **t),
        )
        for exclude in (0, 1):
            table[f"cubic, {mode}, exclude {exclude}"] = (
                image.resize2d(x, (7, 5), None, "NCHW", "cubic", mode, cubic_alpha=-0.75, cubic_exclude=exclude),
                lambda x, t=theirs, e=exclude: resized(x, (7, 5), mode="cubic", exclude_outside=e, **t),
            )
    sizes = [(2, 4, 6)] if dim(1) == 1 else [(2, 4, 6), (1, 9, 3), (1, 1, 2)]
    assert_table([x], table, *[(numbers(n, 3, h, w),) for n, h, w in sizes])


def test_aligned_corners_take_halves_up(dim: Any) -> None:
    x = var("x", shape=(dim(2), 3, dim(4), dim(5)))
    # 5 pixels become 25: each sixth one lies on a pixel, and 3, 9, 15 and 21 lie halfway between two.
    nearest = np.array([(at * 4 + 12) // 24 for at in range(25)])
    assert [nearest[at] for at in (3, 9, 15, 21)] == [1, 2, 3, 4]
    table = {
        "aligned": (
            image.resize2d(x, (4, 25), None, "NCHW", "nearest_neighbor", "align_corners", rounding_method=""),
            lambda x: x[..., nearest],
        ),
        "rounded": (
            image.resize2d(x, (4, 25), None, "NCHW", "nearest_neighbor", "align_corners", rounding_method="round"),
            lambda x: x[..., nearest],
        ),
    }
    assert_table([x], table, (numbers(2, 3, 4, 5),))


def test_a_region_of_interest_is_cut_out_and_resized(dim: Any) -> None:
    x = var("x", shape=(dim(2), 3, dim(4), dim(6)))
    roi = [0.1, 0.2, 1.1, 0.7]
    mode = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    table = {
        ours: (
            image.resize2d(x, (7, 5), roi, method=ours, **mode, cubic_alpha=-0.75, extrapolation_value=9.0),
            lambda x, m=theirs: resized(x, (7, 5), roi, mode=m, **mode, extrapolation_value=9.0),
        )
        for ours, theirs in (("linear", "linear"), ("cubic", "cubic"))
    }
    assert_table([x], table, (numbers(2, 3, 4, 6),))


def test_resizes_over_one_and_three_axes_and_channels_last(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), 3, dim(5))), var("y", shape=(1, 2, dim(3), dim(4), dim(5)))
    z = var("z", shape=(dim(2), dim(4), dim(6), 3))

    def last(x: np.ndarray) -> np.ndarray:
        return resized(np.ascontiguousarray(x.transpose(0, 3, 1, 2)), (7, 5), mode="linear").transpose(0, 2, 3, 1)

    table = {
        "1d cubic": (
            image.resize1d(x, 8, method="cubic", cubic_alpha=-0.75),
            lambda x, y, z: resized(x[:, :, None], (1, 8), mode="cubic")[:, :, 0],
        ),
        "3d linear": (image.resize3d(y, (4, 2, 7)), lambda x, y, z: resized(y, (4, 2, 7), mode="linear")),
        "channels last": (image.resize2d(z, (7, 5), layout="NHWC"), lambda x, y, z: last(z)),
    }
    assert_table([x, y, z], table, (numbers(2, 3, 5), numbers(1, 2, 3, 4, 5), numbers(2, 4, 6, 3)))


def test_nearest_pixels_keep_their_value_and_linear_ones_are_cut() -> None:
    x = var("x", shape=(1, 1, 1, 2), dtype="int32")
    nearest, linear = compiled(
        [x],
        image.resize2d(x, (1, 4), None, "NCHW", "nearest_neighbor", "asymmetric"),
        image.resize2d(x, (1, 3), None, "NCHW", "linear", "align_corners", out_dtype="float32"),
    )(np.array([[[[16777217, 3]]]], "int32"))
    assert_same(nearest, np.array([[[[16777217, 16777217, 3, 3]]]], "int32"))
    assert_same(linear, np.array([[[[16777216, 8388610, 3]]]], "float32"))


def test_size_and_region_may_be_read_at_run_time() -> None:
    x, size, roi = (
        var("x", shape=(Any_(), 3, Any_(), Any_())),
        var("size", shape=(2,), dtype="int64"),
        var("roi", shape=(4,)),
    )
    mode = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    run = compiled([x, size, roi], image.resize2d(x, size), image.resize2d(x, size, roi, **mode))
    region = [0.1, 0.2, 0.9, 0.7]
    for target in ((7, 5), (1, 1), (3, 8)):
        data = numbers(2, 3, 4, 6)
        plain, cut = run(data, np.array(target), np.array(region, "float32"))
        assert_same(plain, resized(data, target, mode="linear"), rtol=1e-4, atol=1e-5)
        assert_same(cut, resized(data, target, region, mode="linear", **mode), rtol=1e-4, atol=1e-5)
    with pytest.raises(VMError, match=r"dyn.image.resize2d: the shape holds a negative size"):
        run(numbers(1, 3, 2, 2), np.array([-1, 2]), np.zeros(4, "float32"))
    with pytest.raises(VMError, match=r"dyn.image.resize2d: an image without pixels cannot be resized"):
        run(numbers(1, 3, 0, 2), np.array([2, 2]), np.zeros(4, "float32"))


def test_upsampling_is_a_resize_by_factors(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), 3, dim(4), dim(5))), var("y", shape=(1, dim(2), dim(3), dim(2), 2))
    asymmetric = {"coordinate_transformation_mode": "asymmetric"}

    def scaled(x: np.ndarray, h: float, w: float, **attributes: Any) -> np.ndarray:
        # Halves are rounded up.
        size = int(np.floor(x.shape[2] * h + 0.5)), int(np.floor(x.shape[3] * w + 0.5))
        return resized(x, size, mode="linear", **attributes)

    table = {
        "nearest": (nn.upsampling(x, 2, 3), lambda x, y: x.repeat(2, 2).repeat(3, 3)),
        "bilinear": (nn.upsampling(x, 1.5, 2.5, method="bilinear"), lambda x, y: scaled(x, 1.5, 2.5, **asymmetric)),
        "corners": (
            nn.upsampling(x, 2, 2, method="bilinear", align_corners=True),
            lambda x, y: scaled(x, 2, 2, coordinate_transformation_mode="align_corners"),
        ),
        "volumes": (
            nn.upsampling3d(y, 2, 1, 3, "NDHWC", **asymmetric),
            lambda x, y: y.repeat(2, 1).repeat(3, 3),
        ),
    }
    sizes = [(4, 5)] if dim(1) == 1 else [(4, 5), (1, 3)]
    assert_table([x, y], table, *[(numbers(2, 3, h, w), numbers(1, 2, 3, 2, 2)) for h, w in sizes])


def test_factors_may_be_read_at_run_time() -> None:
    x, h, w = var("x", shape=(2, 3, Any_(), Any_())), var("h", shape=()), var("w", shape=())
    d, y = var("d", shape=()), var("y", shape=(1, 1, 2, 2, 2))
    run = compiled([x, y, d, h, w], nn.upsampling(x, h, w), nn.upsampling3d(y, d, h, w))
    data, volume = numbers(2, 3, 4, 5), numbers(1, 1, 2, 2, 2)
    for scales in ((2, 3), (1, 1)):
        image_, cube = run(data, volume, np.float32(1), *map(np.float32, scales))
        assert_same(image_, data.repeat(scales[0], 2).repeat(scales[1], 3))
        assert cube.shape == (1, 1, 2, 2 * scales[0], 2 * scales[1])


def test_boxes_are_cut_out_and_resized() -> None:
    x = var("x", shape=(Any_(), 3, Any_(), Any_()))
    boxes, indices = var("boxes", shape=(Any_(), 4)), var("indices", shape=(Any_(),), dtype="int32")
    run = compiled([x, boxes, indices], image.crop_and_resize(x, boxes, indices, (3, 4), extrapolation_value=5.0))
    data, corners = numbers(2, 3, 4, 5), np.array([[0, 0, 1, 1], [0.1, 0.2, 0.9, 0.7], [0.5, 0.5, 1.5, 1.2]], "float32")
    mode = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear", "extrapolation_value": 5.0}
    expected = [
        resized(data[i : i + 1], (3, 4), b.tolist(), **mode)[0] for i, b in zip((0, 1, 1), corners, strict=True)
    ]
    assert_same(run(data, corners, np.array([0, 1, 1], "int32")), np.stack(expected), rtol=1e-4, atol=1e-5)
    # An index that is no image means the nearest one.
    assert_same(run(data, corners, np.array([-9, 9, 1], "int32")), np.stack(expected), rtol=1e-4, atol=1e-5)
    with pytest.raises(VMError, match=r"image.crop_and_resize: there are 2 box indices for 3 boxes"):
        run(data, corners, np.array([0, 1], "int32"))


def test_grid_sample_agrees_with_onnxruntime() -> None:
    x, grid = var("x", shape=(Any_(), 3, Any_(), Any_())), var("grid", shape=(Any_(), 2, Any_(), Any_()))
    table: dict[str, Any] = {}
    for method in ("nearest", "bilinear", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                options = {"padding_mode": padding, "align_corners": align}
                table[f"{method}, {padding}, corners {align}"] = (
                    image.grid_sample(x, grid, method, **options),
                    lambda x, g, m=method, o=options: onnx_result(
                        "GridSample", x, np.ascontiguousarray(g.transpose(0, 2, 3, 1)), mode=m, **o
                    ),
                )
    assert_table([x, grid], table, (numbers(2, 3, 4, 5), numbers(2, 2, 3, 6) * 0.8))


def test_affine_grid_and_dilation_follow_their_definition(dim: Any) -> None:
    m = var("m", shape=(dim(2), 2, 3))
    x, w = var("x", shape=(dim(2), 3, dim(4), dim(5))), var("w", shape=(3, 2, 2))

    def grid(m: np.ndarray) -> np.ndarray:
        xs, ys = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3))
        return np.einsum("nij,jhw->nihw", m, np.stack([xs, ys, np.ones((3, 4))])).astype("float32")

    def dilated(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        x = np.pad(x, [[0, 0], [0, 0], [0, 0], [1, 0]])
        rows, columns = x.shape[2] - 1, x.shape[3] - 1
        result = np.stack(
            [(x[:, :, i : i + 2, j : j + 2] + w).max((2, 3)) for i in range(rows) for j in range(columns)], 2
        )
        return result.reshape(*x.shape[:2], rows, columns)

    table = {
        "affine_grid": (image.affine_grid(m, (3, 4)), lambda m, x, w: grid(m)),
        "dilation2d": (image.dilation2d(x, w, padding=(0, 1, 0, 0)), lambda m, x, w: dilated(x, w)),
        "dilation2d, four numbers": (
            image.dilation2d(x, w, [1, 2, 7, 7], padding=(0, 1, 0, 0), dilations=[1, 1, 7, 7]),
            lambda m, x, w: dilated(x, w)[..., ::2],
        ),
    }
    assert_table([m, x, w], table, (numbers(2, 2, 3), numbers(2, 3, 4, 5), numbers(3, 2, 2)))


def test_type_errors_say_what_does_not_fit() -> None:
    x, grid = var("x", shape=(1, 3, 4, 5)), var("grid", shape=(2, 2, 3, 3))
    assert type_error([x], image.resize2d(x, (1, 2, 3))) == "size must have 2 values, not 3: [1, 2, 3]"
    assert type_error([x], image.resize2d(x, 4)) == "size must have 2 values, not 1: [4]"
    assert type_error([x], image.resize2d(x, (4, 4), method="bilinear")) == (
        "method must be one of 'nearest_neighbor', 'linear', 'cubic', not 'bilinear'"
    )
    assert type_error([x], nn.upsampling(x, 0, 1)) == "the scales must be positive, not [0.0, 1.0]"
    assert type_error([x, grid], image.grid_sample(x, grid)) == "the batches differ: 1 of data and 2 of grid"
    assert type_error([x, grid], image.grid_sample(x, grid, "trilinear")) == (
        "method must be one of nearest, bilinear, bicubic for NCHW, not 'trilinear'"
    )
