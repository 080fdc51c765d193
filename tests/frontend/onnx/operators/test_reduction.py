"""Reductions, running sums and products, over axes that are known or read at run time."""

from __future__ import annotations

import numpy as np
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
    results_of,
)


def test_running_sums() -> None:
    nodes = [
        node("CumSum", "x axis", "a"), node("CumSum", "x axis", "b", reverse=1),
        node("CumSum", "x axis", "c", exclusive=1),
    ]  # fmt: skip
    constants = {"axis": np.array(1)}
    check(model(nodes, X, outputs_of(nodes), constants), *FEEDS)


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


def test_reductions_over_axes_that_are_read() -> None:
    nodes = [
        node("ReduceSum", "x axes", "a"),
        node("ReduceMean", "x axes", "b", keepdims=0),
        node("ReduceMax", "x axes", "c"),
        node("ReduceProd", "x axes", "d", keepdims=0),
        node("ReduceLogSumExp", "x axes", "e", keepdims=0),
        node("ReduceL2", "x axes", "f"),
    ]
    proto = model(nodes, X | {"axes": ([2], "int64")}, outputs_of(nodes), opset=18)
    check(
        proto,
        {"x": array(2, 3, 4), "axes": vector(0, 2)},
        {"x": array(5, 3, 4), "axes": vector(-1, 1)},
        {"x": array(1, 3, 4), "axes": vector(1, -3)},
    )


def test_reductions_over_any_number_of_axes() -> None:
    nodes = [node("ReduceSum", "x axes", "a"), node("ReduceSumSquare", "x axes", "b", noop_with_empty_axes=1)]
    proto = model(nodes, X | {"axes": (["k"], "int64")}, "a b", opset=18)
    compiled = Compiled(proto)
    x = array(2, 3, 4)
    for axes in ((), (1,), (2, 0), (0, 1, 2)):
        over = axes or (0, 1, 2)
        expected = [x.sum(over, keepdims=True), (x * x).sum(axes, keepdims=True) if axes else x * x]
        assert_agrees(compiled(x=x, axes=vector(*axes)), expected, ["a", "b"])


def test_running_sums_along_an_axis_that_is_read() -> None:
    nodes = [node("CumSum", "x axis", "a"), node("CumSum", "x axis", "b", reverse=1, exclusive=1)]
    proto = model(nodes, X | {"axis": ([], "int32")}, "a b")
    check(proto, *[{"x": array(2, 3, 4), "axis": np.array(a, "int32")} for a in (0, 1, -1)])


def test_running_products() -> None:
    nodes = [node("CumProd", "x axis", "a"), node("CumProd", "x one", "b", exclusive=1, reverse=1)]
    compiled = Compiled(model(nodes, X | {"axis": ([], "int64")}, "a b", {"one": np.array(1)}, opset=26))
    x = array(2, 3, 4)
    back = np.cumprod(np.concatenate([np.ones((2, 1, 4), "float32"), x[:, :0:-1]], 1), 1)[:, ::-1]
    for axis in (0, 2, -2):
        assert_agrees(compiled(x=x, axis=np.int64(axis)), [np.cumprod(x, axis), back], ["a", "b"])


def test_the_length_of_an_integer_vector_is_an_integer() -> None:
    nodes = [node("ReduceL2", "x", "y", keepdims=0)]
    for dtype in ("int32", "uint64"):
        (y,) = results_of(nodes, x=np.array([3, 5], dtype))
        assert (str(y.dtype), y.tolist()) == (dtype, 5)
