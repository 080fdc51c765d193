"""Weights of 8 bits less a zero point are packed once, whatever the zero point is, and the results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.optimize.test_integer_products import integers, names, of_difference, run
from vmkit import optimize, relay
from vmkit.optimize.weight_offsets import offset_weight
from vmkit.relay.ir import Constant, post_order
from vmkit.relay.transform import infer_module
from vmkit.target import canonical_target
from vmkit.target.integer_unit import integer_unit

TARGETS = ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4")


def by_integers(function: relay.Function, target: str) -> tvm.IRModule:
    unit = integer_unit(canonical_target(target).primary)
    return optimize.IntegerProducts(unit)(infer_module(tvm.IRModule({"main": function})))


def packed_bytes(module: tvm.IRModule) -> int:
    """Return the bytes of all constants of a module that are integers of 8 or 16 bits."""
    found = [node.data for node in post_order(module["main"]) if isinstance(node, Constant)]
    return sum(data.numpy().nbytes for data in found if str(data.dtype) in ("int8", "uint8", "int16"))


@pytest.mark.parametrize("zero", [0, 10, 121, 143, 255])
def test_a_dense_layer_of_weights_less_a_zero_point_is_one_product(zero: int) -> None:
    weight = integers(48, 64).astype("int32") - zero
    x, data = relay.var("x", shape=(relay.Any(), 64), dtype="uint8"), integers(5, 64)
    function = relay.Function([x], relay.nn.dense(of_difference(x, 93), relay.const(weight)))
    for target in TARGETS:
        module = by_integers(function, target)
        assert names(module).count("nn.contrib_packed_product") == 1
        assert packed_bytes(module) <= 3 * weight.size  # pairs of int16 take two
    expected = (data.astype("int64") - 93) @ weight.T.astype("int64")
    np.testing.assert_array_equal(run(function, "native", data).numpy(), expected)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "window",
    [
        {"kernel_size": (3, 3), "padding": (1, 1, 1, 1)},
        {"kernel_size": (3, 3), "padding": (2, 0, 1, 2), "strides": (2, 1)},
        {"kernel_size": (3, 2), "padding": (2, 1, 2, 1), "dilation": (2, 2)},
        {"kernel_size": (1, 1)},
        {"kernel_size": (1, 1), "strides": (2, 2)},
    ],
)
@pytest.mark.parametrize("layout", ["HWIO", "OHWI"])
def test_windows_are_summed_as_the_product_sees_them(window: dict[str, Any], layout: str) -> None:
    sizes = dict(zip("OHWI", (32, *window["kernel_size"], 16), strict=True))
    # Each output has a zero point of its own, which no number for all outputs makes int8 of.
    zeros = np.linspace(0, 255, 32).astype("int32").reshape([32 if axis == "O" else 1 for axis in layout])
    weight = integers(*[sizes[axis] for axis in layout]).astype("int32") - zeros
    x, data = relay.var("x", shape=(1, relay.Any(), 9, 16), dtype="uint8"), integers(1, 8, 9, 16)
    function = relay.Function(
        [x],
        relay.nn.conv2d(
            of_difference(x, 7), relay.const(weight), channels=32, data_layout="NHWC", kernel_layout=layout,
            out_dtype="int32", **window,
        ),
    )  # fmt: skip
    for target in TARGETS:
        assert names(by_integers(function, target)).count("nn.contrib_packed_product") == 1
    top, left, bottom, right = window.get("padding", (0, 0, 0, 0))
    padded = np.pad(data.astype("int64") - 7, ((0, 0), (top, bottom), (left, right), (0, 0)))
    (over, across), (down, along) = window.get("dilation", (1, 1)), window.get("strides", (1, 1))
    rows, columns = (over * (sizes["H"] - 1) + 1, across * (sizes["W"] - 1) + 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (rows, columns), (1, 2))
    windows = windows[:, ::down, ::along, :, ::over, ::across]
    ordered = weight.transpose([layout.index(axis) for axis in "OHWI"]).astype("int64")
    expected = np.einsum("nhwcij,oijc->nhwo", windows, ordered)
    for target in ("native", "llvm -mcpu=x86-64-v3"):
        np.testing.assert_array_equal(run(function, target, data).numpy(), expected)


def test_weights_that_are_far_apart_are_two_products() -> None:
    weight = np.array([-200, 200], "int32")[np.random.default_rng(0).integers(0, 2, (32, 64))]
    x, data = relay.var("x", shape=(4, 64), dtype="uint8"), integers(4, 64)
    function = relay.Function([x], relay.nn.dense(of_difference(x, 3), relay.const(weight)))
    assert offset_weight(weight) is None
    assert names(by_integers(function, TARGETS[1])).count("nn.contrib_packed_product") == 2
    expected = (data.astype("int64") - 3) @ weight.T.astype("int64")
    np.testing.assert_array_equal(run(function, "native", data).numpy(), expected)
