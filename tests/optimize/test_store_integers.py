"""What is quantised lies in memory as integers, whatever computes with the numbers that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.optimize import store_integers
from vmkit.relay.ir import post_order
from vmkit.relay.op import build
from vmkit.relay.transform import infer_module

IMAGE = (2, 6, 7, 8)
SCALE = 0.0625


def numbers(seed: int = 0, shape: tuple[int, ...] = IMAGE) -> np.ndarray:
    return (2 * np.random.default_rng(seed).standard_normal(shape)).astype("float32")


def quantized(x: Any, zero: int, scale: float = SCALE, dtype: str = "int8") -> Any:
    return build("contrib_quantized", relay.divide(x, relay.const(np.float32(scale))), relay.const(zero, dtype), dtype)


def rounded(x: Any, zero: int, scale: float = SCALE) -> Any:
    made = build("contrib_rounded", relay.divide(x, relay.const(np.float32(scale))), relay.const(zero, "int8"), "int8")
    return relay.multiply(made, relay.const(np.float32(scale)))


def product(x: Any, seed: int) -> Any:
    weight = np.random.default_rng(seed).standard_normal((1, 1, 8, 8)).astype("float32")
    return relay.nn.conv2d(x, relay.const(weight), kernel_size=(1, 1), data_layout="NHWC", kernel_layout="HWIO")


def pool(x: Any, **attributes: Any) -> Any:
    return relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), layout="NHWC", **attributes)


def calls(function: relay.Function) -> list[tuple[str, str]]:
    """Return the operators that are called after the pass, and the type of what each takes."""
    module = optimize.StoreIntegers()(infer_module(tvm.IRModule({"main": function})))
    nodes = [node for node in post_order(module["main"]) if isinstance(getattr(node, "op", None), tvm.ir.Op)]
    return [(node.op.name, node.args[0].checked_type.dtype) for node in nodes]


def assert_same(function: relay.Function, *values: np.ndarray) -> None:
    """Assert that the results are those without the pass."""
    module = infer_module(tvm.IRModule({"main": function}))
    with vmkit.PassContext(disabled_pass=["StoreIntegers"]):
        plain = vmkit.VirtualMachine(vmkit.compile(module, "native")).run(*values).numpy()
    result = vmkit.VirtualMachine(vmkit.compile(module, "native")).run(*values).numpy()
    np.testing.assert_array_equal(result, plain)
    assert len(np.unique(result)) > 20


@pytest.mark.parametrize("zero", [0, -7])
def test_of_a_sum_of_two_products_one_is_stored_as_integers(zero: int) -> None:
    x = relay.var("x", shape=IMAGE)
    function = relay.Function([x], relay.add(rounded(product(x, 1), zero, 0.5), rounded(product(x, 2), zero, 0.25)))
    found = calls(function)
    assert found.count(("annotation.stop_fusion", "int8")) == 1
    assert [name for name, _ in found].count("contrib_rounded") == 1
    assert_same(function, numbers())


def test_a_product_that_is_the_only_one_of_its_kernel_goes_on_as_float32() -> None:
    x, y = relay.var("x", shape=IMAGE), relay.var("y", shape=IMAGE)
    function = relay.Function([x, y], relay.add(rounded(product(x, 1), 3), rounded(y, 3)))
    assert "annotation.stop_fusion" not in dict(calls(function))
    assert_same(function, numbers(), numbers(1))


@pytest.mark.parametrize("zero", [0, 5])
def test_the_largest_of_rounded_numbers_is_the_largest_integer(zero: int) -> None:
    x = relay.var("x", shape=IMAGE)
    function = relay.Function([x], quantized(pool(rounded(x, zero), padding=(1, 1)), zero))
    found = calls(function)
    assert ("nn.max_pool2d", "int8") in found
    assert [name for name, _ in found].count("contrib_quantized") == 1  # and no more is computed of it
    assert_same(function, numbers())


@pytest.mark.parametrize(("scale", "zero"), [(2 * SCALE, 5), (SCALE, 4)])
def test_maxima_that_are_quantised_otherwise_are_made_numbers_before(scale: float, zero: int) -> None:
    x = relay.var("x", shape=IMAGE)
    function = relay.Function([x], quantized(pool(rounded(x, 5)), zero, scale))
    found = calls(function)
    assert ("nn.max_pool2d", "int8") in found
    assert [name for name, _ in found].count("contrib_quantized") == 2
    assert_same(function, numbers())


@pytest.mark.parametrize(
    "windows",
    [
        lambda x: pool(x, ceil_mode=True),
        lambda x: pool(x, padding=(3, 3)),
        lambda x: pool(x, dilation=(2, 2), padding=(2, 2)),
    ],
)
def test_windows_that_may_have_no_element_are_of_float32(windows: Callable[[Any], Any]) -> None:
    x = relay.var("x", shape=IMAGE)
    assert ("nn.max_pool2d", "float32") in calls(relay.Function([x], windows(rounded(x, 0))))


def test_what_is_below_zero_times_a_number_below_zero_is_not_the_largest() -> None:
    x = relay.var("x", shape=IMAGE)
    function = relay.Function([x], pool(rounded(x, 0, -SCALE)))
    assert ("nn.max_pool2d", "float32") in calls(function)
    assert_same(function, numbers())


def test_a_long_chain_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    find = store_integers.entry
    monkeypatch.setattr(store_integers, "entry", lambda op: looked.append(op) or find(op))
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    chain = x
    for _ in range(300):
        chain = relay.add(chain, y)
    mod = infer_module(tvm.IRModule({"main": relay.Function([x, y], chain)}))
    made = store_integers.StoreIntegers()(mod)["main"]
    assert sum(isinstance(node, relay.Call) for node in post_order(made)) == 300
    assert len(looked) <= 4 * 300
