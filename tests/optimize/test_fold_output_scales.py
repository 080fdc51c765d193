"""What is quantised is divided by its scale before, in the factors, and is what it was but for halves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.relay.ir import post_order
from vmkit.relay.op import build
from vmkit.relay.transform import infer_module

SHAPE = (4, 50)


def integers(dtype: str = "int8", seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, SHAPE).astype(dtype)


def names(module: tvm.IRModule) -> list[str]:
    """Return the names of the operators that are called."""
    return [node.op.name for node in post_order(module["main"]) if isinstance(getattr(node, "op", None), tvm.ir.Op)]


def module_of(function: relay.Function) -> tvm.IRModule:
    return infer_module(tvm.IRModule({"main": function}))


def number(x: Any, zero: int, scale: Any) -> Any:
    """Return integers dequantised."""
    difference = relay.subtract(relay.cast(x, "int32"), relay.const(np.int32(zero)))
    return relay.multiply(relay.cast(difference, "float32"), relay.const(np.asarray(scale, "float32")))


def quantized(x: Any, zero: int, scale: float, dtype: str = "int8") -> Any:
    return build("contrib_quantized", relay.divide(x, relay.const(np.float32(scale))), relay.const(zero, dtype), dtype)


def assert_same(function: relay.Function, *values: np.ndarray) -> list[str]:
    """Assert that results differ by one in few places with the pass; return what is called after it."""
    module = module_of(function)
    with vmkit.PassContext(disabled_pass=["FoldOutputScales"]):
        plain = vmkit.VirtualMachine(vmkit.compile(module, "llvm")).run(*values).numpy().astype(int)
    result = vmkit.VirtualMachine(vmkit.compile(module, "native")).run(*values).numpy().astype(int)
    assert np.abs(result - plain).max() <= 1
    assert np.mean(result != plain) < 0.02
    assert len(np.unique(result)) > 5
    return names(optimize.FoldOutputScales()(module))


def test_a_sum_of_products_is_quantised_without_a_division() -> None:
    x, y = relay.var("x", shape=SHAPE, dtype="int8"), relay.var("y", shape=SHAPE, dtype="uint8")
    scales = np.random.default_rng(1).random(50, dtype="float32") + 0.5
    total = relay.add(relay.nn.bias_add(number(x, 3, scales), relay.const(scales), axis=1), number(y, 90, 0.2371))
    found = assert_same(relay.Function([x, y], quantized(relay.nn.relu(total), 5, 0.77)), integers(), integers("uint8"))
    assert "divide" not in found
    assert "nn.relu" in found


@pytest.mark.parametrize(
    ("limit", "zero", "dtype", "is_left_out"),
    [
        (relay.nn.relu, -128, "int8", True),
        (relay.nn.relu, 0, "uint8", True),
        (relay.nn.relu, -127, "int8", False),
        (lambda x: relay.clip(x, 0.0, 6.0), 0, "uint8", True),
        (lambda x: relay.clip(x, 0.0, 5.9), 0, "uint8", False),
        (lambda x: relay.clip(x, -3.0, 6.0), 0, "uint8", True),
    ],
)
def test_limits_no_narrower_than_the_type_are_left_out(limit: Any, zero: int, dtype: str, is_left_out: bool) -> None:
    x = relay.var("x", shape=SHAPE, dtype="int8")
    function = relay.Function([x], quantized(limit(number(x, 3, 0.07)), zero, 6 / 255, dtype))
    found = assert_same(function, integers())
    assert "divide" not in found
    assert any(name in found for name in ("nn.relu", "clip")) is not is_left_out


def test_a_number_that_is_quantised_and_added_at_once_stays_float() -> None:
    x, y = relay.var("x", shape=SHAPE, dtype="int8"), relay.var("y", shape=SHAPE, dtype="int8")
    inner = quantized(number(x, 3, 0.3137), 7, 0.4113)
    total = relay.add(number(inner, 7, 0.4113), number(y, -20, 0.2371))
    found = assert_same(relay.Function([x, y], quantized(total, 5, 0.5273)), integers(), integers(seed=1))
    assert found.count("contrib_rounded") == found.count("contrib_quantized") == 1
    assert "divide" not in found
    # Another zero point is not that of the rounded number.
    other = relay.add(number(inner, 6, 0.4113), number(y, -20, 0.2371))
    found = assert_same(relay.Function([x, y], quantized(other, 5, 0.5273)), integers(), integers(seed=1))
    assert "contrib_rounded" not in found


def test_what_others_need_as_it_is_is_divided() -> None:
    x = relay.var("x", shape=SHAPE, dtype="int8")
    real = number(x, 3, 0.3)
    both = relay.Function([x], relay.Tuple([quantized(real, 5, 0.5), real]))
    assert "divide" in names(optimize.FoldOutputScales()(module_of(both)))


@pytest.mark.parametrize("scale", [1e-38, 3e38])
def test_scales_at_the_ends_of_float32_divide(scale: float) -> None:
    x = relay.var("x", shape=SHAPE, dtype="int8")
    function = relay.Function([x], quantized(number(x, 0, 1e-10), 0, scale))
    assert "divide" in names(optimize.FoldOutputScales()(module_of(function)))
    function = relay.Function([x], quantized(number(x, 0, scale), 0, 1e-10))
    assert "divide" in names(optimize.FoldOutputScales()(module_of(function)))


def test_what_is_no_number_keeps_its_limit() -> None:
    x = relay.var("x", shape=(4,))
    limited = relay.nn.relu(relay.multiply(x, relay.const(np.float32(3))))
    module = module_of(relay.Function([x], quantized(limited, -128, 0.5)))
    folded = names(optimize.FoldOutputScales()(module))
    assert "nn.relu" in folded
    assert "divide" not in folded


def test_rounded_numbers_are_what_quantised_ones_are_less_their_zero_point() -> None:
    values = np.array([-1e9, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 200.0, 1e9], "float32")
    x = relay.var("x", shape=values.shape)
    for zero in (-128, 0, 5):
        rounded = build("contrib_rounded", x, relay.const(zero, "int8"), dtype="int8")
        result = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], rounded), "native")).run(values).numpy()
        np.testing.assert_array_equal(result, np.clip(np.rint(values), -128 - zero, 127 - zero))


def test_rounded_numbers_are_of_integer_types() -> None:
    x, zero = relay.var("x", shape=(3,)), relay.const(0, "int8")
    with pytest.raises(vmkit.errors.TypeCheckError, match="rounded to the range of int2, int4"):
        module_of(relay.Function([x], build("contrib_rounded", x, zero, dtype="float8_e4m3fn")))
    with pytest.raises(vmkit.errors.TypeCheckError, match="the zero point uint8"):
        module_of(relay.Function([x], build("contrib_rounded", x, zero, dtype="uint8")))
