"""Products around depthwise convolutions: which become one operator, what it computes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.optimize import FuseInvertedResiduals, UsePackedGemm
from vmkit.relay.ir.visit import post_order
from vmkit.relay.op import build
from vmkit.relay.transform import InferType

NAME, PRODUCT, CONV = "nn.contrib_inverted_residual", "nn.contrib_packed_gemm", "nn.conv2d"
LAYOUTS = {"data_layout": "NHWC", "kernel_layout": "HWIO"}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def pointwise(data: relay.Expr, inner: int, outer: int) -> relay.Expr:
    weight = numbers(1, 1, inner, outer, seed=inner + outer) / np.float32(inner**0.5)
    return relay.nn.conv2d(data, relay.const(weight), **LAYOUTS)


def depthwise(data: relay.Expr, channels: int, size: int = 3, **options: Any) -> relay.Expr:
    weight = relay.const(numbers(size, size, channels, 1, seed=channels) / size)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWOI"}
    return relay.nn.conv2d(data, weight, groups=channels, padding=size // 2, **{**layouts, **options})


def block(data: relay.Expr, inner: int, channels: int, outer: int, **options: Any) -> relay.Expr:
    """Return an inverted residual, in which only the first and the second layer have biases."""
    y = relay.clip(relay.add(pointwise(data, inner, channels), relay.const(numbers(channels, seed=1))), 0.0, 6.0)
    y = relay.nn.relu(relay.add(depthwise(y, channels, **options), relay.const(numbers(channels, seed=2))))
    y = pointwise(y, channels, outer)
    return relay.add(y, data) if inner == outer and "strides" not in options else y


def operators(function: relay.Function, cores: int = 1, lanes: int = 8) -> list[str]:
    mod = InferType()(tvm.IRModule({"main": function}))
    mod = UsePackedGemm(lanes=lanes, registers=16)(mod)
    mod = FuseInvertedResiduals(lanes=lanes, registers=16, cores=cores)(mod)
    calls = [node.op.name for node in post_order(mod["main"]) if isinstance(node, relay.Call)]
    return [name for name in calls if name in (NAME, PRODUCT, CONV)]


def compared(function: relay.Function, data: np.ndarray, target: str, threads: int) -> None:
    """Compare results of a fused function with those of the layers one by one."""
    mod = tvm.IRModule({"main": function})
    with vmkit.PassContext(opt_level=0):
        plain = vmkit.compile(mod, target)
    (expected, result) = (
        vmkit.VirtualMachine(each, "cpu", num_threads=threads).run(data).numpy()
        for each in (plain, vmkit.compile(mod, target))
    )
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["llvm", "llvm -mattr=+avx2,+fma -num-cores=2"])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_compiled_blocks_agree_with_layers_one_by_one(target: str, is_known: bool, threads: int) -> None:
    x = relay.var("x", shape=(3 if is_known else tvm.tirx.Var("n", "int64"), 21, 20, 16))
    y = block(block(x, 16, 96, 16, size=5), 16, 320, 24, strides=(2, 2))
    function = relay.Function([x], y)
    assert operators(function) == [NAME, NAME] if is_known else [NAME, PRODUCT, CONV, PRODUCT]
    compared(function, numbers(3, 21, 20, 16), target, threads)


def test_a_chain_is_cut_in_pairs() -> None:
    x = relay.var("x", shape=(1, 12, 12, 16))
    y = pointwise(depthwise(pointwise(depthwise(x, 16), 16, 32), 32), 32, 48)
    function = relay.Function([x], y)
    assert operators(function) == [NAME, NAME]
    compared(function, numbers(1, 12, 12, 16), "llvm -mattr=+avx2,+fma", 1)


def test_what_others_read_is_not_taken_in() -> None:
    x = relay.var("x", shape=(1, 12, 12, 16))
    wide = pointwise(x, 16, 32)
    function = relay.Function([x], relay.Tuple([pointwise(depthwise(wide, 32), 32, 16), relay.nn.relu(wide)]))
    assert operators(function) == [PRODUCT, NAME]
    middle = depthwise(pointwise(x, 16, 32), 32)
    function = relay.Function([x], relay.Tuple([pointwise(middle, 32, 16), relay.nn.relu(middle)]))
    assert operators(function) == [PRODUCT, CONV, PRODUCT]


def test_windows_that_are_apart_are_read_from_a_product_alone() -> None:
    x = relay.var("x", shape=(1, 40, 40, 320))
    y = depthwise(x, 320, strides=(2, 2))
    assert operators(relay.Function([x], pointwise(y, 320, 16))) == [CONV, PRODUCT]
    x = relay.var("x", shape=(1, 40, 40, 16))
    assert operators(relay.Function([x], block(x, 16, 320, 16, strides=(2, 2)))) == [NAME]


@pytest.mark.parametrize(
    "why",
    [
        *("unknown size", "part of a vector", "large weights", "dilation", "several outputs", "many cores"),
        *("small and apart", "short lines", "small and tiles over the end"),
    ],
)
def test_other_layers_stay(why: str) -> None:
    height = tvm.tirx.Var("h", "int64") if why == "unknown size" else 20
    channels = {"part of a vector": 36, "large weights": 960}.get(why, 32)
    inner = 320 if why in ("large weights", "short lines") else 16
    width = {"short lines": 7, "small and tiles over the end": 17}.get(why, 20)
    x = relay.var("x", shape=(1, height, width, inner))
    options = {"dilation": {"dilation": (2, 2)}, "small and apart": {"strides": (2, 2)}}.get(why, {})
    if why == "several outputs":
        weight = relay.const(numbers(3, 3, 1, 2 * channels))
        y = relay.nn.conv2d(pointwise(x, inner, channels), weight, groups=channels, padding=1, **LAYOUTS)
        function = relay.Function([x], pointwise(y, 2 * channels, 16))
    else:
        function = relay.Function([x], block(x, inner, channels, 24, **options))
    assert NAME not in operators(function, cores=8 if why == "many cores" else 1)


def test_images_of_a_batch_have_lines_for_many_cores() -> None:
    x = relay.var("x", shape=(8, 20, 20, 16))
    assert operators(relay.Function([x], block(x, 16, 32, 24)), cores=8) == [NAME]


def fused(data: tuple[Any, ...] = (1, 9, 9, 16), more: int = 0, **changed: Any) -> relay.Expr:
    attrs = {"lanes": 8, "registers": 16, "padding": (1, 1, 1, 1), "units": 24}
    shapes = {"window": (3, 3, 16), "bias": (16,), "project": (2, 16, 16), "project_bias": (24,)}
    shapes |= {name: changed.pop(name) for name in list(changed) if name in shapes}
    tensors = [relay.var(name, shape=shape) for name, shape in (("data", data), *shapes.items())]
    others = [relay.var(f"more{at}", shape=(1, 9, 9, 24)) for at in range(more)]
    return build("nn.contrib_inverted_residual", *tensors, *others, **{**attrs, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": (1, relay.Any(), 9, 16)}, "height, width and channels of the data must be known"),
        ({"data": (1, 9, 9, 24)}, "data must have shape"),
        ({"data": (1, 0, 9, 16)}, "is empty"),
        ({"window": (3, 3, 12)}, "no multiple of 8"),
        ({"window": (3, relay.Any(), 16)}, "shape of window must be known"),
        ({"bias": (8,)}, "bias must have shape"),
        ({"project": (1, 16, 16)}, "not of 24 units"),
        ({"project": (2, 16, 12)}, "not of 24 units"),
        ({"units": 0}, "not of 0 units"),
        ({"padding": (3, 0, 0, 0)}, "must be less than the window"),
        ({"padding": (-1, 0, 0, 0)}, "must be less than the window"),
        ({"strides": (0, 1)}, "strides must be positive"),
        ({"lanes": 0}, "0 lanes"),
        ({"passes": 3}, "3 passes"),
        ({"chunks": 4}, "not shared in 4 chunks"),
        ({"more": 2}, "6 inputs after the data"),
        ({"has_expand": True}, "4 inputs after the data"),
    ],
)
def test_operators_that_do_not_fit_are_refused(changed: dict[str, Any], message: str) -> None:
    function = fused(**changed)
    with pytest.raises(TypeCheckError, match=message):
        InferType()(tvm.IRModule({"main": relay.Function(relay.analysis.free_vars(function), function)}))


def test_a_residual_that_does_not_fit_is_refused_when_it_is_seen() -> None:
    batch, other = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")
    x, residual = relay.var("x", shape=(batch, 9, 9, 16)), relay.var("r", shape=(other, 9, 9, 24))
    tensors = [numbers(3, 3, 16), numbers(16), numbers(2, 16, 16), numbers(24)]
    attrs = {"lanes": 8, "registers": 16, "padding": (1, 1, 1, 1), "units": 24}
    call = build("nn.contrib_inverted_residual", x, *[relay.const(t) for t in tensors], residual, **attrs)
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": relay.Function([x, residual], call)})), "cpu")
    with pytest.raises(Exception, match="a dimension of the residual is 3, expected 2"):
        machine.run(numbers(2, 9, 9, 16), numbers(3, 9, 9, 24))
