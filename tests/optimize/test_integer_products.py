"""Products of quantised tensors are found wherever they stand, and what is computed for them is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.optimize.float_products import EXACT
from vmkit.relay.ir import is_call, post_order
from vmkit.relay.transform import infer_module
from vmkit.target import canonical_target
from vmkit.target.integer_unit import integer_unit

PLAIN = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64"  # which has no instructions for integers


def integers(*shape: int, dtype: str = "uint8") -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(sum(shape)).integers(info.min, info.max + 1, shape).astype(dtype)


def names(module: tvm.IRModule) -> list[str]:
    """Return the names of the operators that are called."""
    nodes = post_order(module["main"])
    return [node.op.name for node in nodes if isinstance(getattr(node, "op", None), tvm.ir.Op)]


def of_difference(x: Any, zero: int) -> Any:
    return relay.subtract(relay.cast(x, "int32"), relay.const(np.int32(zero)))


def run(function: relay.Function, target: str, *values: np.ndarray) -> Any:
    return vmkit.VirtualMachine(vmkit.compile(function, target=target)).run(*values)


def dequantized(x: Any, scale: Any, zero: int) -> Any:
    return relay.multiply(relay.cast(of_difference(x, zero), "float32"), relay.const(np.float32(scale)))


def test_products_of_dequantised_tensors_have_one_factor() -> None:
    x, image = integers(5, 64), integers(1, 16, 9, 9)
    w, filters = integers(48, 64, dtype="int8"), integers(32, 16, 3, 3, dtype="int8")
    scales = np.linspace(0.01, 0.02, 48, dtype="float32")
    a, b = relay.var("a", shape=x.shape, dtype="uint8"), relay.var("b", shape=image.shape, dtype="uint8")
    dense = relay.nn.dense(dequantized(a, 0.5, 100), dequantized(relay.const(w), scales[:, None], 0))
    conv = relay.nn.conv2d(
        dequantized(b, 0.25, 7), dequantized(relay.const(filters), 0.125, 0), kernel_size=(3, 3), padding=(1, 1)
    )
    module = infer_module(tvm.IRModule({"main": relay.Function([a, b], relay.Tuple([dense, conv]))}))
    found = names(optimize.FactorScales()(module))
    assert found.count("nn.dense") == found.count("nn.conv2d") == 1
    factored = optimize.FactorScales()(module)
    dtypes = [node.checked_type.dtype for node in post_order(factored["main"]) if _is_product(node)]
    assert dtypes == ["int32", "int32"]
    for target in ("native", PLAIN):
        product, image_product = (value.numpy() for value in run(module["main"], target, x, image))
        want = (x.astype("float64") - 100) @ w.T.astype("float64") * 0.5 * scales
        np.testing.assert_allclose(product, want, rtol=1e-5, atol=1e-3)
        padded = np.pad(image.astype("float64") - 7, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        want = np.einsum("nchwij,ocij->nohw", windows, filters.astype("float64")) / 32
        np.testing.assert_allclose(image_product, want, rtol=1e-5, atol=1e-3)


def _is_product(node: Any) -> bool:
    return isinstance(getattr(node, "op", None), tvm.ir.Op) and node.op.name in ("nn.dense", "nn.conv2d")


def test_pairs_are_added_where_few_weights_are_too_large_for_it() -> None:
    unit = integer_unit(canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell").primary)
    few = np.clip(np.random.default_rng(0).normal(0, 27, (64, 512)).round(), -127, 127).astype("int8")
    for weight, encoding in ((few, "int8_pairs_narrow"), (integers(64, 512, dtype="int8"), "int16_narrow")):
        x = relay.var("x", shape=(4, 512), dtype="uint8")
        product = relay.nn.dense(of_difference(x, 9), relay.const(weight.astype("int32")))
        module = optimize.IntegerProducts(unit)(infer_module(tvm.IRModule({"main": relay.Function([x], product)})))
        calls = [n for n in post_order(module["main"]) if "encoding" in dir(getattr(n, "attrs", None))]
        assert [str(call.attrs.encoding) for call in calls] == [encoding]


def test_a_zero_point_that_becomes_none_in_uint8_is_not_subtracted() -> None:
    unit = integer_unit(canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").primary)
    weight = integers(32, 64, dtype="int8")
    for zero, subtracted in ((-128, 0), (-127, 1)):
        x = relay.var("x", shape=(4, 64), dtype="int8")
        product = relay.nn.dense(of_difference(x, zero), relay.const(weight.astype("int32")))
        function = relay.Function([x], product)
        found = names(optimize.IntegerProducts(unit)(infer_module(tvm.IRModule({"main": function}))))
        assert found.count("subtract") == subtracted and "nn.contrib_packed_product" in found
        data = integers(4, 64, dtype="int8")
        expected = (data.astype("int64") - zero) @ weight.T.astype("int64")
        np.testing.assert_array_equal(run(function, "native", data).numpy(), expected)


def test_few_units_are_products_of_integers_too() -> None:
    unit = integer_unit(canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").primary)
    x, data = relay.var("x", shape=(1, 6, 5, 64), dtype="uint8"), integers(1, 6, 5, 64)
    for units, zero in ((1, 148), (4, 148), (8, 0), (16, 148)):
        weight = integers(3, 3, 64, units).astype("int32") - zero
        product = relay.nn.conv2d(
            of_difference(x, 7), relay.const(weight), kernel_size=(3, 3), channels=units, data_layout="NHWC",
            kernel_layout="HWIO", out_dtype="int32",
        )  # fmt: skip
        function = relay.Function([x], product)
        found = names(optimize.IntegerProducts(unit)(infer_module(tvm.IRModule({"main": function}))))
        assert "nn.contrib_packed_product" in found
        windows = np.lib.stride_tricks.sliding_window_view(data.astype("int64") - 7, (3, 3), (1, 2))
        wanted = np.einsum("nhwcij,ijco->nhwo", windows, weight.astype("int64"))
        np.testing.assert_array_equal(run(function, "native", data).numpy(), wanted)


def test_weights_of_more_than_int8_are_multiplied_once_and_the_data_summed() -> None:
    unit = integer_unit(canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").primary)
    x = relay.var("x", shape=(relay.Any(), 64), dtype="uint8")
    # One more output has room, or the data are summed beside; numbers too far from each other are two products.
    for units, low, high, shapes in (
        (5, -148, 107, [(1, 1, 16, 16, 4)]),
        (16, -148, 107, [(1, 1, 16, 16, 4)]),
        (24, 0, 255, [(1, 1, 16, 32, 4)]),
        (64, 0, 255, [(2, 1, 16, 32, 4)]),
        (5, -255, 255, [(1, 1, 16, 16, 4)] * 3),
    ):
        weight = np.random.default_rng(units).integers(low, high + 1, (units, 64)).astype("int32")
        weight[0, :2] = low, high
        function = relay.Function([x], relay.nn.dense(of_difference(x, 7), relay.const(weight), out_dtype="int32"))
        module = optimize.IntegerProducts(unit)(infer_module(tvm.IRModule({"main": function})))
        products = [node for node in post_order(module["main"]) if is_call(node, "nn.contrib_packed_product")]
        assert [tuple(node.args[1].data.shape) for node in products] == shapes
        for target in ("native", "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3"):
            machine = vmkit.VirtualMachine(vmkit.compile(function, target=target))
            for rows in (0, 1, 13, 64):
                data = integers(rows, 64)
                data[:1], data[1:2] = 255, 0
                wanted = (data.astype("int64") - 7) @ weight.T.astype("int64")
                np.testing.assert_array_equal(machine.run(data).numpy(), wanted)


def test_floats_are_taken_where_they_are_exact_and_sums_cut_where_they_are_not() -> None:
    short, long = integers(6, 64, dtype="int8"), np.full((6, 1200), -128, "int8")
    a, b = relay.var("a", shape=(relay.Any(), 64), dtype="uint8"), relay.var("b", shape=(2, 1200), dtype="uint8")
    c, d = relay.var("c", shape=(2, 3, 40), dtype="int8"), relay.var("d", shape=(2, 5, 40), dtype="uint8")
    products = [
        relay.nn.dense(of_difference(a, 128), relay.const(short.astype("int32"))),
        relay.nn.dense(of_difference(b, 0), relay.const(long.astype("int32"))),
        relay.nn.batch_matmul(of_difference(c, -5), of_difference(d, 9)),
    ]
    function = relay.Function([a, b, c, d], relay.Tuple(products))
    module = optimize.FloatProducts()(infer_module(tvm.IRModule({"main": function})))
    found = names(module)
    assert 255 * 128 * 600 > EXACT > 255 * 128 * 400
    assert found.count("nn.dense") == 4 and found.count("split") == 1
    x, y = integers(7, 64), np.full((2, 1200), 255, "uint8")
    z, w = integers(2, 3, 40, dtype="int8"), integers(2, 5, 40)
    for got, want in zip(
        run(function, PLAIN, x, y, z, w),
        [
            (x.astype("int64") - 128) @ short.T.astype("int64"),
            y.astype("int64") @ long.T.astype("int64"),
            (z.astype("int64") + 5) @ (w.astype("int64") - 9).transpose(0, 2, 1),
        ],
        strict=True,
    ):
        np.testing.assert_array_equal(got.numpy(), want)


def test_rows_of_a_dequantised_table_are_looked_up_first() -> None:
    table, rows = integers(50, 8), relay.var("i", shape=(relay.Any(),), dtype="int64")
    function = relay.Function([rows], relay.take(dequantized(relay.const(table), 0.5, 3), rows, axis=0))
    moved = optimize.LookUpFirst()(infer_module(tvm.IRModule({"main": function})))
    look_up = next(n for n in post_order(moved["main"]) if getattr(getattr(n, "op", None), "name", "") == "take")
    assert look_up.checked_type.dtype == "uint8"
    index = np.array([3, 49, 0, 3])
    np.testing.assert_array_equal(run(moved["main"], "native", index).numpy(), (table[index] - np.float32(3)) / 2)
