"""Winograd's tiles: which layers they get, and that the kernels compute the convolution and what follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.kernels.winograd import winograd
from vmkit.kernels.winograd_points import PAIRS, transform_data, transform_result, weight_matrix
from vmkit.kernels.winograd_shape import WinogradPlan, WinogradShape
from vmkit.optimize import UseWinograd
from vmkit.relay.ir.visit import post_order
from vmkit.relay.transform import InferType

NAME = "nn.contrib_conv2d_winograd_fused"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def convolved(data: np.ndarray, weight: np.ndarray, padding: tuple[int, int, int, int]) -> np.ndarray:
    """Return a convolution of (n, h, w, i) by (kh, kw, i, o) in float64."""
    top, left, bottom, right = padding
    padded = np.pad(data.astype("float64"), ((0, 0), (top, bottom), (left, right), (0, 0)))
    down, across = weight.shape[:2]
    height, width = padded.shape[1] - down + 1, padded.shape[2] - across + 1
    places = ((i, j) for i in range(down) for j in range(across))
    return sum(padded[:, i : i + height, j : j + width] @ weight[i, j] for i, j in places)


def layer(shape: tuple[Any, ...], weight: np.ndarray, ending: str, padding: Any = (1, 1)) -> relay.Function:
    x, channels = relay.var("x", shape=shape), weight.shape[3]
    params = [x]
    y = relay.nn.conv2d(
        x, relay.const(weight), padding=padding, data_layout="NHWC", kernel_layout="HWIO", kernel_size=weight.shape[:2]
    )
    if ending != "plain":
        y = relay.add(relay.add(y, relay.const(numbers(1, 1, channels, seed=3))), relay.const(np.float32(0.25)))
    match ending:
        case "relu":
            y = relay.nn.relu(y)
        case "clip":
            y = relay.clip(y, -0.5, 1.5)
        case "residual":
            other = relay.var("other", shape=(*shape[:3], channels))
            params.append(other)
            y = relay.minimum(
                relay.maximum(relay.add(other, y), relay.const(np.float32(0))), relay.const(np.float32(6))
            )
        case "used twice":
            y = relay.add(y, relay.nn.relu(y))
    return relay.Function(params, y)


def after(value: np.ndarray, ending: str, other: np.ndarray | None) -> np.ndarray:
    if ending == "plain":
        return value
    value = value + numbers(1, 1, value.shape[3], seed=3) + 0.25
    match ending:
        case "relu":
            return np.maximum(value, 0)
        case "clip":
            return np.clip(value, -0.5, 1.5)
        case "residual":
            return np.clip(value + other, 0, 6)
    return value + np.maximum(value, 0)


def operators(function: relay.Function, lanes: int = 16) -> list[str]:
    mod = UseWinograd(lanes=lanes, registers=32)(InferType()(tvm.IRModule({"main": function})))
    calls = (node for node in post_order(mod["main"]) if isinstance(node, relay.Call))
    return [call.op.name for call in calls]


def same(value: Any) -> Any:
    return value


@pytest.mark.parametrize(("reach", "size"), [(r, k) for r in PAIRS for k in range(2, r)])
def test_transforms_of_an_axis_give_the_sum_of_products(reach: int, size: int) -> None:
    data, kernel = numbers(reach).astype("float64"), numbers(size, seed=1).astype("float64")
    products = (weight_matrix(reach, size) @ kernel) * transform_data(data, float, same)
    expected = np.convolve(data, kernel[::-1], "valid")
    actual = transform_result(reach + 1 - size, products, float, same)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("reach", "axes"), [(4, 1), (6, 1), (8, 1), (4, 2), (6, 2)])
def test_rounding_of_transforms_is_within_the_bound_that_is_given_for_them(reach: int, axes: int) -> None:
    channels, tiles, size = 32, 200, 3
    data, kernel = numbers(channels, tiles, *[reach] * axes), numbers(channels, 1, *[size] * axes, seed=1)
    matrix = weight_matrix(reach, size)
    factors = along(kernel.astype("float64"), axes, lambda k: np.tensordot(matrix, k, 1)).astype("float32")
    products = (factors * along(data, axes, lambda d: transform_data(d, np.float32, same))).sum(0)
    actual = along(products, axes, lambda m: transform_result(reach - 2, m, np.float32, same))
    assert actual.dtype == "float32"
    made = range(reach - 2)
    places = [(i,) for i in range(size)] if axes == 1 else [(i, j) for i in range(size) for j in range(size)]
    windows = [tuple(slice(p, p + len(made)) for p in place) for place in places]
    exact = sum(
        (data[(..., *w)].astype("float64") * kernel[(..., *p)].reshape(channels, 1, *[1] * axes)).sum(0)
        for p, w in zip(places, windows, strict=True)
    )
    error = (actual - exact) / exact.std()
    assert np.sqrt(np.mean(error**2)) < 1e-6
    assert np.abs(error).max() < 2e-5


def along(array: np.ndarray, axes: int, function: Callable[[np.ndarray], Any]) -> np.ndarray:
    """Return an array whose last axes have each been replaced by what a function makes of the elements on it."""
    for axis in range(-axes, 0):
        array = np.stack(list(function(np.moveaxis(array, axis, 0))), axis=axis)
    return array


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("kernel", "tile", "size", "padding", "plan"),
    [
        ((3, 3), (2, 2), (1, 7, 9), (1, 1, 1, 1), WinogradPlan(3, 6)),
        ((3, 3), (2, 2), (2, 4, 4), (0, 0, 0, 0), WinogradPlan(2, 2, is_parallel_over_tiles=False)),
        ((3, 3), (4, 4), (1, 9, 6), (1, 1, 1, 1), WinogradPlan(5, 5)),
        ((3, 3), (4, 4), (3, 5, 11), (2, 0, 0, 1), WinogradPlan(4, 8, is_parallel_over_tiles=False)),
        ((3, 3), (4, 4), (1, 1, 2), (1, 1, 1, 1), WinogradPlan(2, 4)),
        ((1, 3), (1, 6), (2, 1, 17), (0, 1, 0, 1), WinogradPlan(3, 3)),
        ((1, 5), (1, 4), (1, 3, 11), (0, 2, 0, 2), WinogradPlan(2, 4, is_parallel_over_tiles=False)),
        ((7, 1), (2, 1), (1, 9, 4), (3, 0, 3, 0), WinogradPlan(3, 6)),
        ((5, 5), (2, 2), (1, 7, 8), (2, 2, 2, 2), WinogradPlan(2, 4)),
        ((2, 2), (5, 5), (1, 11, 6), (1, 0, 0, 1), WinogradPlan(2, 2)),
        ((2, 3), (3, 2), (1, 6, 9), (0, 1, 1, 1), WinogradPlan(3, 3)),
    ],
)
def test_a_kernel_computes_whole_tiles_and_parts_of_tiles(
    kernel: tuple[int, int],
    tile: tuple[int, int],
    size: tuple[int, int, int],
    padding: tuple[int, int, int, int],
    plan: WinogradPlan,
    is_known: bool,
) -> None:
    lanes, inner, outer = 8, 16, 24
    sizes = size if is_known else (None, None, None)
    shape = WinogradShape(kernel, tile, *sizes, inner, outer, padding, lanes, lanes, True, False, 0.0, None)
    function = winograd(shape, plan).with_attr("global_symbol", "main")
    data, weight, bias = numbers(*size, inner), numbers(*kernel, inner, outer, seed=1) / 8, numbers(outer, seed=2)
    down, across = (weight_matrix(reach, k) for reach, k in zip(shape.reach, kernel, strict=True))
    moved = np.kron(down, across) @ weight.reshape(kernel[0] * kernel[1], -1)
    blocks = moved.reshape(-1, inner, outer // lanes, lanes).transpose(2, 0, 1, 3).astype("float32")
    expected = np.maximum(convolved(data, weight, padding) + bias, 0)
    result = tvm.runtime.tensor(np.full(expected.shape, np.nan, "float32"))
    inputs = [tvm.runtime.tensor(np.ascontiguousarray(each)) for each in (data, blocks, bias)]
    tvm.compile(tvm.IRModule({"main": function}), tvm.target.Target("llvm"))["main"](*inputs, result)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("ending", ["plain", "relu", "clip", "residual", "used twice"])
@pytest.mark.parametrize("is_known", [True, False])
def test_compiled_layers_agree_with_numpy(ending: str, is_known: bool) -> None:
    weight, data = numbers(3, 3, 32, 48, seed=1) / 16, numbers(2, 18, 13, 32)
    shape = (2, 18, 13, 32) if is_known else (relay.Any(), relay.Any(), relay.Any(), 32)
    function = layer(shape, weight, ending)
    assert NAME in operators(function)
    other = numbers(2, 18, 13, 48, seed=5) if ending == "residual" else None
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), "llvm"), "cpu")
    result = machine.run(data, *([] if other is None else [other])).numpy()
    expected = after(convolved(data, weight, (1, 1, 1, 1)), ending, other)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


def row_layer(shape: tuple[Any, ...], weight: np.ndarray) -> relay.Function:
    """Return ``relu(conv1d(x, weight) + bias + other)``."""
    x, other = relay.var("x", shape=shape), relay.var("other", shape=(*shape[:2], weight.shape[2]))
    y = relay.nn.conv1d(x, relay.const(weight), padding=(2, 2), data_layout="NWC", kernel_layout="WIO")
    y = relay.add(relay.add(y, relay.const(numbers(weight.shape[2], seed=3))), other)
    return relay.Function([x, other], relay.nn.relu(y))


@pytest.mark.parametrize("is_known", [True, False])
def test_rows_are_images_of_height_one(is_known: bool) -> None:
    weight, data, other = numbers(5, 32, 48, seed=1) / 8, numbers(2, 61, 32), numbers(2, 61, 48, seed=5)
    batch, width = (2, 61) if is_known else (tvm.tirx.Var("n", "int64"), tvm.tirx.Var("w", "int64"))
    function = row_layer((batch, width, 32), weight)
    assert operators(function) == ["expand_dims", "expand_dims", NAME, "squeeze"]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), "llvm"), "cpu")
    sums = convolved(data[:, None], weight[None], (0, 2, 0, 2))[:, 0] + numbers(48, seed=3) + other
    np.testing.assert_allclose(machine.run(data, other).numpy(), np.maximum(sums, 0), rtol=1e-3, atol=1e-4)


def test_what_follows_is_taken_in_as_long_as_nothing_else_uses_what_is_between() -> None:
    weight = numbers(3, 3, 32, 48)
    for ending in ("plain", "relu", "clip", "residual"):
        assert operators(layer((1, 28, 28, 32), weight, ending)) == [NAME]
    assert operators(layer((1, 28, 28, 32), weight, "used twice")) == [NAME, "nn.relu", "add"]


def test_a_convolution_that_tiles_do_not_make_faster_stays() -> None:
    assert operators(layer((1, 2, 1, 512), numbers(3, 3, 512, 512), "plain")) == ["nn.conv2d"]
    assert operators(layer((1, 28, 28, 30), numbers(3, 3, 30, 48), "plain")) == ["nn.conv2d"]
    x, weight = relay.var("x", shape=(1, 28, 28, 32)), relay.const(numbers(3, 3, 32, 48))
    strided = relay.nn.conv2d(x, weight, strides=(2, 2), data_layout="NHWC", kernel_layout="HWIO")
    assert operators(relay.Function([x], strided)) == ["nn.conv2d"]


def test_a_residual_of_another_size_is_refused_when_run() -> None:
    function = layer((relay.Any(), 12, 12, 32), numbers(3, 3, 32, 32), "plain")
    x = function.params[0]
    other = relay.var("other", shape=(relay.Any(), 12, 12, 32))
    both = relay.Function([x, other], relay.add(function.body, other))
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": both}), "llvm"), "cpu")
    with pytest.raises(Exception, match=r"(?i)dimension|shape|broadcast"):
        machine.run(numbers(2, 12, 12, 32), numbers(3, 12, 12, 32))
