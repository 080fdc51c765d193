"""Functions after layers: which are taken in, and that kernels compute them as the operators one by one do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm

import vmkit
from tests.kernels.written_kernels import convolved
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.kernels.activation import require_activation
from vmkit.optimize import FuseInvertedResiduals, UsePackedGemm, UseWinograd
from vmkit.relay.ir.visit import post_order
from vmkit.relay.op import build
from vmkit.relay.transform import FoldConstant, InferType

GEMM, WINOGRAD, BLOCK = "nn.contrib_packed_gemm", "nn.contrib_conv2d_winograd_fused", "nn.contrib_inverted_residual"
AVX = "llvm -mattr=+avx2,+fma"


def number(value: float) -> relay.Expr:
    return relay.const(np.float32(value))


def _hard_swish(y: relay.Expr) -> relay.Expr:
    return relay.multiply(y, relay.divide(relay.clip(relay.add(y, number(3)), 0.0, 6.0), number(6)))


def _mobilenet_swish(y: relay.Expr) -> relay.Expr:
    gate = relay.minimum(relay.maximum(relay.add(relay.multiply(number(1 / 6), y), number(0.5)), number(0)), number(1))
    return relay.multiply(gate, y)


FUNCTIONS: dict[str, tuple[Callable[[relay.Expr], relay.Expr], Callable[[np.ndarray], np.ndarray]]] = {
    "hard_swish": (_hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "hard_swish of scaled numbers": (_mobilenet_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "leaky_relu": (lambda y: relay.nn.leaky_relu(y, 0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
    "relu or a square": (
        lambda y: relay.add(relay.nn.relu(y), relay.multiply(relay.minimum(number(0), y), y)),
        lambda x: np.maximum(x, 0) + np.minimum(x, 0) * x,
    ),
    "less than a number": (lambda y: relay.subtract(number(2), y), lambda x: 2 - x),
}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def weight_of(inner: int, outer: int, size: int) -> np.ndarray:
    return numbers(size, size, inner, outer, seed=inner + outer) / np.float32(size * inner**0.5)


def layer(data: relay.Expr, inner: int, outer: int, size: int = 1) -> relay.Expr:
    weight = relay.const(weight_of(inner, outer, size))
    y = relay.nn.conv2d(data, weight, padding=size // 2, data_layout="NHWC", kernel_layout="HWIO")
    return relay.add(y, relay.const(numbers(outer, seed=3)))


def layer_of(data: np.ndarray, inner: int, outer: int, size: int) -> np.ndarray:
    """Return what :func:`layer` computes, in float64."""
    return convolved(data, weight_of(inner, outer, size), (size // 2,) * 4) + numbers(outer, seed=3)


def depthwise(data: relay.Expr, channels: int) -> relay.Expr:
    weight = relay.const(numbers(3, 3, channels, 1, seed=channels) / 3)
    return relay.nn.conv2d(
        data, weight, groups=channels, padding=1, data_layout="NHWC", kernel_layout="HWOI", kernel_size=(3, 3)
    )


def operators(function: relay.Function) -> list[str]:
    mod = InferType()(tvm.IRModule({"main": function}))
    for make in (UseWinograd, UsePackedGemm, FuseInvertedResiduals):
        mod = make(lanes=8, registers=16)(mod)
    mod = FoldConstant()(mod)  # the weights
    return [node.op.name for node in post_order(mod["main"]) if isinstance(node, relay.Call)]


def results(function: relay.Function, target: str, *data: np.ndarray) -> list[np.ndarray]:
    made = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), target), "cpu").run(*data)
    return [each.numpy() for each in (made if isinstance(made, (list, tuple, vmkit.ADT)) else [made])]


@pytest.mark.sweep
@pytest.mark.parametrize("size", [1, 3], ids=["product", "winograd"])
@pytest.mark.parametrize(
    ("name", "target"), [*((name, AVX) for name in FUNCTIONS), ("hard_swish", "llvm"), ("leaky_relu", "llvm")]
)
def test_a_function_after_a_layer_is_computed_by_its_kernel(name: str, target: str, size: int) -> None:
    make, expected = FUNCTIONS[name]
    x, other = relay.var("x", shape=(1, 27, 26, 32)), relay.var("other", shape=(1, 27, 26, 48))
    function = relay.Function([x, other], make(relay.add(layer(x, 32, 48, size), other)))
    assert operators(function) == [WINOGRAD if size == 3 else GEMM]
    data, more = 2 * numbers(1, 27, 26, 32), numbers(1, 27, 26, 48, seed=9)
    more[0, 0, 0, :3] = [np.nan, np.inf, 80]
    sums = layer_of(data, 32, 48, size) + more
    (made,) = results(function, target, data, more)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(made, expected(sums), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "target"), [("hard_swish", AVX), ("leaky_relu", AVX), ("leaky_relu", "llvm")])
def test_functions_between_products_and_a_depthwise_convolution(name: str, target: str) -> None:
    make, _ = FUNCTIONS[name]
    x = relay.var("x", shape=(1, 40, 40, 16))
    first = layer(x, 16, 96)
    y = relay.Function([x], make(layer(make(depthwise(make(first), 96)), 96, 24)))
    assert operators(y) == [BLOCK]
    data = numbers(1, 40, 40, 16)
    with vmkit.PassContext(opt_level=0):
        plain = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": y}), target), "cpu").run(data).numpy()
    np.testing.assert_allclose(results(y, target, data)[0], plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 3], ids=["product", "winograd"])
def test_what_is_read_inside_of_a_function_keeps_its_operators(size: int) -> None:
    x = relay.var("x", shape=(1, 28, 28, 32))
    y = layer(x, 32, 48, size)
    gate = relay.maximum(y, number(0.5))
    function = relay.Function([x], relay.Tuple([relay.multiply(y, gate), gate]))
    assert operators(function) == [WINOGRAD if size == 3 else GEMM, "maximum", "multiply"]
    data = numbers(1, 28, 28, 32)
    sums = layer_of(data, 32, 48, size)
    made = results(function, AVX, data)
    for result, expected in zip(made, (sums * np.maximum(sums, 0.5), np.maximum(sums, 0.5)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_a_function_ends_before_what_is_not_of_each_number_by_itself() -> None:
    x = relay.var("x", shape=(1, 28, 28, 32))
    y = relay.divide(layer(x, 32, 48), number(3))
    for then, names in (
        (relay.multiply(y, relay.const(numbers(48))), ["multiply"]),
        (relay.add(y, relay.const(numbers(1, 1, 1, 1, 1))), ["add"]),
        (relay.multiply(y, relay.sigmoid(y)), ["sigmoid", "multiply"]),
        (relay.maximum(y, relay.multiply(y, y)), ["multiply", "maximum"]),
    ):
        assert operators(relay.Function([x], then)) == [GEMM, *names]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("x sigma", "'sigma' in the activation"),
        ("x x", "leaves 2 numbers, expected one"),
        ("x add", "takes two numbers, there are 1"),
    ],
)
def test_programs_that_are_none_are_refused(program: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        require_activation(program)
    x, weight = relay.var("x", shape=(1, 4, 4, 16)), relay.const(numbers(1, 16, 16))
    call = build(GEMM, x, weight, lanes=8, units=16, activation=program)
    with pytest.raises(TypeCheckError, match=message):
        InferType()(tvm.IRModule({"main": relay.Function([x], call)}))
