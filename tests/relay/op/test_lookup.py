"""Tables of n-grams come as data: what lies outside of them is neither read nor written."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.op import build


def counts(keys: int, children: tuple[int, int], counted: int) -> tvm.IRModule:
    shapes = [((2, 4), "int64"), ((keys,), "int64"), (children, "int32"), ((counted,), "int32")]
    given = [relay.var(f"p{n}", shape=shape, dtype=dtype) for n, (shape, dtype) in enumerate(shapes)]
    rest = {"outputs": 2, "min_length": 1, "max_length": 2, "max_skip": 0}
    return tvm.IRModule({"main": relay.Function(given, build("contrib_ngram_count", *given, **rest))})


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((3, (3, 2), 0), r"counted must be Tensor\[\(3\), int32\] beside keys"),
        ((3, (2, 2), 3), r"children must be Tensor\[\(3, 2\), int32\] beside keys"),
        ((0, (0, 2), 0), "keys must be a vector of a known length that is not 0"),
    ],
)
def test_tables_of_different_lengths_are_refused(sizes: tuple[int, tuple[int, int], int], said: str) -> None:
    with pytest.raises(TypeCheckError, match=said):
        relay.transform.InferType()(counts(*sizes))


def test_places_outside_of_the_tables_are_passed_over() -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(counts(3, (3, 2), 3), "llvm"))
    data, keys = np.array([[0, 1, 0, 1], [1, 1, 1, 1]]), np.array([0, 0, 1])
    right = machine.run(data, keys, np.array([[1, 3], [0, 0], [0, 0]], "int32"), np.array([-1, 0, 1], "int32"))
    np.testing.assert_array_equal(right.numpy(), [[2, 2], [0, 4]])
    far = np.full((3, 2), [-(2**31), 2**31 - 1], "int32")
    for outputs in ([9, 2**31 - 1, 7], [-5, -(2**31), -1]):
        found = machine.run(data, keys, far, np.array(outputs, "int32")).numpy()
        np.testing.assert_array_equal(found, np.zeros((2, 2)))
