"""What stands for a weight that is transformed later: it is known again, and nothing else is taken for it."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import tvm

from vmkit.errors import CompileError
from vmkit.kernels.later_weight import later_constant, later_weight
from vmkit.kernels.winograd_weight import WinogradWeight
from vmkit.values.equal_tensors import bytes_of

WEIGHT = tvm.runtime.tensor(np.ones((3, 3, 16, 32), "float32"))
PLAN = WinogradWeight((3, 3, 16, 32), (4, 4), 16)


def test_a_stand_in_is_known_again() -> None:
    first, second = (later_constant(WEIGHT, PLAN).value for _ in range(2))
    assert tuple(first.shape) == PLAN.made == (2, 36, 16, 16) and str(first.dtype) == "float32"
    for tensor in (first, second):
        found = later_weight(tensor)
        assert found is not None and found[0].same_as(WEIGHT) and found[1] == PLAN
    # Nobody takes one for the other by what they hold.
    assert bytes_of(first).tobytes() != bytes_of(second).tobytes()


def test_other_tensors_are_none() -> None:
    assert later_weight(WEIGHT) is None
    assert later_weight(tvm.runtime.tensor(np.zeros(PLAN.made, "float32"))) is None


def test_a_copy_is_refused() -> None:
    constant = later_constant(WEIGHT, PLAN)
    copy = tvm.runtime.tensor(bytes_of(constant.value).view("float32").reshape(PLAN.made).copy())
    del constant
    gc.collect()
    with pytest.raises(CompileError, match="a pass has copied a weight that is transformed when the program starts"):
        later_weight(copy)
