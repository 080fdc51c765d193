"""relay.qnn.transform.Legalize: quantised operators suited to the target in force compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.target import Target

import vmkit
from tests.relay.transform.passes import after, assert_becomes, module, operators
from vmkit import relay
from vmkit.relay import const
from vmkit.relay.qnn.op.legalizations import hardswish_func, is_fast_int8_on_intel
from vmkit.relay.qnn.transform import CanonicalizeOps, Legalize
from vmkit.relay.transform import Legalize as LegalizeOps

RANDOM = np.random.default_rng(3)
AVX512 = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "skylake-avx512"}
PLAIN_X86 = {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}
ARM = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "keys": ["arm_cpu", "cpu"]}
ARM_DOT = {**ARM, "mattr": ["+v8.2a", "+dotprod"]}


def conv2d(dtype: str, kernel_dtype: str, zero: Any = 3, channels: int = 8, **more: Any) -> Any:
    x, w = (
        relay.var("x", shape=(1, 6, 9, 9), dtype=dtype),
        relay.var("w", shape=(channels, 6, 3, 3), dtype=kernel_dtype),
    )
    scale = const(np.full(channels, 0.5, "float32")) if isinstance(zero, list) else const(0.5)
    zeros = const(5), const(np.int32(zero))
    return relay.qnn.conv2d(x, w, *zeros, const(0.5), scale, (3, 3), channels, padding=(1, 1), **more)


def dense(dtype: str, kernel_dtype: str, zero: Any = 3, units: int = 8) -> Any:
    x, w = relay.var("x", shape=(4, 12), dtype=dtype), relay.var("w", shape=(units, 12), dtype=kernel_dtype)
    scale = const(np.full(units, 0.5, "float32")) if isinstance(zero, list) else const(0.5)
    return relay.qnn.dense(x, w, const(5), const(np.int32(zero)), const(0.5), scale, units)


def run(function: relay.Function, args: list[np.ndarray]) -> np.ndarray:
    program = vmkit.compile(tvm.IRModule({"main": function}), target="llvm")
    return vmkit.VirtualMachine(program, "cpu").run(*args).numpy()


def assert_same_result(before: relay.Function, legal: relay.Function) -> None:
    types = [p.type_annotation for p in before.params]
    args = [RANDOM.integers(0, 100, t.concrete_shape).astype(t.dtype) for t in types]
    np.testing.assert_array_equal(run(legal, args), run(before, args))


def legalized(expr: Any, target: Any) -> relay.Function:
    before = module(expr)["main"]
    with Target(target):
        legal = after(Legalize(), expr)
    assert str(legal.checked_type) == str(before.checked_type)
    assert_same_result(before, legal)
    return legal


def quantized_product(function: relay.Function) -> tuple[str, ...]:
    """Return the quantised product's name and data types; nothing where none is left."""
    found = [n for n in relay.ir.post_order(function) if relay.ir.is_call(n, "qnn.conv2d", "qnn.dense")]
    return (found[0].op.name, *(a.checked_type.dtype for a in found[0].args[:2])) if found else ()


@pytest.mark.sweep
@pytest.mark.parametrize("make", [conv2d, dense])
@pytest.mark.parametrize(
    ("target", "dtypes", "expected"),
    [
        (AVX512, ("uint8", "uint8"), ("uint8", "int8")),
        (AVX512, ("int8", "int8"), ("uint8", "int8")),
        (AVX512, ("uint8", "int8"), ("uint8", "int8")),
        (ARM_DOT, ("uint8", "int8"), ("int8", "int8")),
        (ARM_DOT, ("uint8", "uint8"), ("uint8", "uint8")),
        ("cuda", ("uint8", "uint8"), ("int8", "int8")),
        (PLAIN_X86, ("uint8", "int8"), None),
        (ARM, ("int8", "int8"), None),
    ],
)
def test_products_are_over_what_the_target_multiplies(
    make: Callable[..., Any], target: Any, dtypes: tuple[str, str], expected: tuple[str, str] | None
) -> None:
    legal = legalized(make(*dtypes), target)
    assert quantized_product(legal)[1:] == (expected or ())


def test_zero_points_of_channels_are_shifted_and_subtracted_each() -> None:
    for make in (conv2d, dense):
        for target in (AVX512, PLAIN_X86):
            legalized(make("int8", "uint8", list(range(8))), target)


