"""Dense layers over packed weights give the same for every number of rows, on targets with wide and narrow vectors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

import vmkit
from vmkit import relay
from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import dense
from vmkit.target import canonical_target
from vmkit.values.halves import HALVES

RNG = np.random.default_rng(0)
ROWS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 24, 25, 31, 57, 64, 130, 301)
TARGETS = ("native", "llvm")
n = tirx.Var("n", "int64")


def layer(rows: Any, inner: int, units: int) -> tuple[relay.Function, np.ndarray, np.ndarray]:
    weight, bias = (RNG.standard_normal(shape).astype("float32") for shape in ((units, inner), (units,)))
    x = relay.var("x", shape=(rows, inner))
    product = relay.nn.dense(x, relay.const(weight))
    return relay.Function([x], relay.nn.relu(relay.add(product, relay.const(bias)))), weight, bias


def assert_is_product(machine: vmkit.VirtualMachine, rows: int, weight: np.ndarray, bias: np.ndarray) -> None:
    x = RNG.standard_normal((rows, weight.shape[1])).astype("float32")
    expected = np.maximum(x.astype("float64") @ weight.T.astype("float64") + bias, 0)
    # Sums of some hundred products, which a matrix unit rounds a little otherwise.
    np.testing.assert_allclose(machine.run(x).numpy(), expected, rtol=1e-4, atol=1e-3)


# One weight is small, one is read from memory and prefetched; the numbers of blocks have several divisors or none.
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("inner", "units"), [(24, 64), (520, 160), (515, 224)])
def test_any_number_of_rows_gives_the_product(target: str, inner: int, units: int) -> None:
    function, weight, bias = layer(n, inner, units)
    machine = vmkit.VirtualMachine(vmkit.compile(function, target=target))
    for rows in ROWS:
        assert_is_product(machine, rows, weight, bias)


@pytest.mark.parametrize("rows", [1, 2, 5, 16, 131])
def test_a_known_number_of_rows_gives_the_product(rows: int) -> None:
    function, weight, bias = layer(rows, 516, 192)
    assert_is_product(vmkit.VirtualMachine(vmkit.compile(function, target="llvm")), rows, weight, bias)


def test_rows_of_several_axes_keep_their_places() -> None:
    weight = RNG.standard_normal((96, 40)).astype("float32")
    x = relay.var("x", shape=(n, relay.Any(), 40))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.nn.dense(x, relay.const(weight))), "llvm"))
    for shape in ((1, 1), (3, 5), (2, 0), (0, 4), (4, 17)):
        value = RNG.standard_normal((*shape, 40)).astype("float32")
        np.testing.assert_allclose(machine.run(value).numpy(), value @ weight.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("cpu", "leasts", "is_prefetched"), [("x86-64-v4", [4, 2, 1], False), ("x86-64-v3", [3, 2, 1], True)]
)
def test_a_number_of_rows_chooses_among_versions_that_cover_all_of_them(
    cpu: str, leasts: list[int], is_prefetched: bool
) -> None:
    chosen = canonical_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}", None).primary
    plain = rules.prepared(product(512, 20, 32))
    assert plain is not None
    default = dense.decide(plain, chosen)
    assert default is not None
    versions = dense.versions(plain, chosen, default)
    assert versions is not None
    assert [least for least, _ in versions[1]] == leasts
    assert versions[1][0][1] == default
    text = rules.scheduled(plain, dense.RULE, chosen, default).script()
    assert [int(least) for least in re.findall(r"if n >= T.int64\((\d+)\):", text)] == leasts
    assert ("T.prefetch" in text) == is_prefetched
    assert "pragma" not in text


def test_tiles_of_any_number_of_rows_are_of_two_blocks_where_these_divide_all() -> None:
    target = canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4", None).primary
    for count, dtype, expected in ((20, "float32", (4, 2)), (21, "float32", (4, 1)), (20, "float16", (8, 1))):
        plain = rules.prepared(product(512, count, 32, dtype))
        assert plain is not None
        made = dense.decide(plain, target)
        assert made is not None and (made.rows, made.blocks) == expected
        assert made in dense.candidates(plain, target)


def product(inner: int, count: int, width: int, dtype: str = "float32") -> tirx.PrimFunc:
    data, weight = te.placeholder((n, inner), name="data"), te.placeholder((count, inner, width), dtype, "weight")
    k = te.reduce_axis((0, inner), "k")

    def element(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        return te.sum(data[i, k] * weight[j // width, k, j % width].astype("float32"), k)

    result = te.compute((n, count * width), element)
    return te.create_prim_func([data, weight, result])


def halves(inner: int, units: int, dtype: str) -> np.ndarray:
    """Return a weight whose numbers are ones of a type of 16 bits, among them small ones."""
    weight = RNG.standard_normal((units, inner)).astype("float32")
    weight[::3] *= np.float32(2.0**-16)
    if dtype == "float16":
        return weight.astype("float16").astype("float32")
    return (weight.view("uint32") & np.uint32(0xFFFF0000)).view("float32")


HALF_TARGETS = ("native", "llvm -mcpu=x86-64-v3")


@pytest.mark.sweep
@pytest.mark.parametrize("target", HALF_TARGETS)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("inner", "units"), [(24, 64), (515, 224)])
def test_any_number_of_rows_by_a_weight_of_16_bits_gives_the_product(
    target: str, dtype: str, inner: int, units: int
) -> None:
    weight, bias = halves(inner, units, dtype), RNG.standard_normal(units).astype("float32")
    x = relay.var("x", shape=(n, inner))
    product = relay.nn.dense(x, relay.const(weight))
    machine = vmkit.VirtualMachine(
        vmkit.compile(relay.Function([x], relay.nn.relu(product + relay.const(bias))), target)
    )
    for rows in ROWS:
        assert_is_product(machine, rows, weight, bias)


@pytest.mark.parametrize("rows", [1, 5, 16, 131])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_known_number_of_rows_by_a_weight_of_16_bits_gives_the_product(rows: int, dtype: str) -> None:
    weight = halves(516, 192, dtype)
    x = relay.var("x", shape=(rows, 516))
    made = vmkit.compile(relay.Function([x], relay.nn.dense(x, relay.const(weight))), "llvm -mcpu=x86-64-v3")
    value = RNG.standard_normal((rows, 516)).astype("float32")
    expected = value.astype("float64") @ weight.T.astype("float64")
    np.testing.assert_allclose(vmkit.VirtualMachine(made).run(value).numpy(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("dtype", "leasts"), [("float16", [9, 8, 4, 2, 1]), ("float32", [4, 2, 1])])
def test_many_rows_read_a_weight_that_the_first_tile_has_widened(dtype: str, leasts: list[int]) -> None:
    chosen = canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4", None).primary
    plain = rules.prepared(product(512, 40, 32, dtype))
    assert plain is not None
    default = dense.decide(plain, chosen)
    assert default is not None and default.widened == (dtype == "float16")
    versions = dense.versions(plain, chosen, default)
    assert versions is not None
    assert [(least, each.widened) for least, each in versions[1]] == [(least, least == 9) for least in leasts]
    text = rules.scheduled(plain, dense.RULE, chosen, default).script()
    assert ("weight_wide[" in text) == default.widened
