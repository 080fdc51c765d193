"""Ranks that are known only when the model runs: of results, of what loops carry, by shapes and axes of any number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import vmkit
from tests.frontend.onnx.feeds import vector
from tests.frontend.onnx.programs import (
    Compiled,
    agrees_with_reference,
    array,
    graph,
    model,
    node,
)
from vmkit.errors import VMError

X = {"x": (["n", 4], "float32")}
CHOSEN = X | {"c": ([], "bool")}
FEEDS = [{"x": array(n, 4), "c": np.array(c)} for n in (1, 3) for c in (True, False)]
ITERATION = {"i": ([], "int64"), "go": ([], "bool")}
COUNT = {"count": ([], "int64")}


def either(outputs: str = "u") -> list:
    """Return an If whose result is x, or x with a dimension of 1 in the middle."""
    ways = {
        "then_branch": graph([node("Unsqueeze", "x one", "a")], {}, "a"),
        "else_branch": graph([node("Identity", "x", "a")], {}, "a"),
    }
    return [node("If", "c", outputs, **ways)]


def agrees(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Any], outputs: str, *feeds: Mapping[str, Any],
           opset: int = 18, **constants: Any) -> Compiled:  # fmt: skip
    constants = {"zero": vector(0), "one": vector(1), "last": vector(-1)} | constants
    return agrees_with_reference(model(nodes, inputs, outputs, constants, opset), *feeds)


# -- results


def test_a_result_is_of_one_of_several_ranks(tmp_path: Path) -> None:
    compiled = agrees(either("y"), CHOSEN, "y", *FEEDS)
    (output,) = compiled.executable.signature.outputs
    assert str(output) == "float32[n, 4] or float32[n, 1, 4]"
    for feed, (y,) in zip(FEEDS, compiled.in_fresh_process(FEEDS, tmp_path), strict=True):
        np.testing.assert_array_equal(y, feed["x"][:, None] if feed["c"] else feed["x"])


def test_the_report_says_which_shapes_a_result_may_have() -> None:
    report = vmkit.check(model(either("y"), CHOSEN, "y", {"one": vector(1)}, 18))
    assert "(y: float32[n, 4] or float32[n, 1, 4])" in str(report)


def test_results_of_known_and_unknown_rank() -> None:
    nodes = [*either(), node("Abs", "x", "y"), node("Exp", "u", "z"), node("Shape", "u", "s"), node("Size", "u", "k")]
    compiled = agrees(nodes, CHOSEN, "y u z s k", *FEEDS)
    outputs = [str(o) for o in compiled.executable.signature.outputs]
    assert outputs[0] == "float32[n, 4]"
    assert outputs[3] == "int64[?]"


def test_what_does_not_depend_on_the_rank_is_imported_once() -> None:
    nodes = [*either(), *(node("Sin", "x" if i == 0 else f"s{i - 1}", f"s{i}") for i in range(5))]
    nodes += [node("ReduceSum", "u last", "r", keepdims=0), node("Reshape", "r last", "y")]
    compiled = agrees(nodes, CHOSEN, "y s4", *FEEDS)
    text = str(compiled.module["main"])
    assert text.count("sin(") == 5
    assert text.count("sum(") == 2


def test_many_independent_decisions() -> None:
    """Each of ten squeezes of its own may give two ranks: they are decided one by one."""
    nodes = [node("Squeeze", f"x{i}", f"y{i}") for i in range(10)]
    inputs = {f"x{i}": ([f"n{i}", 4], "float32") for i in range(10)}
    feeds = [{f"x{i}": array(1 + (i + k) % 2, 4) for i in range(10)} for k in range(2)]
    agrees(nodes, inputs, " ".join(f"y{i}" for i in range(10)), *feeds)


def test_decisions_that_meet() -> None:
    """Of the four ways two give a matrix and two a tensor of rank 3, which are added to a vector of one rank."""
    nodes = [
        *either("u"),
        node("If", "d", "v", **{
            "then_branch": graph([node("Unsqueeze", "x one", "b")], {}, "b"),
            "else_branch": graph([node("Identity", "x", "b")], {}, "b"),
        }),
        node("Add", "u v", "w"),
        node("ReduceSum", "w last", "y", keepdims=0),
    ]  # fmt: skip
    feeds = [{**f, "d": np.array(d)} for f in FEEDS for d in (True, False)]
    agrees(nodes, CHOSEN | {"d": ([], "bool")}, "y", *feeds)


def test_a_sequence_of_tensors_of_differing_ranks() -> None:
    nodes = [
        *either(),
        node("SequenceConstruct", "x u", "s"),
        node("SequenceAt", "s at", "a"),
        node("ReduceMax", "a last", "y", keepdims=0),
    ]
    agrees(nodes, CHOSEN | {"at": ([], "int64")}, "y", *[{**f, "at": np.int64(k)} for f in FEEDS for k in (0, 1)])


# -- loops


def grown(count: int) -> np.ndarray:
    return array(3).reshape([1] * count + [3])


def test_a_loop_that_adds_a_dimension_each_time() -> None:
    body = graph(
        [node("Unsqueeze", "s zero", "t"), node("Abs", "t", "r")], {**ITERATION, "s": ([3], "float32")}, "go r"
    )
    nodes = [node("Loop", "count _ p", "y", body=body), node("ReduceSum", "y last", "z", keepdims=0)]
    constants = {"zero": vector(0), "last": vector(-1)}
    compiled = Compiled(model(nodes, COUNT | {"p": (["k"], "float32")}, "y z", constants, 18))
    for count in (0, 1, 2, 7):
        y, z = compiled(count=np.int64(count), p=array(3))
        expected = np.abs(grown(count)) if count else array(3)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_allclose(z, expected.sum(-1), rtol=1e-5)
        assert z.shape == expected.shape[:-1]
    with pytest.raises(VMError, match="the value 's' that Loop carries gets more than 8 dimensions"):
        compiled(count=np.int64(8), p=array(3))


def test_a_loop_whose_first_iteration_takes_a_dimension_away() -> None:
    body = graph(
        [node("ReduceSum", "s last", "t", keepdims=0), node("Add", "t t", "r"), node("Shape", "r", "q")],
        {**ITERATION, "s": ([None, None, None], "float32")},
        "go r",
    )
    nodes = [node("Loop", "count _ p", "y", body=body)]
    proto = model(nodes, COUNT | {"p": (["a", "b", 2], "float32")}, "y", {"last": vector(-1)}, 18)
    compiled = Compiled(proto)
    for count in range(4):
        expected = array(2, 3, 2)
        for _ in range(count):
            expected = 2 * expected.sum(-1)
        (y,) = compiled(count=np.int64(count), p=array(2, 3, 2))
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=1e-4)


def test_a_loop_inside_of_which_a_rank_is_decided() -> None:
    ways = {
        "then_branch": graph([node("Unsqueeze", "s zero", "a")], {}, "a"),
        "else_branch": graph([node("Neg", "s", "a")], {}, "a"),
    }
    body = graph(
        [node("Equal", "i two", "is_two"), node("If", "is_two", "t", **ways)],
        {**ITERATION, "s": ([3], "float32")},
        "go t",
    )
    proto = model(
        [node("Loop", "count _ p", "y", body=body)], COUNT | {"p": ([3], "float32")}, "y",
        {"zero": vector(0), "two": np.array(2)}, 18,
    )  # fmt: skip
    compiled = Compiled(proto)
    for count in range(5):
        (y,) = compiled(count=np.int64(count), p=array(3))
        sign = (-1) ** (count - (count > 2))
        np.testing.assert_array_equal(y, sign * grown(int(count > 2)))


# -- shapes and axes of any number


def shapes(*given: Sequence[int]) -> list[dict[str, np.ndarray]]:
    return [{"x": array(1, 6, 4), "s": vector(*s)} for s in given]


S = {"x": ([None, "n", 4], "float32"), "s": (["k"], "int64")}


def test_a_reshape_to_any_number_of_dimensions() -> None:
    nodes = [node("Reshape", "x s", "y"), node("ReduceSum", "y last", "z", keepdims=0)]
    agrees(nodes, S, "y z", *shapes([24], [-1, 2], [0, 3, -1], [2, 3, 2, 1, 2]))


def test_an_expansion_to_any_number_of_dimensions() -> None:
    agrees([node("Expand", "x s", "y")], S, "y", *shapes([], [4], [6, 1], [3, 6, 4], [2, 5, 6, 4]))


def test_a_filled_tensor_of_any_number_of_dimensions() -> None:
    feeds = [{"s": vector(*s)} for s in ([3], [2, 1], [2, 2, 2])]
    agrees([node("ConstantOfShape", "s", "y")], {"s": S["s"]}, "y", *feeds)


def test_axes_of_any_number() -> None:
    nodes = [node("Unsqueeze", "x s", "y"), node("Neg", "y", "z")]
    agrees(nodes, S, "y z", *shapes([], [0], [-1, 1], [0, 2, 5]))


def test_dimensions_of_any_number_are_taken_away() -> None:
    feeds = [{"x": array(1, 6, 1), "s": vector(*s)} for s in ([], [0], [-1, 0])]
    compiled = agrees([node("Squeeze", "x s", "y")], S | {"x": ([None, "n", None], "float32")}, "y", *feeds)
    with pytest.raises(VMError):
        compiled(x=array(2, 6, 1), s=vector(0))


@pytest.mark.sweep
@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMax", "ReduceL2", "ReduceMean"])
@pytest.mark.parametrize("noop", [0, 1])
def test_a_reduction_over_any_number_of_axes(operator: str, noop: int) -> None:
    nodes = [node(operator, "x s", "y", keepdims=0, noop_with_empty_axes=noop)]
    given = [[0], [-1, 1], [2, 0, 1]] + ([[]] if not noop or operator != "ReduceL2" else [])
    agrees(nodes, S, "y", *shapes(*given))


def test_all_dimensions_of_1_among_many_that_are_not_known() -> None:
    nodes = [node("Squeeze", "x", "y"), node("Shape", "y", "s")]
    sizes = [(2, 3, 2, 3, 2), (1, 3, 1, 2, 1), (1, 1, 1, 1, 1), (1, 1, 4, 1, 1)]
    compiled = agrees(nodes, {"x": ([None] * 5, "float32")}, "y s", *[{"x": array(*s)} for s in sizes])
    assert str(compiled.executable.signature.outputs[0]) == "float32[...] of rank 0 to 5"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_indices_of_any_depth(depth: int) -> None:
    x = array(2, 3, 4)
    indices = np.stack([array(5, seed=d, dtype="int64") % size for d, size in enumerate(x.shape[:depth])], -1)
    nodes = [node("GatherND", "x i", "y")]
    agrees(nodes, {"x": ([2, 3, 4], "float32"), "i": ([5, "k"], "int64")}, "y", {"x": x, "i": indices})


def test_updates_tell_the_depth_of_indices() -> None:
    inputs = {"x": (["a", 3, 4], "float32"), "i": (["m", "k"], "int64"), "u": (["m", 4], "float32")}
    feed = {"x": array(2, 3, 4), "i": np.array([[1, 2], [0, 0]]), "u": array(2, 4, seed=3)}
    agrees([node("ScatterND", "x i u", "y")], inputs, "y", feed)


def test_a_length_that_cannot_be_is_named() -> None:
    compiled = Compiled(model([node("Squeeze", "x s", "y")], S, "y", opset=18))
    with pytest.raises(VMError, match=r"the number of axes is not 0 or 1 or 2; it cannot be 3: .* is 4"):
        compiled(x=array(1, 1, 4), s=vector(0, 1, 2, 0))
