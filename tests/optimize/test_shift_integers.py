"""Integers that a product takes as uint8 are quantised to it; all others read the same numbers as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.relay.ir import post_order
from vmkit.relay.op import build
from vmkit.relay.transform import infer_module

IMAGE = (1, 6, 7, 8)
NUMBERS = (40 * np.random.default_rng(0).standard_normal(IMAGE)).astype("float32")


def quantized(x: Any, zero: int, dtype: str = "int8") -> Any:
    return build("contrib_quantized", x, relay.const(zero, dtype), dtype=dtype)


def unsigned(x: Any) -> Any:
    """Return int8 as products take it."""
    wide = relay.add(relay.cast(x, "int16"), relay.const(np.int16(128)))
    return relay.cast(wide, "uint8")


def centred(x: Any, zero: int) -> Any:
    return relay.subtract(relay.cast(x, "int32"), relay.const(np.int32(zero)))


def main_of(function: relay.Function) -> list[tuple[str, str]]:
    """Return the operators that are called after the pass, with the data types of their results."""
    module = optimize.ShiftIntegers()(infer_module(tvm.IRModule({"main": function})))
    nodes = [node for node in post_order(module["main"]) if isinstance(getattr(node, "op", None), tvm.ir.Op)]
    return [(node.op.name, node.checked_type.dtype) for node in nodes]


def assert_same(function: relay.Function) -> None:
    module = infer_module(tvm.IRModule({"main": function}))
    with vmkit.PassContext(disabled_pass=["ShiftIntegers"]):
        plain = vmkit.VirtualMachine(vmkit.compile(module, "native")).run(NUMBERS)
    result = vmkit.VirtualMachine(vmkit.compile(module, "native")).run(NUMBERS)
    for one, other in zip(_list(result), _list(plain), strict=True):
        np.testing.assert_array_equal(one, other)


def _list(values: Any) -> list[np.ndarray]:
    return [value.numpy() for value in (values if isinstance(values, tuple | list) else [values])]


def test_what_a_product_takes_is_quantised_so() -> None:
    x = relay.var("x", shape=IMAGE)
    function = relay.Function([x], unsigned(quantized(x, -3)))
    assert main_of(function) == [("contrib_quantized", "uint8")]
    assert_same(function)


@pytest.mark.parametrize("zero", [-128, -7, 0, 127])
def test_others_subtract_what_was_added(zero: int) -> None:
    x = relay.var("x", shape=IMAGE)
    q = quantized(x, zero)
    both = relay.Tuple([unsigned(q), centred(q, zero), relay.cast(q, "int64")])
    function = relay.Function([x], both)
    found = main_of(function)
    assert found.count(("contrib_quantized", "uint8")) == 1
    assert ("contrib_quantized", "int8") not in found
    # A zero point of -128 is none of uint8.
    assert [name for name, dtype in found if dtype == "int32"] == (["cast"] if zero == -128 else ["cast", "add"])
    assert_same(function)


@pytest.mark.parametrize(
    "choice",
    [
        lambda q: relay.nn.max_pool2d(q, pool_size=(3, 3), padding=(1, 1), layout="NHWC"),
        lambda q: relay.transpose(q, axes=[0, 3, 1, 2]),
        lambda q: relay.reshape(relay.transpose(q), newshape=(-1,)),
    ],
)
def test_integers_that_are_chosen_or_moved_are_shifted_as_well(choice: Callable[[Any], Any]) -> None:
    x = relay.var("x", shape=IMAGE)
    chosen = choice(quantized(x, 11))
    function = relay.Function([x], relay.Tuple([unsigned(chosen), centred(chosen, 11)]))
    assert not [name for name, dtype in main_of(function) if dtype in ("int8", "int16")]
    assert_same(function)


@pytest.mark.parametrize(
    "others",
    [
        lambda q: q,
        lambda q: relay.sign(q),
        lambda q: relay.concatenate([q, q], axis=0),
        lambda q: relay.cast(q, "float32"),
    ],
)
def test_int8_that_is_read_as_such_stays(others: Callable[[Any], Any]) -> None:
    x = relay.var("x", shape=IMAGE)
    q = quantized(x, 4)
    function = relay.Function([x], relay.Tuple([unsigned(q), others(q)]))
    assert ("contrib_quantized", "int8") in main_of(function)
    assert_same(function)


def test_int8_that_no_product_takes_stays() -> None:
    x = relay.var("x", shape=IMAGE)
    function = relay.Function([x], centred(quantized(x, 4), 4))
    assert ("contrib_quantized", "int8") in main_of(function)
    assert_same(function)


def test_readers_of_the_unsigned_integers_subtract_nothing() -> None:
    """Sums of them, which a product with weights that are no int8 needs, too."""
    x = relay.var("x", shape=IMAGE)
    q = quantized(x, -5)
    u = unsigned(q)
    both = relay.Tuple([u, relay.cast(u, "int32"), relay.cast(u, "float32"), centred(q, -5)])
    assert main_of(relay.Function([x], both)).count(("subtract", "int32")) == 0
    assert_same(relay.Function([x], both))


@pytest.mark.parametrize("window", [1, 3])
def test_a_product_with_a_weight_that_is_no_int8(window: int) -> None:
    rng = np.random.default_rng(0)
    held = rng.integers(-135, 136, (24, 6, window, window)).astype("int32")
    x = relay.var("x", shape=(1, 6, 7, 8))
    layer = relay.nn.conv2d(
        centred(quantized(x, -5), -5), relay.const(held), padding=(window // 2, window // 2), out_dtype="int32"
    )
    got = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], layer), "native")).run(NUMBERS).numpy()
    away = np.clip(np.rint(NUMBERS) - 5, -128, 127).astype(int) + 5
    edges = [(0, 0), (0, 0), *[(window // 2, window // 2)] * 2]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(away, edges), (window, window), axis=(2, 3))
    np.testing.assert_array_equal(got, np.einsum("nchwij,kcij->nkhw", windows, held))
