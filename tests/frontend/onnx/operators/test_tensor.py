"""Operators that move, pick and write elements, at several sizes from one compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.programs import Compiled, array, check, model, node

X = {"x": (["n", 3, 4], "float32")}
FEEDS = [{"x": array(n, 3, 4)} for n in (1, 2, 5)]

MOVES: dict[str, tuple[list, dict[str, Any]]] = {
    "flatten": ([node("Flatten", "x", "a"), node("Flatten", "x", "b", axis=2), node("Flatten", "x", "c", axis=0)], {}),
    "transpose": ([node("Transpose", "x", "a"), node("Transpose", "x", "b", perm=[0, 2, 1])], {}),
    "squeeze": (
        [node("Unsqueeze", "x axes", "a"), node("Squeeze", "a axes", "b")],
        {"axes": np.array([0, -1])},
    ),
    "reshape": (
        [node("Reshape", "x by_copy", "a"), node("Reshape", "x by_rest", "b")],
        {"by_copy": np.array([0, 12]), "by_rest": np.array([-1, 6])},
    ),
    "concat": ([node("Concat", "x x c", "a", axis=1), node("Concat", "x x", "b", axis=-3)], {}),
    "split": (
        [node("Split", "x parts", "a b", axis=1), node("Split", "x", "c d", axis=2)],
        {"parts": np.array([1, 2])},
    ),
    "slice": (
        [
            node("Slice", "x one far axis", "a"),
            node("Slice", "x last none axis back", "b"),
            node("Slice", "x minus far axis", "c"),
            node("Slice", "x one far first", "d"),
        ],
        {
            "one": np.array([1]), "far": np.array([2**63 - 1]), "axis": np.array([2]), "last": np.array([-1]),
            "none": np.array([-(2**63) + 1]), "back": np.array([-2]), "minus": np.array([-3]), "first": np.array([0]),
        },
    ),
    "gather": (
        [node("Gather", "x i", "a", axis=1), node("Gather", "x negative", "b", axis=-1), node("Gather", "x i", "c")],
        {"i": np.array([[0, 0]]), "negative": np.array([-1, 0, -4])},
    ),
    "tile": ([node("Tile", "x counts", "a")], {"counts": np.array([2, 1, 3])}),
    "trilu": ([node("Trilu", "x", "a"), node("Trilu", "x k", "b", upper=0)], {"k": np.array(1)}),
    "cumulative sum": (
        [
            node("CumSum", "x axis", "a"), node("CumSum", "x axis", "b", reverse=1),
            node("CumSum", "x axis", "c", exclusive=1),
        ],
        {"axis": np.array(1)},
    ),
    "eye": ([node("Flatten", "x", "m"), node("EyeLike", "m", "a", k=1, dtype=7)], {}),
    "where the elements are not zero": ([node("Relu", "x", "r"), node("NonZero", "r", "a")], {}),
    "top k": ([node("TopK", "x k", "a b", axis=1), node("TopK", "x k", "c d", largest=0)], {"k": np.array([2])}),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    nodes, constants = MOVES[name]
    if name == "concat":
        constants = {"c": array(1, 2, 4)}
        nodes = [node("Concat", "x x", "a", axis=1), node("Concat", "x x", "b", axis=-3)]
    outputs = " ".join(o for n in nodes for o in n.output if o not in ("m", "r"))
    check(model(nodes, X, outputs, constants), *FEEDS)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pad(mode: str) -> None:
    nodes = [node("Pad", "x pads", "a", mode=mode), node("Pad", "x chosen _ axes", "b", mode=mode)]
    constants = {"pads": np.array([0, 1, 2, 0, 2, 1]), "chosen": np.array([1, 1]), "axes": np.array([-1])}
    check(model(nodes, X, "a b", constants, opset=18), *FEEDS)


def test_pad_by_a_value_and_by_less_than_nothing() -> None:
    constants = {"pads": np.array([0, -1, 2, 0, 0, -1]), "value": np.array(7, "float32")}
    check(model([node("Pad", "x pads value", "y")], X, "y", constants), *FEEDS)


def test_pad_around_by_wrapping() -> None:
    check(
        model([node("Pad", "x pads", "y", mode="wrap")], X, "y", {"pads": np.array([0, 2, 1, 0, 1, 3])}, opset=19),
        *FEEDS,
    )


def test_pad_before_opset_11() -> None:
    check(model([node("Pad", "x", "y", pads=[0, 1, 0, 0, 0, 2], value=1.5)], X, "y", opset=9), *FEEDS)


def test_slice_before_opset_10() -> None:
    check(model([node("Slice", "x", "y", axes=[1, 2], starts=[1, -2], ends=[9, 4])], X, "y", opset=9), *FEEDS)


def test_indices_computed_at_run_time_may_count_from_the_end() -> None:
    nodes = [node("Gather", "x i", "a"), node("Gather", "x i", "b", axis=1)]
    inputs = {"x": (["n", 3], "float32"), "i": (["k"], "int64")}
    check(
        model(nodes, inputs, "a b"),
        {"x": array(4, 3), "i": np.array([-1, 0, 2])},
        {"x": array(3, 3), "i": np.array([-3])},
    )


def test_gather_and_scatter_of_elements() -> None:
    nodes = [node("GatherElements", "x i", "a", axis=1), node("ScatterElements", "x i u", "b", axis=1)]
    inputs = {"x": (["n", 3], "float32"), "i": (["n", 2], "int64"), "u": (["n", 2], "float32")}
    indices = np.array([[0, -1], [2, 1]])
    check(model(nodes, inputs, "a b"), {"x": array(2, 3), "i": indices, "u": array(2, 2, seed=1)})


def test_gather_and_scatter_by_index_tuples() -> None:
    nodes = [node("GatherND", "x i", "a"), node("ScatterND", "x i u", "b"), node("GatherND", "x j", "c", batch_dims=1)]
    inputs = {
        "x": (["n", 3, 2], "float32"),
        "i": (["k", 2], "int64"),
        "u": (["k", 2], "float32"),
        "j": (["n", 1], "int64"),
    }
    feed = {
        "x": array(4, 3, 2),
        "i": np.array([[0, 1], [-1, 2], [3, 0]]),
        "u": array(3, 2, seed=1),
        "j": np.array([[0], [2], [-1], [1]]),
    }
    check(model(nodes, inputs, "a b c"), feed)


def test_one_hot() -> None:
    proto = model(
        [node("OneHot", "i depth values", "a"), node("OneHot", "i depth values", "b", axis=0)],
        {"i": (["n", 2], "int64")}, "a b", {"depth": np.array([4]), "values": np.array([0.5, 2], "float32")},
    )  # fmt: skip
    check(proto, {"i": np.array([[0, 3], [-1, 9]])}, {"i": np.array([[1, 1]])})


def test_one_hot_of_a_depth_read_at_run_time() -> None:
    inputs = {"i": (["n"], "int64"), "depth": ([], "int64")}
    proto = model([node("OneHot", "i depth values", "y")], inputs, "y", {"values": np.array([0, 1], "float32")})
    check(proto, *[{"i": np.array([0, 1, 2]), "depth": np.array(d)} for d in (3, 5)])


def test_compress() -> None:
    nodes = [node("Compress", "x c", "a", axis=0), node("Compress", "x c", "b")]
    inputs = {"x": (["n", 2], "float32"), "c": (["n"], "bool")}
    check(model(nodes, inputs, "a b"), *[{"x": array(n, 2), "c": np.arange(n) % 2 == 0} for n in (2, 3, 5)])


def test_reverse_sequence() -> None:
    proto = model(
        [node("ReverseSequence", "x lengths", "y")], {"x": (["t", "n", 2], "float32"), "lengths": (["n"], "int64")}, "y"
    )
    check(proto, {"x": array(4, 3, 2), "lengths": np.array([4, 1, 3])})


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode: str) -> None:
    nodes = [node("DepthToSpace", "x", "a", blocksize=2, mode=mode), node("SpaceToDepth", "a", "b", blocksize=2)]
    proto = model(nodes, {"x": (["n", 8, "h", 3], "float32")}, "a b")
    check(proto, {"x": array(1, 8, 2, 3)}, {"x": array(2, 8, 5, 3)})


REDUCTIONS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


@pytest.mark.parametrize("opset", [13, 18])
def test_reductions(opset: int) -> None:
    nodes, constants = [], {"axes": np.array([1])}
    for kind in REDUCTIONS:
        if opset == 18 or kind == "Sum":
            nodes.append(node(f"Reduce{kind}", "x axes", kind, keepdims=0))
        else:
            nodes.append(node(f"Reduce{kind}", "x", kind, axes=[1], keepdims=0))
        nodes.append(node(f"Reduce{kind}", "x", f"{kind}_all"))
    nodes += [node("ArgMax", "x", "argmax", axis=-1), node("ArgMin", "x", "argmin", keepdims=0)]
    proto = model(nodes, X, " ".join(n.output[0] for n in nodes), constants, opset)
    check(proto, *[{"x": abs(f["x"]) + 0.1} for f in FEEDS])


def test_the_largest_of_nothing_but_minus_infinity() -> None:
    x = np.full((2, 3, 4), -np.inf, "float32")
    check(model([node("ReduceMax", "x", "y", axes=[2])], X, "y", opset=13), {"x": x})


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_becomes_space_again(mode: str) -> None:
    nodes = [
        node("SpaceToDepth", "x", "deep", blocksize=2, mode=mode),
        node("DepthToSpace", "deep", "y", blocksize=2, mode=mode),
    ]
    x = array(2, 3, 4, 6)
    deep, y = Compiled(model(nodes, {"x": (["n", 3, "h", "w"], "float32")}, "deep y", opset=28))(x=x)
    np.testing.assert_array_equal(y, x)
    blocks = x.reshape(2, 3, 2, 2, 3, 2).transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    np.testing.assert_array_equal(deep, blocks.reshape(2, 12, 2, 3))
