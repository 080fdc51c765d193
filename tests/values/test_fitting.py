"""Arguments of another data type or rank are what is declared, where no value is lost by that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from vmkit.errors import InputError
from vmkit.values.kinds import OptionalSpec, SequenceSpec, Spec
from vmkit.values.signature import Signature, TensorSpec, TupleSpec


def fitted(value: Any, *specs: Spec) -> Any:
    return Signature("main", specs).fit([value])[0]


@pytest.mark.parametrize(
    ("value", "dtype", "shape", "expected"),
    [
        (np.array([1, 0], "int32"), "bool", (2,), np.array([True, False])),
        (np.array([3], "int64"), "int32", (), np.array(3, "int32")),
        (np.array([0.1, -2.5]), "float32", ("n",), np.array([0.1, -2.5], "float32")),
        (np.array([2.0, 3.0], "float32"), "int8", (2,), np.array([2, 3], "int8")),
        (np.array(7.0, "float32"), "float32", (1, "?"), np.array([[7]], "float32")),
        (np.float64(1.5), "float16", (), np.array(1.5, "float16")),
        (np.array(np.nan), "float32", (), np.array(np.nan, "float32")),
        (np.array([True]), "uint8", (), np.array(1, "uint8")),
    ],
)
def test_arrays_that_lose_nothing(value: Any, dtype: str, shape: Any, expected: np.ndarray) -> None:
    given = [value, tvm.runtime.tensor(np.asarray(value))]
    for each in given:
        made = fitted(each, TensorSpec("x", dtype, shape))
        assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.array([2]), "bool"),
        (np.array([0.5, 1.0]), "int32"),
        (np.array([300]), "uint8"),
        (np.array([-1]), "uint32"),
        (np.array([1e300]), "float32"),
        (np.array([1 << 40]), "int32"),
        (np.array([(1 << 24) + 1]), "float32"),
        (np.array([1j]), "float32"),
    ],
)
def test_a_loss_is_an_error_that_names_the_parameter(value: np.ndarray, dtype: str) -> None:
    with pytest.raises(InputError) as caught:
        fitted(value, TensorSpec("weight", dtype, ("?",)))
    assert "1 input cannot be converted without a loss for main(weight:" in str(caught.value)
    assert f"weight: dtype {value.dtype}, and not all of its values are {dtype}" in str(caught.value)


def test_what_matches_is_not_copied() -> None:
    array, tensor = np.ones((2, 3), "float32"), tvm.runtime.tensor(np.ones((2, 3), "float32"))
    for value in (array, tensor):
        assert fitted(value, TensorSpec("x", "float32", (2, "n"))) is value


@pytest.mark.parametrize("value", [np.ones(2, "float32"), np.ones((1, 1), "float32"), [[1.0, 2.0], [3.0]]])
def test_a_rank_that_is_not_of_one_element_is_left_to_the_check(value: Any) -> None:
    assert fitted(value, TensorSpec("x", "float32", (2, 1, 1))) is value


def test_numbers_and_lists_get_a_rank_and_their_data_type_where_they_are_staged() -> None:
    assert fitted([[5]], TensorSpec("x", "int32", ())) == 5
    assert fitted(5, TensorSpec("x", "int32", (1, 1))) == [[5]]
    assert fitted([1, 2], TensorSpec("x", "int32", (2,))) == [1, 2]


def test_the_parts_of_a_value_are_fitted_and_named() -> None:
    scalar = TensorSpec("", "float32", ())
    both = TupleSpec("state", (scalar, TensorSpec("", "bool", (1,))))
    first, second = fitted((np.array([2.0]), np.array([1])), both)
    assert (first.dtype, first.shape, second.dtype) == (np.float32, (), np.bool_)
    with pytest.raises(InputError, match=r"state\[1\]: dtype int64, and not all of its values are bool"):
        fitted((0.0, np.array([3])), both)
    assert [each.dtype for each in fitted([np.array(1.0)] * 2, SequenceSpec("xs", scalar))] == [np.float32] * 2
    assert fitted(None, OptionalSpec("x", scalar)) is None
    assert fitted(np.array(1.0), OptionalSpec("x", scalar)).dtype == np.float32


@pytest.mark.parametrize("dtype", ["string", "int4", "float8_e4m3fn", "bfloat16"])
def test_stored_types_are_left_alone(dtype: str) -> None:
    value = np.array([1], "uint16")
    assert fitted(value, TensorSpec("x", dtype, (1,))) is value
