"""Elements picked, written and ordered by indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

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
from vmkit.backend import prepare
from vmkit.errors import ModelError, VMError

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "gather": (
        [node("Gather", "x i", "a", axis=1), node("Gather", "x negative", "b", axis=-1), node("Gather", "x i", "c")],
        {"i": np.array([[0, 0]]), "negative": np.array([-1, 0, -4])},
    ),
    "where the elements are not zero": ([node("Relu", "x", "r"), node("NonZero", "r", "a")], {}),
    "top k": ([node("TopK", "x k", "a b", axis=1), node("TopK", "x k", "c d", largest=0)], {"k": np.array([2])}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_elements_are_picked(name: str) -> None:
    nodes, constants = CASES[name]
    check(model(nodes, X, outputs_of(nodes), constants), *FEEDS)


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
    inputs = {"x": (["n", 2], "float32"), "c": (["m"], "bool")}
    feeds = [{"x": array(n, 2), "c": np.arange(m) % 2 == 1} for n, m in ((2, 2), (5, 3), (1, 4), (3, 8))]
    check(model(nodes, inputs, "a b"), *feeds)


def test_reverse_sequence() -> None:
    proto = model(
        [node("ReverseSequence", "x lengths", "y")], {"x": (["t", "n", 2], "float32"), "lengths": (["n"], "int64")}, "y"
    )
    check(proto, {"x": array(4, 3, 2), "lengths": np.array([4, 1, 3])})


def test_the_largest_elements_by_a_number_that_is_read() -> None:
    inputs = X | {"k": ([1], "int64")}
    nodes = [node("TopK", "x k", "a b", axis=1), node("TopK", "x k", "c d", largest=0), node("TopK", "x none", "e f")]
    compiled = check(
        model(nodes, inputs, outputs_of(nodes), {"none": vector(0)}),
        *[{"x": array(2, 3, 4), "k": vector(k)} for k in (0, 1, 3)],
    )
    with pytest.raises(VMError, match="TopK: k is negative, or axis 1 has fewer elements"):
        compiled(x=array(2, 3, 4), k=vector(4))


def test_wide_unsigned_numbers_are_ordered() -> None:
    values = np.array([[3, 2**64 - 1, 0, 2**63, 5]], "uint64")
    compiled = Compiled(model([node("TopK", "x k", "a b")], {"x": ([1, 5], "uint64")}, "a b", {"k": vector(4)}))
    expected = [np.array([[2**64 - 1, 2**63, 5, 3]], "uint64"), np.array([[1, 3, 4, 0]])]
    assert_agrees(compiled(x=values), expected, ["a", "b"])


def test_an_index_outside_is_an_error_and_a_negative_one_counts_from_the_end() -> None:
    inputs = X | {"i": (["k"], "int64"), "e": (["n", 1, 4], "int32"), "t": ([1, 2], "int64"), "u": ([1, 4], "float32")}
    nodes = [
        node("Gather", "x i", "a", axis=1),
        node("GatherElements", "x e", "b", axis=1),
        node("GatherND", "x t", "c"),
        node("ScatterND", "x t u", "d", reduction="max"),
    ]
    proto = model(nodes, inputs, "a b c d", opset=18)
    feed = {
        "x": array(2, 3, 4), "i": vector(0, -3, 2), "e": np.full((2, 1, 4), -1, "int32"), "t": np.array([[-1, 2]]),
        "u": array(1, 4, seed=2),
    }  # fmt: skip
    compiled = check(proto, feed)
    for name, value, operator in (
        ("i", vector(0, 3), "Gather: an index lies outside of axis 1"),
        ("e", np.full((2, 1, 4), -4, "int32"), "GatherElements: an index lies outside of axis 1"),
        ("t", np.array([[0, 3]]), "(Gather|Scatter)ND: an index lies outside of the tensor"),
    ):
        with pytest.raises(VMError, match=operator):
            compiled(**feed | {name: value})
    with pytest.raises(ModelError, match="the index 3 lies outside of axis 1, which has 3 elements"):
        Compiled(model([node("Gather", "x i", "y", axis=1)], X, "y", {"i": vector(3)}))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_elements_are_joined_with_what_is_there(reduction: str) -> None:
    inputs = X | {"i": (["n", 2, 4], "int64"), "u": (["n", 2, 4], "float32")}
    proto = model([node("ScatterElements", "x i u", "y", axis=1, reduction=reduction)], inputs, "y", opset=18)
    indices = np.array([[[0, 1, 2, -1], [1, -1, 0, 0]]])
    check(proto, {"x": array(1, 3, 4), "i": indices, "u": array(1, 2, 4, seed=1)})


def test_the_largest_of_64_unsigned_bits_come_first() -> None:
    x = np.uint64([3, 1 << 63, 7, (1 << 64) - 1])
    info = helper.make_tensor_value_info("x", TensorProto.UINT64, [4])
    k = helper.make_tensor("k", TensorProto.INT64, [1], [3])
    outputs = [onnx.ValueInfoProto(name=n) for n in "va"]
    graph = helper.make_graph([node("TopK", "x k", "v a")], "g", [info], outputs, [k])
    values, at = prepare(helper.make_model(graph)).run([x])
    assert (values.tolist(), at.tolist()) == ([(1 << 64) - 1, 1 << 63, 7], [3, 1, 2])
