"""Sums, products and the like of ints, symbols, and the unknown."""

from __future__ import annotations

import pytest
from tvm import tirx

from tests.relay.ir.dims.symbols import m, n
from vmkit.relay.ir import Any, TensorType, dims


def test_arithmetic_folds_ints_and_keeps_the_unknown() -> None:
    assert dims.add(2, 3) == 5
    assert dims.floordiv(7, 2) == 3 and dims.ceildiv(7, 2) == 4
    assert dims.is_any(dims.mul(Any(), 4))
    assert dims.sub(dims.add(n, 3), n) == 3
    assert dims.product([n, 0, Any()]) == 0


def test_symbols_come_once_and_are_replaced() -> None:
    assert dims.symbols([dims.add(n, m), n, 3]) == [n, m]
    assert dims.substitute(dims.add(n, 1), {n: tirx.IntImm("int64", 4)}) == 5


def test_a_dimension_that_is_written_equals_the_one_that_is_computed() -> None:
    n, m = tirx.Var("n", "int32"), tirx.Var("m", "int32")
    scaled = tirx.Cast("int32", tirx.round(n * tirx.const(2.0, "float64")))
    for written, computed in (
        (n, n),
        (n + n, dims.add(n, n)),
        (2 * n * 3, dims.mul(dims.mul(2, n), 3)),
        (n + (-2), dims.sub(n, 2)),
        (tirx.indexdiv(n, 4), dims.floordiv(n, 4)),
        (tirx.max(n, m), dims.maximum(n, m)),
        (scaled, dims.mul(n, 2)),
        (n - n + 3, 3),
    ):
        assert TensorType([written]) == TensorType([computed])
    assert TensorType([n + n]) != TensorType([n * 3])


def test_a_dimension_scaled_by_a_fraction_stays_rounded() -> None:
    n = tirx.Var("n", "int32")
    half = tirx.Cast("int32", tirx.round(n * tirx.const(1.5, "float64")))
    (dim,) = TensorType([half]).shape
    assert "round" in str(dim)


def test_powers_are_products() -> None:
    assert dims.power(3, 4) == 81 and dims.power(n, 0) == 1
    assert dims.equal(dims.power(n, 2), dims.mul(n, n))
    with pytest.raises(ValueError, match="from 0 to 8, not 9"):
        dims.power(n, 9)


def test_remainders() -> None:
    assert dims.floormod(-7, 4) == 1
    assert dims.floormod(dims.mul(n, 8), 4) == 0
    assert dims.is_any(dims.floormod(Any(), 4))
