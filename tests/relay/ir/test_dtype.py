"""A data type that no program has is refused where it is given, whoever gives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.ir.dtype import as_dtype, dtype_name

X = relay.var("x", shape=(2, 3))
UNKNOWN = ["float7", "nope", "", "complex64", "handle", "void", "int128", "int3", "bool8", "custom[x]32", "é", None, 3]


@pytest.mark.parametrize("dtype", UNKNOWN)
def test_a_type_of_it_is_refused(dtype: Any) -> None:
    for make in (relay.scalar_type, lambda d: relay.var("y", shape=(2,), dtype=d), lambda d: relay.TensorType((2,), d)):
        with pytest.raises(TypeCheckError, match=f"^there is no data type '{str(dtype).replace('[x]', '.x.')}'"):
            make(dtype)


def test_close_names_are_suggested() -> None:
    with pytest.raises(TypeCheckError, match="there is no data type 'float31'; did you mean 'float32'"):
        relay.var("y", "float31")


@pytest.mark.parametrize(
    "dtype", ["float7", "complex64", "handle", "float32x4", np.dtype("M8[s]"), np.complex64, object]
)
@pytest.mark.parametrize(
    "build",
    [
        lambda d: relay.cast(X, d),
        lambda d: relay.reinterpret(X, d),
        lambda d: relay.zeros((2,), d),
        lambda d: relay.full(relay.const(1.0), (2,), d),
        lambda d: relay.arange(relay.const(3), dtype=d),
        lambda d: relay.nn.dense(X, X, out_dtype=d),
        lambda d: relay.topk(X, 2, dtype=d),
        lambda d: relay.one_hot(relay.cast(X, "int32"), relay.const(1.0), relay.const(0.0), 3, -1, d),
        lambda d: relay.shape_of(X, d),
        lambda d: relay.cumsum(X, 0, d),
        lambda d: relay.const(1, d),
    ],
)
def test_no_builder_takes_it(build: Callable[[Any], object], dtype: Any) -> None:
    with pytest.raises(TypeCheckError, match=r"must be a data type|there is no data type|there are no constants of"):
        build(dtype)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("float", "float32"),
        ("uint1", "bool"),
        (np.float16, "float16"),
        (np.dtype("int8"), "int8"),
        ("float8_e4m3fn", "float8_e4m3fn"),
        ("int4", "int4"),
        ("string", "string"),
        ("bfloat16", "bfloat16"),
        (bool, "bool"),
        ("float16x4", "float16x4"),
    ],
)
def test_a_type_that_there_is_has_its_usual_name(given: Any, name: str) -> None:
    assert dtype_name(given) == name == as_dtype(name)


@pytest.mark.parametrize("shape", [(1 << 62,), (relay.Any(), 1 << 24, 1 << 24), (0, 1 << 62), (1 << 32, 1 << 31, 0, 3)])
def test_a_tensor_of_more_elements_than_addresses_is_refused(shape: tuple[Any, ...]) -> None:
    with pytest.raises(TypeCheckError, match=r"a tensor of \(.*\) has more elements than there are addresses, 2\^47"):
        relay.TensorType(shape)
    relay.TensorType((1 << 47,), "int8")


@pytest.mark.parametrize("dim", [relay.const(3), relay.var("n", "int64")])
def test_an_expression_of_relay_is_no_dimension(dim: relay.Expr) -> None:
    with pytest.raises(TypeError, match="a dimension must be an int"):
        relay.TensorType((dim,))
    with pytest.raises(TypeCheckError, match="'shape' must be a sequence, each element an integer"):
        relay.op.entry("full").call(relay.const(1.0), shape=[dim])
