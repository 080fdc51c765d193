"""Which convolutions keep their channels first: few ones of much data, and none of a network's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.optimize.layout_choice import channels_first
from vmkit.relay.transform import InferType
from vmkit.target.processor import Processor, processor_of

AVX2, AVX512 = (processor_of(tvm.target.Target({"kind": "llvm", "mcpu": cpu})) for cpu in ("znver3", "skylake-avx512"))


def conv(data: relay.Expr, outer: int, inner: int, size: int, **attributes: Any) -> relay.Expr:
    weight = np.random.default_rng(0).normal(size=(outer, inner, size, size)).astype("float32") / 8
    return relay.nn.conv2d(data, relay.const(weight), padding=size // 2, **attributes)


def kept(body: relay.Expr, processor: Processor) -> int:
    function = relay.Function(list(relay.analysis.free_vars(body)), body)
    return len(channels_first(InferType()(tvm.IRModule({"main": function}))["main"], processor))


@pytest.mark.parametrize("processor", [AVX2, AVX512])
@pytest.mark.parametrize("batch", [1, tvm.tirx.Var("n", "int64")])
def test_data_that_costs_more_to_turn_stays(processor: Processor, batch: Any) -> None:
    x = relay.var("x", shape=(batch, 32, 56, 56))
    assert kept(relay.nn.relu(conv(x, 32, 1, 3, groups=32)), processor) == 1
    assert kept(conv(x, 8, 32, 1), processor) == 1


def test_results_are_turned_too() -> None:
    x = relay.var("x", shape=(1, 1, 16000))
    weight = relay.const(np.ones((64, 1, 10), "float32"))
    assert kept(relay.nn.conv1d(x, weight), AVX2) == 1
    assert kept(relay.Tuple([relay.nn.conv1d(x, weight)]), AVX2) == 1


def test_results_that_others_read_are_turned_too() -> None:
    # Channels last would be faster but for the result, 64 times as large as the data, which has to be turned.
    x = relay.var("x", shape=(1, 1, 16000))
    weight = relay.const(np.ones((64, 1, 10), "float32"))
    assert kept(relay.reshape(relay.nn.conv1d(x, weight), (64, 15991)), AVX512) == 1


@pytest.mark.parametrize(
    ("channels", "size", "strides", "width"),
    [(96, 7, 1, 56), (64, 7, 1, 28), (64, 5, 1, 28), (64, 7, 2, 56), (240, 5, 2, 28), (144, 3, 2, 57), (64, 3, 2, 28)],
)
def test_windows_that_share_lines_stay(channels: int, size: int, strides: int, width: int) -> None:
    x = relay.var("x", shape=(1, channels, width, width))
    assert kept(conv(x, channels, 1, size, groups=channels, strides=(strides, strides)), AVX512) == 1


@pytest.mark.parametrize(
    ("channels", "size", "strides", "width"), [(576, 3, 2, 14), (960, 3, 1, 7), (384, 7, 1, 14), (672, 5, 2, 14)]
)
def test_channels_of_small_images_go_last(channels: int, size: int, strides: int, width: int) -> None:
    x = relay.var("x", shape=(1, channels, width, width))
    assert kept(conv(x, channels, 1, size, groups=channels, strides=(strides, strides)), AVX512) == 0


def test_windows_over_images_of_unknown_sizes_go_last() -> None:
    x = relay.var("x", shape=(1, 64, tvm.tirx.Var("h", "int64"), tvm.tirx.Var("w", "int64")))
    assert kept(conv(x, 64, 1, 7, groups=64), AVX512) == 0


@pytest.mark.parametrize("processor", [AVX2, AVX512])
def test_channels_that_do_not_fill_vectors_stay(processor: Processor) -> None:
    assert kept(conv(relay.var("x", shape=(1, 30, 56, 56)), 30, 1, 5, groups=30), processor) == 1
    assert kept(conv(relay.var("x", shape=(1, 64, 57, 57)), 33, 64, 3, strides=(2, 2)), processor) == 1
    assert kept(conv(relay.var("x", shape=(1, 256, 13, 13)), 255, 256, 1), processor) == 1


def test_images_of_few_channels_stay() -> None:
    assert kept(conv(relay.var("x", shape=(1, 3, 224, 224)), 32, 3, 3, strides=(2, 2)), AVX512) == 1
    assert kept(conv(relay.var("x", shape=(1, 1, 28, 28)), 16, 1, 5), AVX2) == 1


def test_a_channel_that_would_not_fill_a_block_stays() -> None:
    x, weight = relay.var("x", shape=(1, 1, 16000)), relay.const(np.ones((1, 1, 256), "float32"))
    assert kept(relay.nn.conv1d(x, weight, strides=2), AVX2) == 1


@pytest.mark.parametrize("processor", [AVX2, AVX512])
def test_sums_that_are_most_of_the_work_go_last(processor: Processor) -> None:
    assert kept(conv(relay.var("x", shape=(1, 256, 14, 14)), 256, 256, 3), processor) == 0
    assert kept(conv(relay.var("x", shape=(1, 1024, 7, 7)), 512, 1024, 1), processor) == 0


@pytest.mark.parametrize("processor", [AVX2, AVX512])
@pytest.mark.parametrize("sizes", [(512,), (14, 37), (4, 8, 16)])
def test_a_sum_over_whole_lines_alone_stays(processor: Processor, sizes: tuple[int, ...]) -> None:
    x = relay.var("x", shape=(1, 128, *sizes))
    weight = relay.const(np.ones((128, 128, *[1] * len(sizes)), "float32"))
    made = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}[len(sizes)]
    assert kept(made(x, weight), processor) == 1
    # Two of them are turned once together.
    assert kept(made(relay.nn.relu(made(x, weight)), weight), processor) == 0


def test_layers_that_follow_each_other_are_chosen_for_together() -> None:
    x = relay.var("x", shape=(1, 32, 56, 56))
    layers = conv(x, 32, 1, 3, groups=32)
    for _ in range(6):
        layers = relay.nn.relu(relay.nn.bias_add(conv(layers, 32, 32, 3), relay.const(np.ones(32, "float32"))))
    assert kept(layers, AVX2) == 0
    apart = relay.reshape(conv(x, 32, 1, 3, groups=32), (1, 32, 56, 56))
    assert kept(conv(conv(apart, 256, 32, 3), 256, 256, 3), AVX2) == 1


def test_pools_and_weights_that_are_not_constant_go_last() -> None:
    x, w = relay.var("x", shape=(1, 32, 56, 56)), relay.var("w", shape=(32, 1, 3, 3))
    assert kept(relay.nn.max_pool2d(conv(x, 32, 1, 3, groups=32), (3, 3)), AVX2) == 0
    assert kept(relay.nn.conv2d(x, w, groups=32), AVX2) == 0


def test_a_layer_that_stays_computes_what_one_that_goes_does() -> None:
    x = relay.var("x", shape=(2, 32, 30, 31))
    body = relay.nn.relu(conv(x, 64, 1, 3, groups=32, strides=(2, 2)))
    module = tvm.IRModule({"main": relay.Function([x], body)})
    value = np.random.default_rng(1).normal(size=(2, 32, 30, 31)).astype("float32")
    results = []
    for layouts in ([], ["ConvertLayout"]):
        with vmkit.PassContext(disabled_pass=layouts):
            results.append(vmkit.VirtualMachine(vmkit.compile(module, "llvm"), "cpu").run(value).numpy())
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)
