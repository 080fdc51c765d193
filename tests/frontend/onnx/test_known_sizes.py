"""Arithmetic on shapes is done at import: nothing of it is left in the module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_programs import Compiled, array, check, graph, model, node, operators, tensor

SHAPE_WORK = {"shape_of", "size_tensor", "dyn.reshape", "dyn.broadcast_to", "dyn.strided_slice", "dyn.tile", "dyn.full"}
X = {"x": (["n", "t", 4], "float32")}
SIZES = ((1, 1), (2, 3), (3, 5))


def check_folded(nodes: list, constants: dict[str, Any], outputs: str = "y", opset: int = 17) -> Compiled:
    proto = model(nodes, X, outputs, constants, opset)
    compiled = check(proto, *[{"x": array(n, t, 4)} for n, t in SIZES])
    assert not operators(compiled.module) & SHAPE_WORK
    return compiled


def test_reshape_to_sizes_of_the_input() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n"),
        node("Gather", "shape one", "t"),
        node("Mul", "n t", "rows"),
        node("Unsqueeze", "rows axis", "rows_1"),
        node("Concat", "rows_1 four", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    constants = {"zero": np.int64(0), "one": np.int64(1), "axis": np.array([0]), "four": np.array([4])}
    compiled = check_folded(nodes, constants)
    assert str(compiled.module["main"].checked_type.ret_type) == "Tensor[(n * t, 4), float32]"


def test_split_heads_and_join_them_again() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape begin two", "leading"),
        node("Concat", "leading heads", "split", axis=0),
        node("Reshape", "x split", "a"),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3]),
        node("Transpose", "b", "c", perm=[0, 2, 1, 3]),
        node("Concat", "leading rest", "joined", axis=0),
        node("Reshape", "c joined", "y"),
    ]
    constants = {"begin": np.array([0]), "two": np.array([2]), "heads": np.array([2, 2]), "rest": np.array([-1])}
    compiled = check_folded(nodes, constants)
    assert str(compiled.module["main"].checked_type.ret_type) == "Tensor[(n, t, 4), float32]"


def test_expand_to_the_shape_of_another_tensor() -> None:
    nodes = [node("Shape", "x", "shape"), node("Expand", "bias shape", "y")]
    check_folded(nodes, {"bias": array(4)})


def test_constant_of_shape_and_range_over_sizes() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("ConstantOfShape", "shape", "ones", value=tensor(np.array([1], "float32"))),
        node("Add", "x ones", "y"),
    ]
    check_folded(nodes, {})


def test_slice_by_a_size() -> None:
    """As a transformer takes the positions of its sequence from a table."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape one two", "t"),
        node("Slice", "table zero t one", "rows"),
        node("Add", "x rows", "y"),
    ]
    constants = {"one": np.array([1]), "two": np.array([2]), "zero": np.array([0]), "table": array(1, 16, 4)}
    check_folded(nodes, constants)


def test_slice_to_half_of_a_size_and_from_there() -> None:
    nodes = [
        node("Shape", "x", "shape", start=1, end=2),
        node("Div", "shape two", "half"),
        node("Slice", "x zero half one", "front"),
        node("Slice", "x half far one", "back"),
    ]
    constants = {"two": np.array([2]), "zero": np.array([0]), "one": np.array([1]), "far": np.array([2**63 - 1])}
    check_folded(nodes, constants, "front back")


def test_pad_to_the_double_size() -> None:
    nodes = [
        node("Shape", "x", "shape", start=1, end=2),
        node("Concat", "zero zero zero zero shape zero", "pads", axis=0),
        node("Pad", "x pads", "y"),
    ]
    check_folded(nodes, {"zero": np.array([0])})


def test_tile_by_a_count_of_the_model() -> None:
    check_folded([node("Tile", "x counts", "y")], {"counts": np.array([1, 2, 3])})