def test_a_depthwise_kernel_of_several_a_channel_stays() -> None:
    x, w = relay.var("x", shape=(1, 9, 9, 3), dtype="uint8"), relay.var("w", shape=(3, 3, 3, 2), dtype="int8")
    scales = const(np.full(6, 0.5, "float32"))
    expr = relay.qnn.conv2d(
        x, w, const(1), const(np.arange(6, dtype="int32")), const(0.5), scales, (3, 3), 6, groups=3, data_layout="NHWC",
        kernel_layout="HWOI",
    )  # fmt: skip
    assert quantized_product(legalized(expr, PLAIN_X86)) == ("qnn.conv2d", "uint8", "int8")


def test_without_a_target_products_stay() -> None:
    expr = conv2d("int8", "int8")
    assert_becomes(Legalize(), expr, expr)
    with pytest.raises(ValueError, match="no target in force"):
        is_fast_int8_on_intel()


def test_a_transposed_convolution_is_one_of_differences_on_every_target() -> None:
    x, w = relay.var("x", shape=(1, 6, 5, 5), dtype="uint8"), relay.var("w", shape=(6, 4, 3, 3), dtype="int8")
    expr = relay.qnn.op.conv2d_transpose(
        x, w, const(7), const(1), const(0.5), const(0.5), channels=4, kernel_size=(3, 3)
    )
    assert operators(legalized(expr, PLAIN_X86))[-1] == "nn.conv2d_transpose"


@pytest.mark.parametrize("zero", [0, 3, list(range(30))])
def test_on_hexagon_channels_are_filled_up(zero: Any) -> None:
    legal = legalized(conv2d("uint8", "int8", zero, 30), "hexagon")
    (call,) = [n for n in relay.ir.post_order(legal) if relay.ir.is_call(n, "qnn.conv2d")]
    assert call.args[1].checked_type.concrete_shape == (32, 8, 3, 3)
    legal = legalized(dense("uint8", "int8", zero, 30), "hexagon")
    (call,) = [n for n in relay.ir.post_order(legal) if relay.ir.is_call(n, "qnn.dense")]
    assert call.args[1].checked_type.concrete_shape == (32, 12)


def test_limits_that_a_requantisation_has_anyway_go() -> None:
    x = relay.var("x", shape=(2, 3), dtype="int32")
    narrow = relay.qnn.op.requantize(x, const(1.0), const(0), const(1.0), const(4), out_dtype="int8")
    assert_becomes(LegalizeOps(), relay.clip(narrow, -128.0, 127.0), narrow)
    for kept in (
        relay.clip(narrow, -127.0, 127.0),
        relay.clip(relay.var("y", shape=(2,), dtype="int8"), -128.0, 127.0),
    ):
        assert_becomes(LegalizeOps(), kept, kept)


@pytest.mark.parametrize("name", ["abs", "erf", "exp", "hardswish", "log", "rsqrt", "sigmoid", "sqrt", "tanh"])
def test_functions_of_one_number_are_looked_up(name: str) -> None:
    x = relay.var("x", shape=(2, 3), dtype="uint8")
    expr = getattr(relay.qnn.op, name)(x, const(0.02), const(0), const(0.02), const(3))
    before, legal = module(expr)["main"], after(Legalize(), expr)
    assert operators(legal) == ["take"]
    assert_same_result(before, legal)


def test_hardswish_is_the_function_of_numbers() -> None:
    np.testing.assert_allclose(hardswish_func(np.float32([-4, -1.5, 0, 3, 5])), [0, -0.375, 0, 3, 5])


@pytest.fixture
def nothing_stays() -> Iterator[None]:
    yield
    relay.op.get("qnn.requantize").reset_attr("FTVMQnnLegalize")
    relay.op.get("qnn.requantize").reset_attr("FTVMQnnCanonicalize")


def test_scripts_say_what_an_operator_becomes_and_stands_for(nothing_stays: None) -> None:
    x = relay.var("x", shape=(2, 3), dtype="int8")
    expr = relay.qnn.op.requantize(x, const(1.0), const(0), const(1.0), const(0), out_dtype="int8")
    relay.op.register_qnn_legalize("qnn.requantize", lambda attrs, inputs, types: relay.copy(inputs[0]))
    assert_becomes(Legalize(), expr, relay.copy(x))
    relay.op.register_qnn_canonicalize("qnn.requantize", lambda attrs, inputs, types: relay.negative(inputs[0]))
    assert_becomes(CanonicalizeOps(), expr, relay.negative(x))
