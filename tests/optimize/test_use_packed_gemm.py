"""Convolutions as products of rows: which layers they are, and that they compute them and what follows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.optimize import UsePackedGemm
from vmkit.relay.ir.visit import post_order
from vmkit.relay.op import build
from vmkit.relay.transform import FoldConstant, InferType

NAME = "nn.contrib_packed_gemm"
TARGET = "llvm -mattr=+avx2,+fma -num-cores=2"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def layer(shape: tuple[Any, ...], weight: np.ndarray, has_residual: bool, **options: Any) -> relay.Function:
    x = relay.var("x", shape=shape)
    weight = weight.reshape((1,) * (4 - weight.ndim) + weight.shape)
    y = relay.nn.conv2d(x, relay.const(weight), data_layout="NHWC", kernel_layout="HWIO", **options)
    y = relay.add(y, relay.const(numbers(weight.shape[3], seed=3)))
    if not has_residual:
        return relay.Function([x], relay.nn.relu(y))
    other = relay.var("other", shape=(*shape[:3], weight.shape[3]))
    return relay.Function([x, other], relay.nn.relu(relay.add(y, other)))


def operators(function: relay.Function) -> list[str]:
    mod = UsePackedGemm(lanes=8, registers=16)(InferType()(tvm.IRModule({"main": function})))
    mod = FoldConstant()(mod)  # the weights
    return [node.op.name for node in post_order(mod["main"]) if isinstance(node, relay.Call)]


@pytest.mark.sweep
@pytest.mark.parametrize("has_residual", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
def test_compiled_layers_agree_with_numpy(has_residual: bool, is_known: bool) -> None:
    weight, data = numbers(20, 48, seed=1) / 4, numbers(2, 5, 7, 20)
    batch: Any = tvm.tirx.Var("n", "int64")
    function = layer((2, 5, 7, 20) if is_known else (batch, 5, 7, 20), weight, has_residual)
    assert operators(function) == [NAME]
    inputs = [data, numbers(2, 5, 7, 48, seed=4)] if has_residual else [data]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), "llvm"), "cpu")
    sums = data.astype("float64") @ weight + numbers(48, seed=3) + (inputs[1] if has_residual else 0)
    np.testing.assert_allclose(machine.run(*inputs).numpy(), np.maximum(sums, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("size", "stride"), [(1, 1), (9, 2)])
def test_rows_are_images_of_height_one(size: int, stride: int) -> None:
    weight, data = numbers(size, 20, 48, seed=1) / 4, numbers(2, 31, 20)
    x = relay.var("x", shape=data.shape)
    y = relay.nn.conv1d(x, relay.const(weight), strides=stride, data_layout="NWC", kernel_layout="WIO")
    function = relay.Function([x], relay.nn.relu(relay.add(y, relay.const(numbers(48, seed=3)))))
    assert operators(function) == ["expand_dims", NAME, "squeeze"]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), TARGET), "cpu")
    windows = np.lib.stride_tricks.sliding_window_view(data.astype("float64"), size, axis=1)[:, ::stride]
    expected = np.maximum(np.einsum("nwik,kio->nwo", windows, weight) + numbers(48, seed=3), 0)
    np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-4, atol=1e-5)


# A window of one element with strides; padding on sides of their own; dilation, whose elements are apart in memory; a
# batch that is known at run time only, with fewer positions than a tile; and windows of which parts see padding alone.
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("size", "strides", "padding", "dilation", "is_known"),
    [
        ((1, 1), (2, 2), (0, 0, 0, 0), (1, 1), True),
        ((3, 3), (2, 1), (1, 0, 2, 1), (1, 1), True),
        ((3, 2), (1, 2), (1, 2, 2, 1), (2, 3), True),
        ((5, 7), (3, 3), (0, 0, 0, 0), (1, 1), False),
        ((3, 3), (1, 1), (8, 9, 8, 9), (8, 9), True),
        ((3, 3), (2, 1), (6, 4, 5, 7), (3, 5), False),
        ((2, 3), (1, 2), (0, 6, 7, 0), (4, 6), True),
        ((3, 1), (1, 1), (7, 0, 7, 0), (7, 1), True),
        ((3, 3), (1, 1), (30, 30, 30, 30), (2, 3), True),
    ],
)
@pytest.mark.parametrize("has_residual", [True, False])
def test_windows_agree_with_numpy(
    size: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    is_known: bool,
    has_residual: bool,
) -> None:
    # With so many channels padding that windows reach far into is not copied.
    channels, units = -(-256 // max(padding)) if max(dilation) > 1 else -(-64 // math.prod(size)), 40
    weight, data = numbers(*size, channels, units, seed=1) / 8, numbers(2, 8, 9, channels)
    batch: Any = 2 if is_known else tvm.tirx.Var("n", "int64")
    window = {"strides": strides, "padding": padding, "dilation": dilation}
    sums = convolved(data.astype("float64"), weight, **window) + numbers(units, seed=3)
    function = layer((batch, 8, 9, channels), weight, False, **window)
    inputs = [data]
    if has_residual:
        inputs.append(numbers(*sums.shape, seed=4))
        x = function.params[0]
        other = relay.var("other", shape=(batch, *sums.shape[1:]))
        function = relay.Function([x, other], relay.nn.relu(relay.add(function.body.args[0], other)))
        sums = sums + inputs[1]
    assert operators(function) == ["nn.pad", NAME] if any(padding) else [NAME]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), TARGET), "cpu")
    np.testing.assert_allclose(machine.run(*inputs).numpy(), np.maximum(sums, 0), rtol=1e-4, atol=1e-5)


def convolved(
    data: np.ndarray, weight: np.ndarray, strides: tuple[int, int], padding: tuple[int, ...], dilation: tuple[int, int]
) -> np.ndarray:
    top, left, bottom, right = padding
    data = np.pad(data, ((0, 0), (top, bottom), (left, right), (0, 0)))
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape, dilation, strict=False)]
    windows = np.lib.stride_tricks.sliding_window_view(data, reach, (1, 2))
    windows = windows[:, :: strides[0], :: strides[1], :, :: dilation[0], :: dilation[1]]
    return np.einsum("nyxcij,ijco->nyxo", windows, weight)


@pytest.mark.sweep
@pytest.mark.parametrize("units", [4, 12, 20])
@pytest.mark.parametrize("is_known", [True, False])
def test_units_that_vectors_do_not_divide_end_in_shorter_ones(units: int, is_known: bool) -> None:
    weight, data = numbers(20, units, seed=1) / 4, numbers(2, 5, 7, 20)
    batch: Any = 2 if is_known else tvm.tirx.Var("n", "int64")
    function = layer((batch, 5, 7, 20), weight, True)
    assert operators(function) == [NAME]
    other = numbers(2, 5, 7, units, seed=4)
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), TARGET), "cpu")
    sums = data.astype("float64") @ weight + numbers(units, seed=3) + other
    np.testing.assert_allclose(machine.run(data, other).numpy(), np.maximum(sums, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("units", [8, 20, 24, 40, 72])
@pytest.mark.parametrize("is_known", [True, False])
def test_units_of_half_vectors_agree_with_numpy(units: int, is_known: bool) -> None:
    weight, data = numbers(20, units, seed=1) / 4, numbers(2, 5, 7, 20)
    batch: Any = 2 if is_known else tvm.tirx.Var("n", "int64")
    function = layer((batch, 5, 7, 20), weight, True)
    halves = UsePackedGemm(lanes=8, registers=16, passes=2)(InferType()(tvm.IRModule({"main": function})))
    other = numbers(2, 5, 7, units, seed=4)
    machine = vmkit.VirtualMachine(vmkit.compile(halves, TARGET), "cpu")
    sums = data.astype("float64") @ weight + numbers(units, seed=3) + other
    np.testing.assert_allclose(machine.run(data, other).numpy(), np.maximum(sums, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("units", [3, 18])
def test_units_that_are_no_multiple_of_four_stay_with_the_convolution(units: int) -> None:
    assert NAME not in operators(layer((2, 5, 7, 20), numbers(20, units), False))


def test_windows_over_images_of_any_size_are_one_kernel_for_all_channels() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any(), relay.Any(), 32))
    weights, y = [numbers(3, 3, a, b, seed=a) / 16 for a, b in ((32, 48), (48, 64), (64, 32))], x
    window: dict[str, Any] = {"strides": (2, 2), "padding": (1, 1, 1, 1)}
    for weight in weights:
        y = relay.nn.conv2d(y, relay.const(weight), **window, data_layout="NHWC", kernel_layout="HWIO")
    executable = vmkit.compile(tvm.IRModule({"main": relay.Function([x], y)}), TARGET)
    machine = vmkit.VirtualMachine(executable, "cpu")
    for height, width in ((9, 14), (3, 5), (33, 17)):
        data = expected = numbers(2, height, width, 32)
        for weight in weights:
            expected = convolved(expected.astype("float64"), weight, (2, 2), (1, 1, 1, 1), (1, 1))
        np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-3, atol=1e-4)
    names = {name for group in (executable.info.get("kernel_groups") or {}).values() for name in group}
    assert len({name for name in names if "packed_gemm" in name}) == 1


def test_of_two_layers_that_are_added_one_adds_the_other() -> None:
    data, weights = numbers(1, 4, 4, 16), [numbers(1, 1, 16, 16, seed=seed) for seed in (1, 2)]
    x = relay.var("x", shape=data.shape)
    layers = [relay.nn.conv2d(x, relay.const(w), data_layout="NHWC", kernel_layout="HWIO") for w in weights]
    function = relay.Function([x], relay.nn.relu(relay.add(*layers)))
    assert operators(function) == [NAME, NAME]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), TARGET), "cpu")
    expected = np.maximum(data.astype("float64") @ sum(w[0, 0] for w in weights), 0)
    np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_short_windows_and_parts_of_vectors_stay_with_the_convolution() -> None:
    assert "nn.conv2d" in operators(layer((1, 6, 6, 2), numbers(3, 3, 2, 32), False, strides=(2, 2)))
    assert "nn.conv2d" in operators(layer((1, 6, 6, 16), numbers(3, 3, 16, 8), False, strides=(2, 2)))
    assert "nn.conv2d" in operators(layer((1, 6, 6, 16), numbers(16, 22), False))  # three vectors are one block
    assert "nn.conv2d" in operators(layer((1, 6, 6, 16), numbers(16, 34), False))  # five vectors are no blocks of two


def test_windows_of_an_image_are_rows_where_products_are_many_beside_its_padded_copy() -> None:
    window = {"strides": (2, 2), "padding": (1, 1, 1, 1)}
    assert operators(layer((1, 6, 6, 3), numbers(3, 3, 3, 24), False, **window)) == ["nn.pad", NAME]
    assert "nn.conv2d" in operators(layer((1, 6, 6, 3), numbers(3, 3, 3, 16), False, **window))
    assert operators(layer((1, 6, 6, 3), numbers(3, 3, 3, 12), False)) == [NAME]


@pytest.mark.sweep
@pytest.mark.parametrize("units", [58, 30, 47])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("is_known", [True, False])
def test_of_units_that_are_no_multiple_of_four_the_last_block_overlaps(units: int, size: int, is_known: bool) -> None:
    weight, data = numbers(size, size, 20, units, seed=1) / 8, numbers(2, 5, 7, 20)
    batch: Any = 2 if is_known else tvm.tirx.Var("n", "int64")
    function = layer((batch, 5, 7, 20), weight, False)
    assert operators(function) == [NAME]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), TARGET), "cpu")
    window: Any = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1)}
    sums = convolved(data.astype("float64"), weight, **window) + numbers(units, seed=3)
    np.testing.assert_allclose(machine.run(data).numpy(), np.maximum(sums, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "strides", "padding", "dilation"),
    [
        ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
        ((3, 2), (1, 2), (1, 2, 2, 1), (2, 3)),
        ((5, 7), (3, 1), (0, 0, 0, 0), (1, 1)),
        ((3, 3), (1, 2), (12, 5, 12, 5), (12, 5)),
    ],
)
def test_windows_over_images_of_unknown_size_agree_with_numpy(
    size: tuple[int, int], strides: tuple[int, int], padding: tuple[int, int, int, int], dilation: tuple[int, int]
) -> None:
    """Tiles go on in the next line, and in the next image; of fewer positions they have fewer rows, at last one."""
    channels, units = -(-256 // max(padding)) if max(dilation) > 1 else -(-64 // math.prod(size)), 40
    weight = numbers(*size, channels, units, seed=1) / 8
    shape: Any = [*(tvm.tirx.Var(name, "int64") for name in "nhw"), channels]
    window = {"strides": strides, "padding": padding, "dilation": dilation}
    function = layer(tuple(shape), weight, False, **window)
    assert operators(function) == ["nn.pad", NAME] if any(padding) else [NAME]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), TARGET), "cpu")
    for batch, height, width in ((1, 6, 7), (1, 7, 9), (2, 6, 8), (3, 14, 11), (1, 40, 7), (0, 9, 9)):
        data = numbers(batch, height, width, channels)
        sums = convolved(data.astype("float64"), weight, **window) + numbers(units, seed=3)
        np.testing.assert_allclose(machine.run(data).numpy(), np.maximum(sums, 0), rtol=1e-4, atol=1e-5)
    if not any(padding):
        with pytest.raises(vmkit.errors.VMError, match="does not fit"):
            machine.run(numbers(1, 9, 6, channels))


def test_layers_of_other_sizes_share_kernels_at_level_1() -> None:
    shapes = [(1, 1, 24, 32), (1, 1, 32, 64), (3, 3, 64, 32), (3, 3, 32, 96)]
    weights = [numbers(*shape, seed=n) / math.sqrt(math.prod(shape[:3])) for n, shape in enumerate(shapes)]
    x = relay.var("x", shape=(1, 12, 12, 24))
    y, data = x, numbers(1, 12, 12, 24)
    expected = data
    for weight in weights:
        size, around = weight.shape[0], weight.shape[0] // 2
        y = relay.nn.conv2d(y, relay.const(weight), padding=around, data_layout="NHWC", kernel_layout="HWIO")
        padded = np.pad(expected, ((0, 0), (around, around), (around, around), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (1, 2))
        expected = np.einsum("nhwikl,klio->nhwo", windows, weight)
    kernels = {}
    for level in (1, 2):
        with vmkit.PassContext(opt_level=level, disabled_pass=["UseWinograd"]):
            executable = vmkit.compile(tvm.IRModule({"main": relay.Function([x], y)}), TARGET)
        result = vmkit.VirtualMachine(executable, "cpu").run(data).numpy()
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
        (group,) = executable.info["kernel_groups"].values()
        kernels[level] = sum("packed_gemm" in name for name in set(group))
    assert kernels == {1: 2, 2: 4}


def test_at_level_1_layers_over_images_of_any_size_share_a_kernel() -> None:
    weights = [numbers(1, 1, before, after, seed=after) / 8 for before, after in ((24, 32), (32, 64))]
    x = relay.var("x", shape=(relay.Any(), relay.Any(), relay.Any(), 24))
    y, data = x, numbers(2, 5, 3, 24)
    expected = data.astype("float64")
    for weight in weights:
        y = relay.nn.conv2d(y, relay.const(weight), data_layout="NHWC", kernel_layout="HWIO")
        expected = expected @ weight[0, 0]
    counts = {}
    for level in (1, 2):
        with vmkit.PassContext(opt_level=level):
            executable = vmkit.compile(tvm.IRModule({"main": relay.Function([x], y)}), TARGET)
        machine = vmkit.VirtualMachine(executable, "cpu")
        np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(machine.run(data[:1, :1, :2]).numpy(), expected[:1, :1, :2], rtol=1e-4, atol=1e-4)
        (group,) = executable.info["kernel_groups"].values()
        counts[level] = len({name for name in group if "packed_gemm" in name})
    assert counts == {1: 1, 2: 2}


@pytest.mark.parametrize("has_residual", [True, False])
def test_at_level_1_units_that_blocks_do_not_divide_share_kernels_with_others(has_residual: bool) -> None:
    units = (64, 72, 40, 100)
    x, data = relay.var("x", shape=(1, 5, 7, 64)), numbers(1, 5, 7, 64)
    params, y, expected, given = [x], x, data.astype("float64"), [data]
    for number, size in enumerate(units):
        weight = numbers(1, 1, expected.shape[3], size, seed=number) / 8
        y = relay.nn.conv2d(y, relay.const(weight), data_layout="NHWC", kernel_layout="HWIO")
        expected = expected @ weight[0, 0]
        if number % 2:
            bias = numbers(size, seed=10 + number)
            y, expected = relay.add(y, relay.const(bias)), expected + bias
        if has_residual:
            other, array = relay.var(f"other{number}", shape=(1, 5, 7, size)), numbers(1, 5, 7, size, seed=20 + number)
            params.append(other)
            given.append(array)
            y, expected = relay.add(y, other), expected + array
    with vmkit.PassContext(opt_level=1):
        executable = vmkit.compile(tvm.IRModule({"main": relay.Function(params, y)}), TARGET)
    result = vmkit.VirtualMachine(executable, "cpu").run(*given).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    (group,) = executable.info["kernel_groups"].values()
    assert sum("packed_gemm" in name for name in set(group)) == 1


@pytest.mark.parametrize("units", [4, 12, 20])
def test_at_level_1_few_units_end_in_shorter_vectors_or_overlap(units: int) -> None:
    weight, data = numbers(20, units, seed=1) / 4, numbers(2, 5, 7, 20)
    function = layer((2, 5, 7, 20), weight, True)
    other = numbers(2, 5, 7, units, seed=4)
    with vmkit.PassContext(opt_level=1):
        machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), TARGET), "cpu")
    sums = data.astype("float64") @ weight + numbers(units, seed=3) + other
    np.testing.assert_allclose(machine.run(data, other).numpy(), np.maximum(sums, 0), rtol=1e-4, atol=1e-5)


def test_blocks_overlap_only_where_there_are_as_many_units() -> None:
    data, weight = relay.var("data", shape=(1, 5, 7, 20)), relay.const(numbers(1, 20, 16))
    call = build("nn.contrib_packed_gemm", data, weight, lanes=8, units=12, overlaps=True)
    with pytest.raises(TypeCheckError, match="blocks of 16 units cannot overlap, of which there are 12"):
        InferType()(tvm.IRModule({"main": relay.Function([data], call)}))


@pytest.mark.parametrize(
    ("channels", "apart", "padding", "copied"),
    [
        (32, 12, 12, ((0, 0), (0, 1), (0, 0), (0, 0))),
        (16, 2, 2, ((0, 0), (2, 2), (2, 2), (0, 0))),  # little of it, which takes less than finding it for each part
        (32, 12, 13, ((0, 0), (13, 13), (13, 13), (0, 0))),  # windows of padding alone, of an image without elements
    ],
)
def test_padding_that_windows_reach_far_into_is_one_line(
    channels: int, apart: int, padding: int, copied: tuple[tuple[int, int], ...]
) -> None:
    shape: Any = [*(tvm.tirx.Var(name, "int64") for name in "nhw"), channels]
    function = layer(tuple(shape), numbers(3, 3, channels, 32), False, padding=(padding,) * 4, dilation=(apart, apart))
    mod = UsePackedGemm()(InferType()(tvm.IRModule({"main": function})))
    pad = next(node for node in post_order(mod["main"]) if relay.ir.is_call(node, "nn.pad"))
    assert tuple(tuple(int(n) for n in axis) for axis in pad.attrs.pad_width) == copied
