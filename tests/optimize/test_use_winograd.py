"""Winograd's tiles: which layers they get, and that the kernels compute the convolution and what follows it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from tests.kernels.written_kernels import convolved
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.optimize import UseWinograd
from vmkit.relay.ir import is_call
from vmkit.relay.ir.visit import post_order
from vmkit.relay.op import build
from vmkit.relay.transform import InferType

NAME = "nn.contrib_conv2d_winograd_fused"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


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
            y = relay.add(y, relay.nn.softmax(y))
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
    powers = np.exp(value - value.max(-1, keepdims=True))
    return value + powers / powers.sum(-1, keepdims=True)


def operators(function: relay.Function, lanes: int = 16, passes: int = 1) -> list[str]:
    mod = UseWinograd(lanes=lanes, registers=32, passes=passes)(InferType()(tvm.IRModule({"main": function})))
    calls = (node for node in post_order(mod["main"]) if isinstance(node, relay.Call))
    return [call.op.name for call in calls]


@pytest.mark.sweep
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


def test_over_images_of_any_size_one_kernel_is_for_all_channels() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any(), relay.Any(), 32))
    weights, y = [numbers(3, 3, a, b, seed=a) / 16 for a, b in ((32, 48), (48, 80))], x
    for weight in weights:
        y = relay.nn.conv2d(y, relay.const(weight), padding=(1, 1), data_layout="NHWC", kernel_layout="HWIO")
    function = relay.Function([x], y)
    assert operators(function) == [NAME, NAME]
    executable = vmkit.compile(tvm.IRModule({"main": function}), "llvm")
    machine = vmkit.VirtualMachine(executable, "cpu")
    for height, width in ((18, 13), (1, 1), (5, 30)):
        data = expected = numbers(2, height, width, 32)
        for weight in weights:
            expected = convolved(expected, weight, (1, 1, 1, 1))
        np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-3, atol=1e-3)
    names = {name for group in (executable.info.get("kernel_groups") or {}).values() for name in group}
    assert len({name for name in names if "winograd" in name}) == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_small_images_of_unknown_size_are_summed(is_known: bool) -> None:
    """A kernel of tiles reads a weight four times as long, and computes a dozen tiles of which one is needed."""
    weight = numbers(3, 3, 64, 64, seed=1) / 24
    shape = (1, 28, 28, 64) if is_known else (1, relay.Any(), relay.Any(), 64)
    function = layer(shape, weight, "residual")
    changed = UseWinograd(lanes=16, registers=32)(InferType()(tvm.IRModule({"main": function})))["main"]
    (call,) = (node for node in post_order(changed) if is_call(node, NAME))
    assert bool(call.attrs.few) == (not is_known)
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), "llvm"), "cpu")
    for height, width in ((28, 28),) if is_known else ((1, 1), (2, 3), (9, 5), (28, 28)):
        data, other = numbers(1, height, width, 64), numbers(1, height, width, 64, seed=5)
        expected = after(convolved(data, weight, (1, 1, 1, 1)), "residual", other)
        np.testing.assert_allclose(machine.run(data, other).numpy(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("passes", [1, 2])
def test_units_that_work_twice_for_a_vector_have_time_for_larger_weights(passes: int) -> None:
    weight, data = numbers(3, 3, 192, 192, seed=1) / 40, numbers(1, 7, 7, 192)
    function = layer(data.shape, weight, "relu")
    assert (NAME in operators(function, passes=passes)) == (passes == 2)
    compiled = UseWinograd(lanes=16, registers=32, passes=passes)(InferType()(tvm.IRModule({"main": function})))
    result = vmkit.VirtualMachine(vmkit.compile(compiled, "llvm"), "cpu").run(data).numpy()
    expected = after(convolved(data, weight, (1, 1, 1, 1)), "relu", None)
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
    assert operators(function) == ["expand_dims", "expand_dims", "expand_dims", NAME, "squeeze"]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), "llvm"), "cpu")
    sums = convolved(data[:, None], weight[None], (0, 2, 0, 2))[:, 0] + numbers(48, seed=3) + other
    np.testing.assert_allclose(machine.run(data, other).numpy(), np.maximum(sums, 0), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("channels", [16, 96])  # of few channels a weight is transformed at once
def test_weights_are_transformed_at_once_when_a_program_starts_or_by_each_call(channels: int) -> None:
    weight, data = numbers(3, 3, channels, channels, seed=1) / 16, numbers(1, 9, 7, channels)
    x, w = relay.var("x", shape=data.shape), relay.var("w", shape=weight.shape)
    plan = {"tile": (4, 4), "block": 16, "rows": 2, "count": 4, "lanes": 16, "padding": (1, 1, 1, 1)}
    given, held = (build(NAME, x, each, **plan) for each in (w, relay.const(weight)))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, w], relay.Tuple([given, held])), "llvm"))
    for result in machine.run(data, weight):
        np.testing.assert_allclose(result.numpy(), convolved(data, weight, (1, 1, 1, 1)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "changes", "reason"),
    [
        ((3, 3, 16, 24), {}, "tiles of [4, 4], blocks of 16 and Tensor[(3, 3, 16, 24), float32] do not fit"),
        ((3, 3, 32, 16), {}, "do not fit"),
        ((3, 3, 16, 16), {"tile": (3, 3)}, "do not fit"),
        ((3, 3, 16, 16), {"tile": (4,)}, "tile has two values"),
        ((3, 3, 16, 16), {"block": 8}, "channels must be known multiples of 16, not 16 and 8"),
        ((3, 3, 16, relay.Any()), {}, "the shape of the weight must be known"),
    ],
)
def test_weights_that_do_not_fit_their_tiles(shape: tuple[Any, ...], changes: dict[str, Any], reason: str) -> None:
    plan = {"tile": (4, 4), "block": 16, "rows": 2, "count": 4, "lanes": 16, **changes}
    x, w = relay.var("x", shape=(1, 9, 7, 16)), relay.var("w", shape=shape)
    with pytest.raises(TypeCheckError, match=re.escape(reason)):
        InferType()(tvm.IRModule({"main": relay.Function([x, w], build(NAME, x, w, **plan))}))


def test_what_follows_is_taken_in_as_long_as_nothing_else_uses_what_is_between() -> None:
    weight = numbers(3, 3, 32, 48)
    for ending in ("plain", "relu", "clip", "residual"):
        assert operators(layer((1, 28, 28, 32), weight, ending)) == [NAME]
    assert operators(layer((1, 28, 28, 32), weight, "used twice")) == [NAME, "nn.softmax", "add"]


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


def test_layers_that_differ_in_sizes_alone_share_a_kernel_at_the_first_level() -> None:
    x, data = relay.var("x", shape=(1, 40, 40, 32)), numbers(1, 40, 40, 32)
    y, expected = x, data
    for seed, (inner, outer) in enumerate(((32, 64), (64, 96), (96, 32))):
        weight = numbers(3, 3, inner, outer, seed=seed) / 16
        y = relay.nn.relu(
            relay.nn.conv2d(y, relay.const(weight), padding=(1, 1), data_layout="NHWC", kernel_layout="HWIO")
        )
        expected = np.maximum(convolved(expected, weight, (1, 1, 1, 1)), 0)
    kernels = {}
    for level in (1, 2):
        with vmkit.PassContext(opt_level=level):
            executable = vmkit.compile(tvm.IRModule({"main": relay.Function([x], y)}), "llvm -num-cores=1")
        result = vmkit.VirtualMachine(executable, "cpu").run(data).numpy()
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=2e-3)
        (group,) = executable.info["kernel_groups"].values()
        kernels[level] = sum("winograd" in name for name in set(group))
    assert kernels == {1: 1, 2: 3}


@pytest.mark.parametrize("count", [8, 12])
def test_layers_of_many_sizes_share_kernels(count: int) -> None:
    channels = [32, *(32 + 16 * seed for seed in range(count))]
    x, data = relay.var("x", shape=(1, 32, 32, 32)), numbers(1, 32, 32, 32)
    y, expected = x, data
    for seed, (inner, outer) in enumerate(pairwise(channels)):
        weight = numbers(3, 3, inner, outer, seed=seed) / np.float32(3 * inner**0.5)
        y = relay.nn.conv2d(y, relay.const(weight), padding=(1, 1), data_layout="NHWC", kernel_layout="HWIO")
        expected = convolved(expected, weight, (1, 1, 1, 1))
    function = relay.Function([x], y)
    changed = UseWinograd(lanes=8, registers=16)(InferType()(tvm.IRModule({"main": function})))["main"]
    calls = [node for node in post_order(changed) if is_call(node, NAME)]
    assert [call.attrs.is_shared for call in calls] == [count > 8] * count
    executable = vmkit.compile(tvm.IRModule({"main": function}), "llvm -num-cores=1")
    result = vmkit.VirtualMachine(executable, "cpu").run(data).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=2e-3)
    (group,) = executable.info["kernel_groups"].values()
    kernels = len({name for name in group if "winograd" in name})
    assert kernels == 8 if count == 8 else kernels < 6


@pytest.mark.parametrize("is_most", [True, False])
def test_at_the_first_level_tiles_are_for_programs_that_are_mostly_such_layers(is_most: bool) -> None:
    shape = (1, 28, 28, 64)
    x, data = relay.var("x", shape=shape), numbers(*shape)
    weights = [numbers(3, 3, 64, 64, seed=1) / 24]
    if not is_most:
        weights += [numbers(1, 1, 64, 512, seed=2) / 8, numbers(1, 1, 512, 1024, seed=3) / 16]
    y, expected = x, data
    for weight in weights:
        padding = weight.shape[0] // 2
        y = relay.nn.conv2d(
            y, relay.const(weight), padding=(padding, padding), data_layout="NHWC", kernel_layout="HWIO"
        )
        expected = convolved(expected, weight, (padding,) * 4)
    function = relay.Function([x], y)
    assert NAME in operators(function)
    shared = UseWinograd(lanes=16, registers=32, shares_kernels=True)
    changed = shared(InferType()(tvm.IRModule({"main": function})))["main"]
    called = [node.op.name for node in post_order(changed) if isinstance(node, relay.Call)]
    assert (NAME in called) == is_most
    # A kernel that no other layer shares knows its sizes.
    assert not any(node.attrs.is_shared for node in post_order(changed) if is_call(node, NAME))
    with vmkit.PassContext(opt_level=1):
        executable = vmkit.compile(tvm.IRModule({"main": function}), "llvm")
    result = vmkit.VirtualMachine(executable, "cpu").run(data).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=2e-3)


def test_weights_that_float16_holds_are_constants_of_it() -> None:
    weight = numbers(3, 3, 64, 64).astype("float16").astype("float32")
    for kernel, dtype in ((weight, "float16"), (weight + np.float32(1e-6), "float32")):
        function = layer((1, 12, 12, 64), kernel, "relu")
        mod = UseWinograd(lanes=16, registers=32)(InferType()(tvm.IRModule({"main": function})))
        (call,) = (node for node in post_order(mod["main"]) if is_call(node, NAME))
        assert call.args[1].checked_type.dtype == dtype and tuple(call.args[1].checked_type.shape) == kernel.shape
        x = numbers(1, 12, 12, 64, seed=2)
        got = vmkit.VirtualMachine(vmkit.compile(function)).run(x).numpy()
        np.testing.assert_allclose(got, after(convolved(x, kernel, (1, 1, 1, 1)), "relu", None), rtol=1e-3, atol=1e-3)


def test_a_weight_of_float16_that_comes_at_run_time_is_widened() -> None:
    weight = numbers(3, 3, 16, 16).astype("float16")
    x, w = relay.var("x", shape=(1, 8, 8, 16)), relay.var("w", shape=weight.shape, dtype="float16")
    call = build(
        NAME, x, w, tile=[2, 2], block=16, rows=1, count=1, lanes=16, padding=[1, 1, 1, 1], has_bias=False,
        is_parallel_over_tiles=False, a_min=float("-inf"), a_max=float("inf"), is_shared=False,
    )  # fmt: skip
    data = numbers(1, 8, 8, 16, seed=1)
    got = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, w], call))).run(data, weight).numpy()
    np.testing.assert_allclose(got, convolved(data, weight.astype("float32"), (1, 1, 1, 1)), rtol=1e-3, atol=1e-3)
