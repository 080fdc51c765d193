"""Transposed convolutions as plain ones: which they are, and that their values stay."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError, VMError
from vmkit.optimize import UseSubpixel
from vmkit.optimize.subpixel import Plan, TransposedAxis, plan_phases
from vmkit.relay.ir.visit import post_order
from vmkit.relay.op import build
from vmkit.relay.transform import InferType

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def spread(data: np.ndarray, weight: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """Return the transposed convolution of data (N, C, ...) as its definition says: each input adds to outputs."""
    rank, groups = data.ndim - 2, attrs.get("groups", 1)
    strides, dilation = attrs.get("strides", [1] * rank), attrs.get("dilation", [1] * rank)
    padding, extra = attrs.get("padding", [0] * 2 * rank), attrs.get("output_padding", [0] * rank)
    sizes, kernel = data.shape[2:], weight.shape[2:]
    whole = [
        (n - 1) * s + (k - 1) * d + 1 + e for n, s, k, d, e in zip(sizes, strides, kernel, dilation, extra, strict=True)
    ]
    result = np.zeros((data.shape[0], weight.shape[1] * groups, *whole))
    parts = [p.reshape(p.shape[0], -1, *p.shape[2:]) for p in np.split(data, groups, 1)]
    for tap in itertools.product(*map(range, kernel)):
        firsts = [k * d for k, d in zip(tap, dilation, strict=True)]
        at = tuple(slice(f, f + (n - 1) * s + 1, s) for f, n, s in zip(firsts, sizes, strides, strict=True))
        of_groups = np.split(weight[(slice(None), slice(None), *tap)], groups, 0)
        made = [np.einsum("nc...,co->no...", x, w) for x, w in zip(parts, of_groups, strict=True)]
        result[(slice(None), slice(None), *at)] += np.concatenate(made, 1)
    return result[(slice(None), slice(None), *(slice(padding[i], w - padding[rank + i]) for i, w in enumerate(whole)))]


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "each input in a block of its own": ((2, 6, 4, 5), (6, 16, 2, 2), {"strides": [2, 2]}),
    "blocks that overlap": ((1, 6, 4, 5), (6, 3, 4, 4), {"strides": [2, 2], "padding": [1, 1, 1, 1]}),
    "phases with unlike taps": (
        (2, 8, 4, 3), (8, 16, 3, 3), {"strides": [2, 2], "padding": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    "phases of one axis apart": ((1, 8, 4, 3), (8, 16, 3, 2), {"strides": [2, 2]}),
    "every stride its own": ((1, 4, 3, 4), (4, 5, 3, 5), {"strides": [1, 3], "padding": [0, 2, 1, 1]}),
    "stride 1": ((1, 4, 5, 6), (4, 8, 3, 3), {"padding": [1, 1, 1, 1]}),
    "more padding than kernel": ((1, 4, 7, 6), (4, 8, 2, 3), {"strides": [1, 2], "padding": [2, 3, 3, 4]}),
    "phases without a tap": ((1, 4, 3, 4), (4, 8, 2, 1), {"strides": [3, 3], "output_padding": [2, 0]}),
    "dilated": ((1, 4, 5, 4), (4, 8, 3, 3), {"strides": [2, 3], "dilation": [3, 2], "padding": [1, 2, 1, 0]}),
    "dilated by the stride": ((1, 4, 5, 4), (4, 8, 3, 3), {"strides": [2, 2], "dilation": [2, 4]}),
    "groups": ((1, 6, 4, 5), (6, 4, 4, 3), {"strides": [2, 2], "groups": 2, "padding": [1, 0, 1, 1]}),
    "depthwise": ((1, 6, 4, 5), (6, 1, 4, 4), {"strides": [2, 2], "groups": 6, "padding": [1, 1, 1, 1]}),
    "one position": ((2, 6, 1, 1), (6, 8, 4, 3), {"strides": [1, 2], "padding": [0, 1, 1, 0]}),
    "one position, dilated": ((1, 4, 1, 1), (4, 8, 3, 3), {"dilation": [2, 2], "output_padding": [1, 0]}),
    "one axis": ((2, 6, 9), (6, 8, 16), {"strides": [8], "padding": [4, 4]}),
    "three axes": ((1, 4, 2, 3, 2), (4, 8, 2, 2, 2), {"strides": [2, 2, 2]}),
    "three axes, unlike taps": (
        (1, 4, 2, 3, 2), (4, 16, 3, 3, 3),
        {"strides": [2, 2, 2], "padding": [1] * 6, "output_padding": [1, 1, 1]},
    ),
}  # fmt: skip


def transposed(x: Any, weight: Any, attrs: dict[str, Any], layout: str | None = None, kernel: str | None = None) -> Any:
    rank = len(weight.shape) - 2 if isinstance(weight, np.ndarray) else len(SPATIAL)
    spatial = SPATIAL[rank]
    filters = relay.const(weight) if isinstance(weight, np.ndarray) else weight
    layouts = {"data_layout": layout or f"NC{spatial}", "kernel_layout": kernel or f"IO{spatial}"}
    return build(f"nn.conv{rank}d_transpose", x, filters, **layouts, **attrs)


def operators(function: relay.Function) -> list[str]:
    mod = UseSubpixel(16)(InferType()(tvm.IRModule({"main": function})))
    return [node.op.name for node in post_order(mod["main"]) if isinstance(node, relay.Call)]


def compiled(function: relay.Function) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(function, target="llvm"), "cpu")


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_definition(name: str) -> None:
    shape, weight_shape, attrs = CASES[name]
    weight, data = numbers(*weight_shape, seed=1), numbers(*shape)
    symbols = [tvm.tirx.Var(f"s{i}", "int64") if i != 1 else d for i, d in enumerate(shape)]
    static, symbolic = relay.var("static", shape=shape), relay.var("symbolic", shape=symbols)
    both = [transposed(x, weight, attrs) for x in (static, symbolic)]
    function = relay.Function([static, symbolic], relay.Tuple(both))
    assert not any(op.endswith("_transpose") for op in operators(relay.Function([static], both[0])))
    larger = numbers(*(d if i == 1 else d + 1 for i, d in enumerate(shape)), seed=2)
    for x, y in zip(compiled(function).run(data, larger), (data, larger), strict=True):
        np.testing.assert_allclose(x.numpy(), spread(y, weight, attrs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["blocks that overlap", "phases with unlike taps", "dilated", "groups", "depthwise"])
def test_weights_that_are_no_constants(name: str) -> None:
    shape, weight_shape, attrs = CASES[name]
    x, w = relay.var("x", shape=(relay.Any(), *shape[1:])), relay.var("w", shape=weight_shape)
    function = relay.Function([x, w], build("nn.conv2d_transpose", x, w, **attrs))
    assert "nn.conv2d_transpose" not in operators(function)
    data, weight = numbers(*shape), numbers(*weight_shape, seed=1)
    result = compiled(function).run(data, weight).numpy()
    np.testing.assert_allclose(result, spread(data, weight, attrs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("layout", "kernel"), [("NHWC", "HWOI"), ("NHWC", "IOHW"), ("HWNC", "OIHW"), ("NCHW4c", "IOHW4i2o")]
)
def test_every_layout(layout: str, kernel: str) -> None:
    data, weight, attrs = numbers(2, 8, 3, 4), numbers(8, 4, 4, 3, seed=1), {"strides": [2, 2]}
    x = relay.var("x", shape=data.shape)
    y = build(
        "nn.conv2d_transpose",
        build("layout_transform", x, "NCHW", layout),
        build("layout_transform", relay.const(weight), "IOHW", kernel),
        data_layout=layout,
        kernel_layout=kernel,
        **attrs,
    )
    function = relay.Function([x], build("layout_transform", y, layout, "NCHW"))
    assert "nn.conv2d_transpose" not in operators(function)
    result = compiled(function).run(data).numpy()
    np.testing.assert_allclose(result, spread(data, weight, attrs), rtol=1e-4, atol=1e-4)


def test_integers_are_exact() -> None:
    rng = np.random.default_rng(0)
    data, weight = (rng.integers(-128, 128, s).astype("int8") for s in ((1, 5, 4, 4), (5, 6, 3, 3)))
    attrs = {"strides": [2, 2], "padding": [1, 1, 1, 1]}
    x = relay.var("x", shape=data.shape, dtype="int8")
    function = relay.Function([x], transposed(x, weight, attrs | {"out_dtype": "int32"}))
    result = compiled(function).run(data).numpy()
    assert result.dtype == "int32"
    np.testing.assert_array_equal(result, spread(data.astype("int64"), weight.astype("int64"), attrs))


def test_a_scale_after_it_and_a_bias_go_into_its_kernels() -> None:
    data, weight, scale, bias = numbers(1, 4, 3, 3), numbers(4, 16, 2, 2, seed=1), numbers(16, 1, 1), numbers(16, 1, 1)
    x = relay.var("x", shape=data.shape)
    y = transposed(x, weight, {"strides": [2, 2]}) * relay.const(scale) + relay.const(bias)
    result = compiled(relay.Function([x], y)).run(data).numpy()
    expected = spread(data, weight, {"strides": [2, 2]}) * scale + bias
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_a_result_that_may_have_no_size_stays_as_it_is() -> None:
    x = relay.var("x", shape=(1, 4, relay.Any(), 5))
    attrs = {"strides": [2, 2], "padding": [2, 0, 2, 0]}
    function = relay.Function([x], transposed(x, numbers(4, 3, 1, 1), attrs))
    assert operators(function) == ["nn.conv2d_transpose"]


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 4), (4, 0)])
def test_no_channels_stay_as_they_are(inputs: int, outputs: int) -> None:
    data, weight = numbers(2, inputs, 4, 5), numbers(inputs, outputs, 3, 3)
    x = relay.var("x", shape=data.shape)
    machine = compiled(relay.Function([x], transposed(x, weight, {})))
    np.testing.assert_array_equal(machine.run(data).numpy(), np.zeros((2, outputs, 6, 7)))


def test_data_too_short_for_a_result_is_refused() -> None:
    n = tvm.tirx.Var("n", "int64")
    x, weight, attrs = relay.var("x", shape=(1, 4, n, 5)), numbers(4, 16, 3, 3), {"strides": [2, 2], "padding": [1] * 4}
    function = relay.Function([x], transposed(x, weight, attrs))
    assert "nn.conv2d_transpose" not in operators(function)
    machine = compiled(function)
    assert machine.run(numbers(1, 4, 1, 5)).numpy().shape == (1, 16, 1, 9)
    with pytest.raises(VMError, match="so the result has no size"):
        machine.run(numbers(1, 4, 0, 5))


def plan(
    kernel: int, stride: int, before: int, grown: int, channels: int, size: int | None = None, **more: Any
) -> Plan:
    axis = TransposedAxis(kernel, stride, 1, before, grown, size)
    return plan_phases([axis, axis], channels, more.get("is_depthwise", False), 16)


def windows(made: Plan) -> Sequence[tuple[int, ...]]:
    return [tuple(part.window for part in parts) for parts in made.convolutions]


def test_kernels_of_whole_strides_are_one_convolution_without_zeros() -> None:
    assert windows(plan(2, 2, 0, 0, 64)) == [(1, 1)]
    assert windows(plan(4, 2, 1, 0, 64)) == [(2, 2)]
    taps = plan(4, 2, 1, 0, 64).axes[0].parts[0].taps
    assert sorted(k for phase in taps for k in phase) == [0, 1, 2, 3]


def test_phases_with_unlike_taps_are_convolutions_of_their_own_where_zeros_cost_more() -> None:
    assert windows(plan(3, 2, 1, 0, 64)) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert windows(plan(3, 2, 1, 0, 2)) == [(2, 2)]  # all phases fit into a vector


def test_each_phase_of_a_depthwise_one_is_a_convolution() -> None:
    assert windows(plan(4, 2, 1, 0, 1, is_depthwise=True)) == [(2, 2)] * 4


def test_one_position_is_multiplied_with_every_tap_once() -> None:
    made = plan(4, 1, 0, 3, 64, size=1)
    assert windows(made) == [(1, 1)] and made.phases == 16


def interleaved(*shapes: Sequence[Any], **changed: Any) -> relay.Function:
    """Return a program of two tensors whose phases are put side by side."""
    attrs = {"strides": [2, 3], "joined": [0, 1], "crop": [0, 1], "rest": [1, 2], "shifts": [[0, 0], [0, 0]], **changed}
    tensors = [relay.var(f"x{at}", shape=shape) for at, shape in enumerate(shapes)]
    return relay.Function(tensors, build("nn.contrib_interleave_subpixels", relay.Tuple(tensors), **attrs))


@pytest.mark.parametrize(
    ("second", "changed", "message"),
    [
        ((2, 1, 4, 6), {}, "axis 1 of tensor 1 has 1 elements, but 2 are read"),
        ((1, 3, 4, 6), {}, "axis 0 of tensor 1 has 1 elements, but 2 are read"),
        ((2, 3, 4, 3), {}, "axis 3 of tensor 1 has 3 elements, but 6 are read"),
        ((2, 3, 4, 6), {"shifts": [[0, 0], [2, 0]]}, "axis 1 of tensor 1 has 3 elements, but 4 are read"),
        ((2, 3, 4, 6), {"shifts": [[0, -1], [0, 0]]}, "tensor 0 is read before the begin of spatial axis 1"),
        ((2, 3, 4, 6), {"crop": [3, 1]}, "axis 1 of tensor 0 has 3 elements, but 4 are read"),
        ((2, 3, 4, 6), {"strides": [2, 0]}, "must be positive"),
    ],
)
def test_tensors_that_lack_what_is_read_are_refused(second: Sequence[int], changed: Any, message: str) -> None:
    with pytest.raises(TypeCheckError, match=message):
        vmkit.compile(interleaved((2, 3, 4, 6), second, **changed))


def test_tensors_of_unknown_sizes_are_compared_when_the_program_runs() -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(interleaved((2, relay.Any(), 4, 6), (2, relay.Any(), 4, 6))))
    first = numbers(2, 5, 4, 6)
    assert machine.run(first, first[:, :4].copy()).numpy().shape == (2, 9, 10, 2)
    with pytest.raises(VMError, match="axis 1 of tensor 1 has fewer elements than are read"):
        machine.run(first, first[:, :3].copy())
