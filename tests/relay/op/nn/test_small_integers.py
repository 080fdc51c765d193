"""Products of integers of less than a byte are those of wider ones; a result of such a type has their low bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.relay.programs import compiled
from vmkit import relay
from vmkit.relay import nn
from vmkit.relay.op.storage import array_constant

Make = Callable[..., Any]


def numbers(dtype: str, *shape: int) -> np.ndarray:
    low, high = (0, 16) if dtype == "uint4" else (-8, 8)
    return np.random.default_rng(len(shape)).integers(low, high, shape).astype(getattr(ml_dtypes, dtype))


def low_bits(wide: np.ndarray, dtype: str) -> np.ndarray:
    return wide & 15 if dtype == "uint4" else ((wide + 8) & 15) - 8


PRODUCTS: list[tuple[Make, tuple[int, ...], tuple[int, ...]]] = [
    (nn.dense, (5, 40), (3, 40)),
    (nn.matmul, (5, 40), (40, 3)),
    (nn.batch_matmul, (2, 5, 40), (2, 3, 40)),
    (nn.conv1d, (2, 4, 9), (6, 4, 3)),
    (nn.conv2d, (2, 4, 9, 9), (6, 4, 3, 3)),
    (nn.conv3d, (1, 4, 5, 5, 5), (6, 4, 3, 3, 3)),
]


@pytest.mark.sweep
@pytest.mark.parametrize(("make", "left", "right"), PRODUCTS)
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_products_of_small_integers(make: Make, left: Any, right: Any, dtype: str) -> None:
    x, w = relay.var("x", shape=left, dtype=dtype), relay.var("w", shape=right, dtype=dtype)
    a, b = numbers(dtype, *left), numbers(dtype, *right)
    p, q = relay.var("p", shape=left, dtype="int32"), relay.var("q", shape=right, dtype="int32")
    wide = np.asarray(compiled([p, q], make(p, q))(a.astype("int32"), b.astype("int32")))
    assert np.abs(wide).max() > 127  # more than the stored type of 8 bits holds
    summed = make(x, w, out_dtype="int32")
    assert relay.transform.InferTypeLocal(summed).dtype == "int32"
    assert np.asarray(compiled([x, w], summed)(a, b)).tolist() == wide.tolist()
    short = make(x, w)
    assert relay.transform.InferTypeLocal(short).dtype == dtype
    cut = np.asarray(compiled([x, w], relay.cast(short, "int32"))(a, b))
    assert cut.tolist() == low_bits(wide, dtype).tolist()


def test_a_small_integer_times_a_wider_one() -> None:
    x, w = relay.var("x", shape=(3, 8), dtype="int8"), array_constant(numbers("int4", 4, 8))
    a = np.random.default_rng(1).integers(-128, 128, (3, 8)).astype("int8")
    got = np.asarray(compiled([x], nn.dense(x, w, out_dtype="int32"))(a))
    assert got.tolist() == (a.astype("int32") @ numbers("int4", 4, 8).astype("int32").T).tolist()


def test_a_constant_of_small_integers_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r'no constants of int4; cast one of 8 bits: relay.cast\(relay.const\(x\), "int4'
    ):
        relay.const(numbers("int4", 4, 8))
    x = relay.var("x", shape=(3, 8), dtype="int4")
    w = relay.cast(relay.const(numbers("int4", 4, 8).astype("int8")), "int4")
    a = numbers("int4", 3, 8)
    got = np.asarray(compiled([x], nn.dense(x, w, out_dtype="int32"))(a))
    assert got.tolist() == (a.astype("int32") @ numbers("int4", 4, 8).astype("int32").T).tolist()
