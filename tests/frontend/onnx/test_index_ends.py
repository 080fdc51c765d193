"""Indices that operators find on an axis are used there without a look; on other axes they are looked at."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.programs import Compiled, Shape, array, check, model, node, operators
from vmkit.errors import VMError

X = {"x": (["n", "t"], "float32")}
LOOK = "dyn.require"


def found(nodes: list[onnx.NodeProto], outputs: str) -> onnx.ModelProto:
    constants = {"k": np.array([2]), "zero": np.array([0])}
    return model(nodes, {**X, "y": (["t", 3], "float32"), "z": (["u", 3], "float32")}, outputs, constants, opset=13)


def feed(n: int, t: int, u: int) -> dict[str, np.ndarray]:
    return {"x": array(n, t), "y": array(t, 3), "z": array(u, 3)}


def test_indices_of_what_is_largest() -> None:
    nodes = [
        node("TopK", "x k", "values places", axis=1),
        node("Gather", "y places", "a"),
        node("GatherElements", "x places", "b", axis=1),
        node("Cast", "places", "narrow", to=onnx.TensorProto.INT32),
        node("Slice", "narrow zero k", "part"),
        node("Gather", "y part", "c"),
        node("ArgMax", "x", "most", axis=1, keepdims=0),
        node("ArgMin", "x", "least", axis=-1, keepdims=1),
        node("Gather", "y most", "d"),
        node("Gather", "y least", "e"),
    ]
    compiled = check(found(nodes, "a b c d e"), feed(2, 5, 5), feed(3, 2, 5))
    assert LOOK not in operators(compiled.module)
    # None of which is larger than the others.
    y = array(3, 3)
    results = compiled(x=np.full((2, 3), np.nan, "float32"), y=y, z=y)
    np.testing.assert_array_equal(results[3], np.stack([y[0]] * 2))


@pytest.mark.parametrize("axis", [0, 1])
def test_indices_of_another_axis_are_looked_at(axis: int) -> None:
    nodes = [node("ArgMax", "x", "most", axis=axis, keepdims=0), node("Gather", "z most", "a")]
    compiled = check(found(nodes, "a"), feed(2, 5, 5))
    assert LOOK in operators(compiled.module)
    rising = {**feed(4, 4, 3), "x": np.arange(16, dtype="float32").reshape(4, 4)}
    with pytest.raises(VMError, match="Gather: an index lies outside of axis 0"):
        compiled(**rising)


@pytest.mark.parametrize("column", [1, 2])
def test_boxes_that_are_left(column: int) -> None:
    nodes = [
        node("NonMaxSuppression", "boxes scores most overlap", "left"),
        node("Slice", "left first last one", "column"),
        node("Squeeze", "column one", "places"),
        node("Squeeze", "boxes nothing", "flat"),
        node("Gather", "flat places", "kept"),
    ]
    constants = {
        "most": np.array([4]), "overlap": np.array([0.5], "float32"), "one": np.array([1]), "nothing": np.array([0]),
        "first": np.array([column]), "last": np.array([column + 1]),
    }  # fmt: skip
    inputs: dict[str, tuple[Shape, str]] = {"boxes": ([1, "n", 4], "float32"), "scores": ([1, 2, "m"], "float32")}
    corners = np.abs(array(1, 6, 4))
    corners[..., 2:] += corners[..., :2]
    program = model(nodes, inputs, "kept", constants, opset=13)
    compiled = check(program, *[{"boxes": corners[:, :n], "scores": array(1, 2, n)} for n in (6, 2)])
    assert (LOOK in operators(compiled.module)) == (column == 1)


def test_an_index_that_was_computed_with_is_looked_at() -> None:
    nodes = [
        node("ArgMax", "x", "most", axis=1, keepdims=0),
        node("Add", "most zero", "same"),
        node("Gather", "y same", "a"),
    ]
    compiled = Compiled(found(nodes, "a"))
    assert LOOK in operators(compiled.module)
