"""The kernels for a matrix unit (AMX) on emulated tiles, so that every machine tests what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vmkit
from tests.kernels.packed_product import test_bfloat16_parts, test_integers
from tests.kernels.packed_product.products import convolved, packed_product
from tests.kernels.packed_product.test_bfloat16_parts import BOUND, random, tiled
from tests.kernels.packed_product.test_integers import integers, target_of
from tests.kernels.packed_product.tiles import emulate_tiles
from vmkit import relay
from vmkit.kernels.packed_product import bfloat16_parts
from vmkit.kernels.packed_product import integers as integer_products
from vmkit.kernels.packed_product.integers import integers_of
from vmkit.target.integer_unit import IntegerUnit

TILES = IntegerUnit(16, 4, 32, has_tiles=True)
# Emulated tiles are slow, and so is to compile kernels of any size: the largest case is left out, or most are.
LARGEST = {"images larger than the cache", "larger than the cache"}
OF_ANY_SIZE = {"blocks and channels that are not full", "dilation and strides", "few channels", "pointwise, strides"}
ROWS_OF_DENSE = (17, 70)


def chosen(cases: dict[str, Any], is_dynamic: bool) -> dict[str, Any]:
    return {
        name: case for name, case in cases.items() if name in (OF_ANY_SIZE if is_dynamic else cases.keys() - LARGEST)
    }


def results(function: relay.Function, target: str, *inputs: np.ndarray) -> list[np.ndarray]:
    machine = vmkit.VirtualMachine(vmkit.compile(function, target=f"{target} -num-cores=1"), num_threads=1)
    return [value.numpy() for value in machine.run(*inputs)]


def variable(name: str, x: np.ndarray, is_dynamic: bool) -> relay.Var:
    sizes = (*(relay.Any() for _ in x.shape[:-1]), x.shape[-1]) if is_dynamic else x.shape
    return relay.var(name, shape=sizes, dtype=str(x.dtype))


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_products_of_parts_keep_the_bound(is_dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16_parts, "has_matrix_unit", lambda target: True)
    counts, data, calls, inputs, wanted, sizes = emulate_tiles(monkeypatch), [], [], [], [], []

    def add(x: np.ndarray, w: np.ndarray, **attrs: Any) -> None:
        data.append(variable(f"x{len(data)}", x, is_dynamic))
        calls.append(tiled(data[-1], w, **attrs))
        inputs.append(x)

    cases = chosen(test_bfloat16_parts.CONVOLUTIONS, is_dynamic)
    for shape, units, kernel, *places in cases.values():
        x, w = random(*shape), random(units, *kernel, shape[-1])
        add(x, w, kernel_size=kernel, **dict(zip(("strides", "padding", "dilation"), places, strict=True)))
        wanted.append(convolved(x, w, *places))
        sizes.append(convolved(np.abs(x), np.abs(w), *places))
    for rows in ROWS_OF_DENSE:
        x, w = random(rows, 100), random(70, 100)
        add(x, w)
        wanted.append(x.astype("float64") @ w.T)
        sizes.append(np.abs(x).astype("float64") @ np.abs(w).T)
    names = [*cases, *ROWS_OF_DENSE]
    found = results(relay.Function(data, relay.Tuple(calls)), "llvm", *inputs)
    for name, got, want, size in zip(names, found, wanted, sizes, strict=True):
        assert got.shape == want.shape, name
        assert np.all(np.abs(got - want) <= BOUND * size), name
    assert counts["tdpbf16ps"] > 100 and counts["ldtilecfg"] == counts["tilerelease"] > 0


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_products_of_integers_are_exact(is_dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of("vectors of 512 bits")  # the rows that fill no tile are multiplied by vectors
    monkeypatch.setattr(integer_products, "integer_unit", lambda target: TILES)
    counts, data, calls, inputs, wanted = emulate_tiles(monkeypatch), [], [], [], []

    def add(x: np.ndarray, w: np.ndarray, **attrs: Any) -> None:
        data.append(variable(f"x{len(data)}", x, is_dynamic))
        calls.append(relay.cast(packed_product(data[-1], w, integers_of(TILES).name, 77, **attrs), "float64"))
        inputs.append(x)

    cases = chosen(test_integers.CONVOLUTIONS, is_dynamic)
    for shape, units, kernel, *places in cases.values():
        x, w = integers(*shape), integers(units, *kernel, shape[-1], dtype="int8")
        add(x, w, kernel_size=kernel, **dict(zip(("strides", "padding", "dilation"), places, strict=True)))
        wanted.append(convolved(x, w, *places, 77))
    for rows in ROWS_OF_DENSE:
        x, w = integers(rows, 101), integers(37, 101, dtype="int8")
        add(x, w[:, None, :])
        wanted.append(x.astype("int64") @ w.astype("int64").T)
    found = results(relay.Function(data, relay.Tuple(calls)), target, *inputs)
    for name, got, want in zip([*cases, *ROWS_OF_DENSE], found, wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=str(name))
    assert counts["tdpbusd"] > 100 and counts["ldtilecfg"] == counts["tilerelease"] > 0
