"""Tensors put together, taken apart and repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.feeds import FEEDS, X, vector
from tests.frontend.onnx.programs import (
    Compiled,
    array,
    assert_agrees,
    check,
    model,
    node,
    outputs_of,
)
from vmkit.errors import VMError

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "concat": ([node("Concat", "x x", "a", axis=1), node("Concat", "x x", "b", axis=-3)], {}),
    "split": (
        [node("Split", "x parts", "a b", axis=1), node("Split", "x", "c d", axis=2)],
        {"parts": np.array([1, 2])},
    ),
    "tile": ([node("Tile", "x counts", "a")], {"counts": np.array([2, 1, 3])}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_tensors_are_joined_taken_apart_and_repeated(name: str) -> None:
    nodes, constants = CASES[name]
    check(model(nodes, X, outputs_of(nodes), constants), *FEEDS)


def test_equal_parts_of_an_unknown_size_of_which_the_last_ones_are_smaller_or_empty() -> None:
    nodes = [node("Split", "x", " ".join(f"part{k}" for k in range(12)), axis=1, num_outputs=12)]
    proto = model(nodes, {"x": (["a", "b"], "float32")}, outputs_of(nodes), opset=18)
    compiled = Compiled(proto)
    for columns in (24, 25, 13, 12, 5):
        x, size = array(2, columns), -(-columns // 12)
        ends = np.minimum(np.arange(1, 12) * size, columns)
        assert_agrees(compiled(x=x), np.split(x, ends, axis=1), outputs_of(nodes).split())


def test_parts_of_sizes_that_are_read() -> None:
    nodes = [node("Split", "x parts", "a b c", axis=-1), node("Split", "x sizes", "d e")]
    proto = model(nodes, X | {"parts": ([3], "int64"), "sizes": ([2], "int64")}, outputs_of(nodes), opset=13)
    compiled = check(
        proto,
        {"x": array(5, 3, 4), "parts": vector(1, 2, 1), "sizes": vector(2, 3)},
        {"x": array(1, 3, 4), "parts": vector(0, 4, 0), "sizes": vector(0, 1)},
    )
    with pytest.raises(
        VMError, match="Split: the sizes of the parts are negative, or their sum is not the size of axis 2"
    ):
        compiled(x=array(5, 3, 4), parts=vector(1, 2, 2), sizes=vector(2, 3))


def test_copies_made_as_often_as_is_read() -> None:
    proto = model([node("Tile", "x counts", "a")], X | {"counts": ([3], "int64")}, "a")
    check(proto, {"x": array(2, 3, 4), "counts": vector(1, 2, 3)}, {"x": array(2, 3, 4), "counts": vector(2, 0, 1)})
    first = Compiled(model([node("Tile", "x c a", "y")], X | {n: ([], "int64") for n in "ca"}, "y", opset=1))
    x = array(2, 3, 4)
    for count, axis in ((2, 0), (3, 2)):
        reps = [count if k == axis else 1 for k in range(3)]
        assert_agrees(first(x=x, c=np.int64(count), a=np.int64(axis)), [np.tile(x, reps)], ["y"])
