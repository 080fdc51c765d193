"""If: branches that see the values around them, and may differ in shape and rank."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.programs import Compiled, array, check, graph, model, node, operators
from vmkit.errors import ModelError, VMError

X = {"x": (["n", 4], "float32"), "c": ([], "bool")}
FEEDS = [{"x": array(n, 4), "c": np.array(c)} for n in (1, 3) for c in (True, False)]


def branches(then_nodes: list, else_nodes: list, outputs: str = "a") -> dict:
    return {"then_branch": graph(then_nodes, {}, outputs), "else_branch": graph(else_nodes, {}, outputs)}


def test_branches_see_outer_values() -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("If", "c", "y", **branches([node("Add", "r x", "a")], [node("Neg", "r", "a")])),
        node("Add", "y r", "z"),
    ]
    check(model(nodes, X, "y z"), *FEEDS)


def test_branches_of_differing_sizes() -> None:
    then_nodes = [node("Concat", "x x", "a", axis=0)]
    nodes = [node("If", "c", "s", **branches(then_nodes, [node("Identity", "x", "a")])), node("Exp", "s", "y")]
    check(model(nodes, X, "y"), *FEEDS)


def test_several_outputs() -> None:
    attributes = branches(
        [node("Neg", "x", "a"), node("Abs", "x", "b")], [node("Abs", "x", "a"), node("Exp", "x", "b")], "a b"
    )
    check(model([node("If", "c", "p q", **attributes)], X, "p q"), *FEEDS)


def test_branches_of_differing_ranks_are_followed_separately() -> None:
    """The reduction over the last axis means another axis in each branch, and both results have rank 1."""
    attributes = branches([node("Unsqueeze", "x axis", "a")], [node("Identity", "x", "a")])
    nodes = [
        node("If", "c", "u", **attributes),
        node("ReduceSum", "u last", "s", keepdims=0),
        node("Reshape", "s flat", "y"),
    ]
    proto = model(nodes, X, "y", {"axis": np.array([1]), "last": np.array([-1]), "flat": np.array([-1])})
    check(proto, *FEEDS)


def test_a_rank_that_is_asked_for_decides_later_branches() -> None:
    """Once the rank is known on each way, a condition on it is."""
    first = branches([node("Unsqueeze", "x axis", "a")], [node("Identity", "x", "a")])
    second = branches([node("Identity", "u", "a")], [node("Squeeze", "u axis", "a")])
    nodes = [
        node("If", "c", "u", **first),
        node("Shape", "u", "shape"),
        node("Size", "shape", "rank"),
        node("Equal", "rank two", "is_matrix"),
        node("If", "is_matrix", "y", **second),
    ]
    compiled = check(model(nodes, X, "y", {"axis": np.array([0]), "two": np.array(2)}), *FEEDS)
    assert "equal" not in operators(compiled.module)


def test_a_way_on_which_the_model_makes_no_sense_fails_at_run_time_alone() -> None:
    attributes = branches([node("Unsqueeze", "x axis", "a")], [node("Identity", "x", "a")])
    nodes = [node("If", "c", "u", **attributes), node("Transpose", "u", "y", perm=[1, 0])]
    compiled = Compiled(model(nodes, X, "y", {"axis": np.array([0])}))
    x = array(2, 4)
    np.testing.assert_array_equal(compiled(x=x, c=np.array(False))[0], x.T)
    with pytest.raises(VMError, match=r"the model cannot run at these sizes or values, for which 'c': .*Transpose"):
        compiled(x=x, c=np.array(True))


def test_a_way_that_sizes_decide() -> None:
    attributes = branches([node("Squeeze", "x axis", "a")], [node("Identity", "x", "a")])
    nodes = [
        node("Shape", "x", "shape", start=0, end=1),
        node("Equal", "shape one", "is_one"),
        node("If", "is_one", "u", **attributes),
        node("Unsqueeze", "u axis", "y"),
        node("Transpose", "y", "z", perm=[1, 0]),
    ]
    compiled = Compiled(model(nodes, {"x": X["x"]}, "z", {"axis": np.array([0]), "one": np.array([1])}))
    x = array(1, 4)
    np.testing.assert_array_equal(compiled(x=x)[0], x.T)
    with pytest.raises(VMError, match="the model cannot run at these sizes or values"):
        compiled(x=array(2, 4))


def test_branches_of_differing_data_types_are_refused() -> None:
    attributes = branches([node("Cast", "x", "a", to=7)], [node("Identity", "x", "a")])
    with pytest.raises(ModelError, match=r"the branches of an If give .*their data types must be the same"):
        Compiled(model([node("If", "c", "y", **attributes)], X, "y"))


def test_nested_branches() -> None:
    inner = branches([node("Neg", "x", "a")], [node("Abs", "x", "a")])
    outer = branches([node("If", "d", "a", **inner)], [node("Exp", "x", "a")])
    proto = model([node("If", "c", "y", **outer)], X | {"d": ([1], "bool")}, "y")
    check(proto, *[{**f, "d": np.array([d])} for f in FEEDS for d in (True, False)])
