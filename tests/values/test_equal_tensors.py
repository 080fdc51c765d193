"""Tensors are one where all their elements are the same to the bit, and only there."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tvm

from vmkit.values import equal_tensors
from vmkit.values.equal_tensors import EqualTensors
from vmkit.values.tensors import as_tensor

VALUES = np.random.default_rng(0).standard_normal((50, 60)).astype("float32")


def changed(place: int) -> np.ndarray:
    other = VALUES.copy()
    other.reshape(-1)[place] += 1
    return other


def test_the_first_of_equal_tensors_stands_for_all_of_them() -> None:
    tensors = EqualTensors()
    first, *others = (as_tensor(VALUES.copy()) for _ in range(4))
    assert all(tensors.first_of(each) is first for each in (first, *others))


@pytest.mark.parametrize("place", [0, 1, 1500, VALUES.size - 1])
def test_one_other_element_makes_another_tensor(place: int) -> None:
    tensors = EqualTensors()
    same, other, again = as_tensor(VALUES), as_tensor(changed(place)), as_tensor(changed(place))
    assert tensors.first_of(same) is same
    assert tensors.first_of(other) is other
    assert tensors.first_of(again) is other
    assert tensors.first_of(as_tensor(VALUES)) is same


@pytest.mark.parametrize(
    "other", [VALUES.T.reshape(60, 50), VALUES.reshape(-1), VALUES.view("int32"), np.empty((0, 3), "float32")]
)
def test_tensors_of_other_shapes_and_types_are_others(other: np.ndarray) -> None:
    tensors = EqualTensors()
    tensors.first_of(as_tensor(VALUES))
    tensor = as_tensor(np.ascontiguousarray(other))
    assert tensors.first_of(tensor) is tensor


def test_zeros_of_both_signs_differ_and_numbers_that_are_none_do_not() -> None:
    tensors = EqualTensors()
    zeros = [as_tensor(np.array([value], "float32")) for value in (0.0, -0.0)]
    assert [tensors.first_of(each) for each in zeros] == zeros
    nan = as_tensor(np.full(3, np.nan, "float32"))
    assert tensors.first_of(nan) is tensors.first_of(as_tensor(np.full(3, np.nan, "float32")))


def test_empty_tensors_and_bfloat16_are_compared_too() -> None:
    tensors = EqualTensors()
    assert tensors.first_of(as_tensor(np.empty(0, "int8"))) is tensors.first_of(as_tensor(np.empty(0, "int8")))
    one, two = (tvm.runtime.empty((4,), "bfloat16") for _ in range(2))
    for each in (one, two):
        each.copyfrom(np.ones(4, one.numpy().dtype))
    assert tensors.first_of(one) is tensors.first_of(two)


def test_weights_that_were_of_float16_are_told_apart_by_a_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_whole(_: np.ndarray) -> bytes:
        raise AssertionError("all bytes of a tensor were read")

    monkeypatch.setattr(equal_tensors, "_digest", read_whole)
    tensors = EqualTensors()
    for sign in (1, -1):  # 8192 float32, whose two low bytes are nearly always 0
        wide = as_tensor((sign * np.resize(VALUES, 8192)).astype("float16").astype("float32"))
        assert tensors.first_of(wide) is wide


def test_many_tensors_that_hardly_differ_are_told_apart_in_linear_time() -> None:
    def seconds(count: int) -> float:
        given = []
        for k in range(count):
            array = np.zeros(16_384, "float32")
            array[16_001] = k  # no byte that tensors are told apart by at first
            given.append(as_tensor(array))
        begin = time.process_time()
        tensors = EqualTensors()
        assert len({tensors.first_of(each) for each in given}) == count
        return time.process_time() - begin

    seconds(10)
    assert seconds(800) < 8 * seconds(200)