def test_resize_to_twice_the_size_of_the_input() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Mul", "shape factor", "sizes"),
        node(
            "Resize",
            "x _ _ sizes",
            "y",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
    ]
    proto = model(nodes, {"x": (["n", 2, "h", "w"], "float32")}, "y", {"factor": np.array([1, 1, 2, 2])})
    check(proto, *[{"x": array(n, 2, h, w)} for n, h, w in ((1, 3, 4), (2, 5, 2), (3, 1, 1))])


def test_size_arithmetic_in_floats_stays_exact() -> None:
    """floor(cast(n) * 2.0), as exporters compute sizes of upsampled images."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Cast", "shape", "floats", to=1),
        node("Mul", "floats scale", "scaled"),
        node("Floor", "scaled", "floor"),
        node("Cast", "floor", "sizes", to=7),
        node("Expand", "zero sizes", "y"),
    ]
    check_folded(nodes, {"scale": np.array([1, 2, 1], "float32"), "zero": np.zeros(1, "float32")})


def test_a_condition_that_sizes_decide_leaves_no_branch() -> None:
    """A size is never negative, so the branch is known at import."""
    then_branch = graph([node("Relu", "x", "a")], {}, "a")
    else_branch = graph([node("Neg", "x", "b")], {}, "b")
    nodes = [
        node("Shape", "x", "shape", start=0, end=1),
        node("GreaterOrEqual", "shape zero", "holds"),
        node("If", "holds", "y", then_branch=then_branch, else_branch=else_branch),
    ]
    compiled = check_folded(nodes, {"zero": np.array([0])})
    assert operators(compiled.module) == {"nn.relu"}


def test_one_hot_of_sizes_as_a_mask() -> None:
    """Positions below the sequence length, by Range and Less over the size."""
    nodes = [
        node("Shape", "x", "shape", start=1, end=2),
        node("Squeeze", "shape axis", "t"),
        node("Range", "zero t one", "positions"),
        node("Cast", "positions", "mask", to=1),
        node("Unsqueeze", "mask two", "column"),
        node("Mul", "x column", "y"),
    ]
    constants = {"axis": np.array([0]), "zero": np.int64(0), "one": np.int64(1), "two": np.array([1])}
    proto = model(nodes, X, "y", constants)
    check(proto, *[{"x": array(n, t, 4)} for n, t in SIZES])


def test_constants_are_folded_by_the_size_they_take() -> None:
    nodes = [node("Transpose", "w", "wt", perm=[1, 0]), node("MatMul", "x wt", "y")]
    compiled = check_folded(nodes, {"w": array(5, 4)})
    assert "transpose" not in operators(compiled.module)


def test_a_shape_is_an_output_when_the_model_asks_for_it() -> None:
    nodes = [node("Shape", "x", "y"), node("Size", "x", "z")]
    check(model(nodes, X, "y z"), *[{"x": array(n, t, 4)} for n, t in SIZES])


def test_reshape_to_a_target_computed_from_data() -> None:
    inputs = {"x": (["n", 4], "float32"), "target": ([2], "int64")}
    proto = model([node("Reshape", "x target", "y")], inputs, "y")
    feeds = [{"x": array(n, 4), "target": np.array(t)} for n, t in ((2, [4, 2]), (3, [-1, 6]), (1, [0, -1]))]
    assert operators(check(proto, *feeds).module) == {"dyn.reshape"}


@pytest.mark.parametrize("op_type", ["Slice", "Expand", "Tile"])
def test_targets_computed_from_data(op_type: str) -> None:
    inputs = {"x": (["n", 1], "float32"), "a": ([2], "int64"), "b": ([2], "int64")}
    names = {"Slice": "x a b", "Expand": "x b", "Tile": "x b"}[op_type]
    used = {k: v for k, v in inputs.items() if k in names.split()}
    proto = model([node(op_type, names, "y")], used, "y")
    whole = {"x": array(3, 1), "a": np.array([1, 0]), "b": np.array([3, 2])}
    check(proto, {k: v for k, v in whole.items() if k in used})
