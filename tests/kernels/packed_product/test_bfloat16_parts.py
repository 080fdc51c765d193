"""Products of float32 in bfloat16 parts on AMX: how weights are packed, and that results keep their bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from tests.kernels.packed_product.products import convolved, packed_product
from vmkit import optimize, relay
from vmkit.kernels.builder import T, kernel
from vmkit.kernels.packed_product.bfloat16_code import PARTS
from vmkit.kernels.packed_product.bfloat16_parts import BFLOAT16_PARTS
from vmkit.kernels.packed_product.bfloat16_plan import ROWS, PartsPlan
from vmkit.kernels.packed_product.encodings import weight_from_json, weight_to_json
from vmkit.kernels.packed_product.shape import ProductShape
from vmkit.kernels.packed_product.weight import PackedWeight
from vmkit.target.matrix_unit import is_permitted

BOUND = 2.0**-20 + 2.0**-19  # the second term is for float32 sums

needs_unit = pytest.mark.skipif(
    not is_permitted(), reason="this machine has no matrix unit (AMX) that it may use; test_tiles.py emulates one"
)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def packing(*sizes: Any) -> PackedWeight:
    return PackedWeight(ProductShape(*sizes), BFLOAT16_PARTS)


def tiled(data: relay.Expr, weight: np.ndarray, **attrs: Any) -> relay.Call:
    return packed_product(data, weight, BFLOAT16_PARTS.name, **attrs)


def float32(bits: np.ndarray) -> np.ndarray:
    return (bits.astype("uint32") << 16).view("float32")


@pytest.mark.parametrize(
    ("kernel", "channels", "units"), [((1, 1), 64, 64), ((3, 3), 40, 50), ((3, 5), 3, 33), ((1, 1), 7, 5)]
)
def test_packed_weight_holds_every_element_in_parts(kernel: tuple[int, int], channels: int, units: int) -> None:
    tiled = packing(channels, units, kernel)
    weight = random(units, *kernel, channels)
    packed = tiled.pack(weight)
    assert packed.shape == tiled.shape
    unit, row, column, channel = np.indices(weight.shape)
    at = [
        [np.broadcast_to(i, weight.shape) for i in BFLOAT16_PARTS.index(tiled, p, row, column, channel, unit)]
        for p in range(PARTS)
    ]
    high, middle, low = (float32(packed[tuple(index)]) for index in at)
    assert np.all(np.abs(weight - high) < 2.0**-7 * np.abs(weight))
    assert np.all(np.abs(weight - high - middle) < 2.0**-14 * np.abs(weight))
    np.testing.assert_array_equal(high.astype("float64") + middle + low, weight)
    assert np.count_nonzero(packed) <= 3 * weight.size  # the rest is filled up with zeros


def test_sizes_of_weight_come_back_from_json() -> None:
    tiled = packing(24, 32, (3, 1), (2, 1), (1, 2), (1, 0))
    assert weight_from_json(weight_to_json(tiled)) == tiled


CONVOLUTIONS = {
    "plain": ((1, 9, 13, 64), 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "blocks and channels that are not full": ((2, 7, 11, 40), 50, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "odd channels": ((1, 8, 9, 33), 35, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "strides": ((2, 13, 14, 32), 48, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "unlike strides": ((1, 13, 14, 32), 16, (3, 2), (2, 3), (1, 0, 0, 1), (1, 1)),
    "dilation": ((1, 12, 11, 32), 32, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    "dilation and strides": ((2, 15, 16, 32), 32, (3, 3), (2, 2), (2, 2, 2, 2), (3, 2)),
    "few channels": ((2, 21, 22, 3), 24, (7, 7), (2, 2), (3, 3, 3, 3), (1, 1)),
    "few channels, one row": ((1, 5, 40, 12), 20, (1, 5), (1, 2), (0, 2, 0, 2), (1, 1)),
    "pointwise": ((2, 5, 7, 96), 80, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "pointwise, strides": ((2, 6, 7, 64), 64, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1)),
    "pointwise, padded": ((1, 4, 5, 32), 32, (1, 1), (1, 1), (1, 2, 0, 1), (1, 1)),
    "images larger than the cache": ((1, 40, 130, 64), 16, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
}


@needs_unit
@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution_keeps_the_bound(case: str, is_dynamic: bool, cores: int) -> None:
    shape, units, kernel, strides, padding, dilation = CONVOLUTIONS[case]
    x, w = random(*shape), random(units, *kernel, shape[-1])
    n, h, width = (relay.Any() for _ in range(3)) if is_dynamic else shape[:3]
    data = relay.var("x", shape=(n, h, width, shape[-1]))
    call = tiled(data, w, kernel_size=kernel, strides=strides, padding=padding, dilation=dilation)
    exe = vmkit.compile(relay.Function([data], relay.nn.relu(call)), target=f"native -num-cores={cores}")
    got = vmkit.VirtualMachine(exe).run(x).numpy()
    want = np.maximum(convolved(x, w, strides, padding, dilation), 0)
    bound = BOUND * convolved(np.abs(x), np.abs(w), strides, padding, dilation)
    assert np.all(np.abs(got - want) <= bound)


@needs_unit
@pytest.mark.parametrize("rows", [0, 1, 2, 16, 17, 33, 191, 192, 300, 9000])
def test_dense_of_any_rows_keeps_the_bound(rows: int) -> None:
    data, x, w, bias = relay.var("x", shape=(relay.Any(), 100)), random(rows, 100), random(70, 100), random(70)
    product = tiled(data, w)
    # A value that is used several times, one of them behind a function, is kept and not computed again.
    biased = relay.nn.bias_add(product, relay.const(bias))
    out = relay.add(relay.multiply(relay.tanh(biased), biased), relay.multiply(biased, biased))
    # Three cores share the products of fewer rows than 192, and the chunks of more.
    exe = vmkit.compile(relay.Function([data], out), target="native -num-cores=3")
    got = vmkit.VirtualMachine(exe).run(x).numpy()
    sums = x.astype("float64") @ w.T.astype("float64") + bias
    want = np.tanh(sums) * sums + sums * sums
    error = BOUND * (np.abs(x) @ np.abs(w).T) * (2 + 3 * np.abs(sums)) + 1e-5
    assert got.shape == (rows, 70)
    assert np.all(np.abs(got - want) <= error)


@needs_unit
@pytest.mark.parametrize("inner", [640, 650])
def test_dense_of_unknown_rows_takes_the_unit_for_many(inner: int) -> None:
    data, w, bias = relay.var("x", shape=(relay.Any(), inner)), random(512, inner), random(512)
    out = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(data, relay.const(w)), relay.const(bias)))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([data], out), target="native"))
    for rows in (0, 1, 3, 31, 32, 33, 47, 300):
        x = random(rows, inner)
        want = np.maximum(x.astype("float64") @ w.T.astype("float64") + bias, 0)
        got = machine.run(x).numpy()
        assert got.shape == want.shape
        assert np.all(np.abs(got - want) <= BOUND * (np.abs(x) @ np.abs(w).T + np.abs(bias)))


@needs_unit
def test_residual_and_two_readers_are_computed_on_sums() -> None:
    data, other = relay.var("x", shape=(2, 3, 64)), relay.var("y", shape=(2, 3, 64))
    x, y, w = random(2, 3, 64), random(3, 2, 64).reshape(2, 3, 64), random(64, 64)
    product = tiled(data, w)
    out = relay.Tuple([relay.nn.relu(relay.add(product, other)), relay.exp(relay.negative(relay.abs(product)))])
    exe = vmkit.compile(relay.Function([data, other], out), target="native")
    got = [value.numpy() for value in vmkit.VirtualMachine(exe).run(x, y)]
    sums = x.astype("float64") @ w.T.astype("float64")
    np.testing.assert_allclose(got[0], np.maximum(sums + y, 0), atol=1e-4)
    np.testing.assert_allclose(got[1], np.exp(-np.abs(sums)), atol=1e-4)


@needs_unit
def test_stages_of_another_type_are_kept_in_it() -> None:
    data, x, w = relay.var("x", shape=(20, 64)), random(20, 64), random(64, 64) * np.float32(0.1)
    wide = relay.exp(relay.cast(tiled(data, w), "float64"))
    # Read more often than is worth computing it again, so it is a stage of its own.
    out = relay.add(relay.multiply(wide, wide), relay.sqrt(relay.add(wide, relay.multiply(wide, wide))))
    got = vmkit.VirtualMachine(vmkit.compile(relay.Function([data], out), target="native")).run(x).numpy()
    values = np.exp(x.astype("float64") @ w.T.astype("float64"))
    assert got.dtype == "float64"
    np.testing.assert_allclose(got, values**2 + np.sqrt(values + values**2), rtol=1e-4)


def test_operator_needs_no_unit() -> None:
    data, x, w = relay.var("x", shape=(1, 4, 5, 3)), random(1, 4, 5, 3), random(4, 3, 3, 3)
    attrs: dict[str, Any] = {"kernel_size": (3, 3), "strides": (2, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1)}
    exe = vmkit.compile(relay.Function([data], tiled(data, w, **attrs)), target="llvm")
    want = convolved(x, w, attrs["strides"], attrs["padding"], attrs["dilation"])
    np.testing.assert_allclose(vmkit.VirtualMachine(exe).run(x).numpy(), want, rtol=1e-4, atol=1e-4)


def tiled_calls(mod: tvm.IRModule) -> int:
    found: list[Any] = []
    for function in mod.functions.values():
        relay.analysis.post_order_visit(function, found.append)
    return sum(1 for node in found if getattr(getattr(node, "op", None), "name", "") == "nn.contrib_packed_product")


@pytest.mark.parametrize(
    ("rows", "units", "cores", "is_over_chunks"),
    [
        (3136, 64, 1, False),
        (3136, 64, 2, True),
        (196, 256, 2, True),
        (49, 512, 2, False),  # too few for every core to fill the unit
        (3136, 64, 100, False),
        (196, 1024, 2, False),  # a core would fetch more of the weight than it saves of the data
    ],
)
def test_cores_share_chunks_where_there_are_enough(rows: int, units: int, cores: int, is_over_chunks: bool) -> None:
    with kernel():
        plan = PartsPlan.of(packing(256, units), [1, rows, 256], [1, rows, units], cores)
        T.evaluate(0)
    assert plan.is_over_chunks is is_over_chunks
    if is_over_chunks:
        chunks = -(-rows // plan.rows_of_chunk)
        assert -(-chunks // cores) * plan.rows_of_chunk <= rows / cores + ROWS  # that the busiest core has


def test_only_products_that_fill_the_unit_are_given_to_it() -> None:
    large = relay.nn.dense(relay.var("x", shape=(64, 256)), relay.const(random(64, 256)))
    small = relay.nn.dense(relay.var("x", shape=(2, 64)), relay.const(random(8, 64)))
    narrow = relay.nn.conv2d(
        relay.var("x", shape=(1, 99, 99, 3)),
        relay.const(random(3, 3, 3, 64)),
        data_layout="NHWC",
        kernel_layout="HWIO",
        channels=64,
        kernel_size=(3, 3),
    )
    packs = optimize.PackAMXTiles()
    counts = []
    for body in (large, small, narrow):
        mod = tvm.IRModule({"main": relay.Function(relay.analysis.free_vars(body), body)})
        counts.append(tiled_calls(packs(relay.transform.InferType()(mod))))
    assert counts == [1, 0, 0]


@needs_unit
def test_exact_products_can_be_asked_for() -> None:
    data, x, w = relay.var("x", shape=(64, 256)), random(64, 256), random(64, 256)
    function = relay.Function([data], relay.nn.dense(data, relay.const(w)))
    want = x.astype("float64") @ w.T.astype("float64")
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["PackAMXTiles"]):
        exact = vmkit.VirtualMachine(vmkit.compile(function, target="native")).run(x).numpy()
    fast = vmkit.VirtualMachine(vmkit.compile(function, target="native")).run(x).numpy()
    assert not np.array_equal(exact, fast)
    for got in (exact, fast):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@needs_unit
def test_infinity_and_nan_stay_in_their_row() -> None:
    data, x, w = relay.var("x", shape=(40, 64)), random(40, 64), random(256, 64)
    x[3, 5], x[7, 9] = np.inf, np.nan
    got = vmkit.VirtualMachine(vmkit.compile(relay.Function([data], tiled(data, w)), target="native")).run(x).numpy()
    assert not np.any(np.isfinite(got[[3, 7]]))
    assert np.all(np.isfinite(np.delete(got, [3, 7], axis=0)))
