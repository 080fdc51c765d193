"""Of a shape with an unknown dimension the others stay known, and so does what is computed with them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.programs import Compiled, array, check, graph, model, node, operators
from vmkit.relay.frontend import from_onnx

# As many rows as elements that are not zero: no name is known for their number.
ROWS = [
    node("NonZero", "m", "found"),
    node("Transpose", "found", "rows", perm=[1, 0]),
    node("Gather", "table rows", "x"),
]
INPUTS = {"m": ([4, 5], "float32")}
TABLE = {"table": array(5, 3)}
FEED = {"m": array(4, 5, dtype="int64").clip(0, 1).astype("float32")}


def result_type(nodes: list, constants: dict, **feed: np.ndarray) -> str:
    proto = model([*ROWS, *nodes], INPUTS, "y", TABLE | constants)
    return str(check(proto, feed or FEED).module["main"].checked_type.ret_type)


def test_a_known_dimension_beside_an_unknown_one_decides_a_branch() -> None:
    ways = {
        "then_branch": graph([node("ReduceSum", "x axis", "a", keepdims=0)], {}, "a"),
        "else_branch": graph([node("Identity", "x", "a")], {}, "a"),
    }
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "size"),
        node("Equal", "size two", "is_two"),
        node("If", "is_two", "y", **ways),
    ]
    constants = {"one": np.array(1), "two": np.array(2), "axis": np.array([1])}
    assert result_type(nodes, constants) == "Tensor[(?, 3), float32]"


def test_a_reshape_by_sizes_of_which_one_is_unknown() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape begin one end", "first"),
        node("Mul", "first one", "same"),
        node("Concat", "same six", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    constants = {"begin": np.array([0]), "one": np.array([1]), "end": np.array([0]), "six": np.array([3, 2, 1])}
    assert result_type(nodes, constants) == "Tensor[(?, 3, 2, 1), float32]"


def test_a_number_that_may_be_negative_is_only_moved() -> None:
    """What is read from an input is no size: that it is not negative must not be taken for granted."""
    nodes = [
        node("Concat", "a three", "both", axis=0),
        node("Gather", "both zero", "first"),
        node("Less", "first zero", "is_negative"),
        node("Gather", "both one", "second"),
        node("Less", "second zero", "never"),
    ]
    constants = {"three": np.array([3]), "zero": np.array(0), "one": np.array(1)}
    proto = model(nodes, {"a": ([1], "int64")}, "is_negative never", constants)
    compiled = check(proto, {"a": np.array([-2])}, {"a": np.array([2])})
    assert "less" in operators(compiled.module)


@pytest.mark.parametrize("target", [[1, 3], [2, 1, 3]])
def test_an_expansion_to_sizes_of_which_one_is_unknown(target: list[int]) -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape begin one end", "first"),
        node("Concat", "lead first", "sizes", axis=0),
        node("Expand", "column sizes", "y"),
    ]
    constants = {
        "begin": np.array([0]), "one": np.array([1]), "end": np.array([0]), "lead": np.array(target),
        "column": array(3, 1),
    }  # fmt: skip
    expected = ", ".join(map(str, target))
    assert result_type(nodes, constants) == f"Tensor[({expected}, ?), float32]"


def test_what_is_known_of_a_filled_tensor() -> None:
    nodes = [node("Shape", "x", "shape"), node("ConstantOfShape", "shape", "zeros"), node("Add", "zeros x", "y")]
    assert result_type(nodes, {}) == "Tensor[(?, 2, 3), float32]"


def test_the_unknown_dimension_itself() -> None:
    """An element that is not known is computed when the model runs."""
    nodes = [node("Shape", "x", "shape"), node("Gather", "shape zero", "y")]
    proto = model([*ROWS, *nodes], INPUTS, "y", TABLE | {"zero": np.array(0)})
    module, _ = from_onnx(proto)
    assert "shape_of" in operators(module)
    assert int(Compiled(proto)(**FEED)[0]) == np.count_nonzero(FEED["m"])
