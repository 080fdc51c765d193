"""Transposed convolutions of squares side by side are convolutions by 1x1 whose channels go to their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.relay import Call, transform

_RANDOM = np.random.default_rng(0)


def _function(shape: tuple[Any, ...], weight: np.ndarray, **changed: Any) -> relay.Function:
    x = relay.var("x", shape=shape, dtype=str(weight.dtype))
    attrs: dict[str, Any] = {"strides": weight.shape[2:], "kernel_size": weight.shape[2:], "channels": weight.shape[1]}
    return relay.Function([x], relay.nn.conv2d_transpose(x, relay.const(weight), **{**attrs, **changed}))


def _operators(function: relay.Function) -> list[str]:
    module = optimize.UseDepthToSpace()(transform.InferType()(tvm.IRModule({"main": function})))
    calls: list[Call] = []
    relay.analysis.post_order_visit(module["main"], lambda n: calls.append(n) if isinstance(n, Call) else None)
    return [call.op.name for call in calls]


def _weight(*shape: int) -> np.ndarray:
    return _RANDOM.normal(size=shape).astype("float32")


def _expected(data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the result for data with channels first: every number of it is of one position."""
    batch, _, height, width = data.shape
    _, outer, down, across = weight.shape
    made = np.einsum("nihw,ioyx->nohywx", data.astype("float64"), weight.astype("float64"))
    return made.reshape(batch, outer, height * down, width * across)


@pytest.mark.sweep
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("has_more", [True, False])
@pytest.mark.parametrize(
    ("inner", "outer", "block", "height", "width"),
    [(16, 8, 2, 7, 9), (3, 5, 3, 4, 6), (32, 1, 4, 5, 1), (1, 20, 2, 28, 28)],
)
def test_values_are_those_of_the_transposed_convolution(
    inner: int, outer: int, block: int, height: int, width: int, has_more: bool, known: bool
) -> None:
    weight, bias = _weight(inner, outer, block, block), _weight(outer)
    sizes: list[Any] = [2, height, width] if known else [tvm.tirx.Var(name, "int64") for name in "nhw"]
    function = _function((sizes[0], inner, *sizes[1:]), weight)
    assert _operators(function) == ["nn.conv2d", "nn.depth_to_space"]
    if has_more:
        body = relay.nn.relu(relay.nn.bias_add(function.body, relay.const(bias)))
        function = relay.Function(list(function.params), body)
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), target="llvm"))
    for batch in (2,) if known else (2, 1, 0):
        data = _weight(batch, inner, height, width)
        expected = _expected(data, weight)
        expected = np.maximum(expected + bias[:, None, None], 0) if has_more else expected
        np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_channels_may_be_last_and_the_weight_in_any_order() -> None:
    weight, data = _weight(12, 6, 2, 2), _weight(2, 12, 5, 7)
    x = relay.var("x", shape=(2, 5, 7, 12))
    turned = relay.const(np.ascontiguousarray(weight.transpose(2, 3, 1, 0)))
    attrs = {"strides": (2, 2), "kernel_size": (2, 2), "channels": 6}
    made = relay.nn.conv2d_transpose(x, turned, data_layout="NHWC", kernel_layout="HWOI", **attrs)
    function = relay.Function([x], made)
    assert _operators(function) == ["nn.conv2d", "nn.depth_to_space"]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), target="llvm"))
    result = machine.run(np.ascontiguousarray(data.transpose(0, 2, 3, 1))).numpy()
    np.testing.assert_allclose(result.transpose(0, 3, 1, 2), _expected(data, weight), rtol=1e-4, atol=1e-4)


def test_what_is_no_number_stays_in_its_square() -> None:
    weight, data = _weight(4, 3, 2, 2), _weight(1, 4, 3, 3)
    data[0, 1, 1, 2], data[0, 2, 0, 0] = np.nan, np.inf
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": _function(data.shape, weight)}), "llvm"))
    made = machine.run(data).numpy()
    is_strange = np.zeros((6, 6), bool)
    is_strange[2:4, 4:6] = is_strange[:2, :2] = True
    np.testing.assert_array_equal(np.isfinite(made[0]), np.broadcast_to(~is_strange, (3, 6, 6)))


@pytest.mark.parametrize(
    ("kernel", "changed"),
    [
        ((2, 2), {"strides": (1, 1)}),
        ((2, 2), {"padding": (1, 1)}),
        ((2, 2), {"output_padding": (1, 1)}),
        ((2, 4), {}),
        ((3, 3), {"strides": (2, 2)}),
        ((1, 1), {}),
        ((2, 2), {"groups": 2, "channels": 12}),
    ],
)
def test_others_stay(kernel: tuple[int, int], changed: dict[str, Any]) -> None:
    assert _operators(_function((1, 4, 5, 5), _weight(4, 6, *kernel), **changed)) == ["nn.conv2d_transpose"]
