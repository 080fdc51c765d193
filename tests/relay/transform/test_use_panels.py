"""Convolutions by 1x1 as products: which layers they are, and that the kernels compute them and what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.relay.ir.visit import post_order
from vmkit.relay.transform import InferType, UsePanels
from vmkit.tophub.kernels.panels import PanelPlan, PanelShape, panels, plan_panels

NAME = "nn.contrib_panels_fused"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def layer(shape: tuple[Any, ...], weight: np.ndarray, has_residual: bool, **options: Any) -> relay.Function:
    x = relay.var("x", shape=shape)
    y = relay.nn.conv2d(x, relay.const(weight[None, None]), data_layout="NHWC", kernel_layout="HWIO", **options)
    y = relay.add(y, relay.const(numbers(weight.shape[1], seed=3)))
    if not has_residual:
        return relay.Function([x], relay.nn.relu(y))
    other = relay.var("other", shape=(*shape[:3], weight.shape[1]))
    return relay.Function([x, other], relay.nn.relu(relay.add(y, other)))


def operators(function: relay.Function) -> list[str]:
    mod = UsePanels(lanes=8, registers=16)(InferType()(tvm.IRModule({"main": function})))
    return [node.op.name for node in post_order(mod["main"]) if isinstance(node, relay.Call)]


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 4, 9, 32])
def test_a_kernel_computes_any_number_of_rows(rows: int, is_known: bool) -> None:
    lanes, inner, outer = 8, 6, 24
    shape = PanelShape((1, rows if is_known else None), inner, outer, lanes, lanes, True, True, -0.5, 0.75)
    plan = plan_panels(shape, 8) if is_known else PanelPlan(4, 2, 2)
    data, weight, bias = numbers(1, rows, inner), numbers(inner, outer, seed=1), numbers(outer, seed=2)
    residual = numbers(1, rows, outer, seed=3)
    blocks = np.ascontiguousarray(weight.reshape(inner, outer // lanes, lanes).transpose(1, 0, 2))
    result = tvm.runtime.tensor(np.full((1, rows, outer), np.nan, "float32"))
    kernel = panels(shape, plan).with_attr("global_symbol", "main")
    inputs = [tvm.runtime.tensor(each) for each in (data, blocks, bias, residual)]
    tvm.compile(tvm.IRModule({"main": kernel}), tvm.target.Target("llvm"))["main"](*inputs, result)
    expected = np.clip(data.astype("float64") @ weight + bias + residual, -0.5, 0.75)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-5)


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


def test_strides_padding_and_parts_of_vectors_stay_with_the_convolution() -> None:
    weight = numbers(16, 32)
    for options in ({"strides": (2, 2)}, {"padding": (1, 1)}):
        assert "nn.conv2d" in operators(layer((1, 6, 6, 16), weight, False, **options))
    assert "nn.conv2d" in operators(layer((1, 6, 6, 16), numbers(16, 30), False))
