"""Texts stand in the places of constants, say what belongs there, and give the same bytes back."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from vmkit.bytecode import Program, TensorConstant, decode, encode
from vmkit.bytecode.placeholders import Placeholder, constant_of, large_constants, with_constants

MARK = Placeholder("vmkit.test:")


def program(*sizes: int) -> Program:
    tensors = (TensorConstant((2, 32, 1), (1, 0), (size,), bytes(4 * size)) for size in sizes)
    return Program("1", (), (), ("plain", *tensors, 7), ())


def test_large_constants_are_found_by_their_bytes() -> None:
    assert list(large_constants(program(3, 4, 5), 16)) == [2, 3]


@pytest.mark.parametrize("said", [0, {"name": "const_1", "shape": [2]}])
def test_what_texts_say_is_found_again(said: object) -> None:
    whole = program(4, 5)
    without = with_constants(whole, {1: MARK.text(said)})
    assert without.constants[0::2] == ("plain", whole.constants[2])
    assert MARK.found(without) == {1: said}
    assert MARK.found(decode(encode(without))) == {1: said}
    assert Placeholder("vmkit.other:").found(without) == {}
    assert encode(with_constants(without, {1: whole.constants[1]})) == encode(whole)


def test_a_tensor_is_a_constant_of_its_type() -> None:
    value = np.arange(6, dtype="int16").reshape(2, 3)
    constant = constant_of(tvm.runtime.tensor(value), value.tobytes())
    assert (constant.dtype_name, constant.shape, constant.device) == ("int16", (2, 3), (1, 0))
    np.testing.assert_array_equal(constant.numpy(), value)
