"""Loops whose condition says no more than their number of iterations, and indices that count iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.feeds import ITERATION
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, graph, model, node, session
from vmkit.errors import VMError

STEPS = ("steps", 3)
INT32, FLOAT = onnx.TensorProto.INT32, onnx.TensorProto.FLOAT


def over_steps(
    start: int = 0, step: int = 1, ahead: int = 0, source: str = "x", condition: str = "Less"
) -> onnx.ModelProto:
    """Return a model that adds up the rows of its input, and stacks the sums, as TensorFlow's loops are written.

    A counter is carried from `start` on in `steps`; after an iteration there is another while the counter, and
    `ahead` more, is less than the number of rows.
    """
    body = graph(
        [
            node("Gather", f"{source} c", "row"),
            node("Add", "total row", "more"),
            node("Add", "c one", "next"),
            node("Add", "next ahead", "further"),
            node("Cast", "further", "c_float", to=FLOAT),
            node("Cast", "kept", "n_float", to=FLOAT),
            node("Cast", "i", "i_float", to=FLOAT),
            node("Cast", "n", "n_outer", to=FLOAT),
            node(condition, "c_float n_float", "counted"),
            node("Less", "i_float n_outer", "within"),
            node("And", "counted within", "goes_on"),
            node("Identity", "kept", "kept_on"),
        ],
        {**ITERATION, "c": ([], "int32"), "total": ([3], "float32"), "kept": ([], "int32")},
        "goes_on next more kept_on more",
        {"one": np.int32(step), "ahead": np.int32(ahead)},
    )
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "count"),
        node("Cast", "count", "n", to=INT32),
        node("Cast", "n", "f", to=FLOAT),
        node("Less", "nothing f", "begins"),
        node("Loop", "count begins start first n", "c total n_after sums", body=body),
    ]
    constants = {
        "zero": np.int64(0), "nothing": np.float32(0), "start": np.int32(start), "first": np.zeros(3, "float32")
    }  # fmt: skip
    return model(nodes, {"x": (list(STEPS), "float32"), "y": (["others", 3], "float32")}, "c total sums", constants)


def assert_right(proto: onnx.ModelProto, *lengths: int) -> Compiled:
    compiled, peer = Compiled(proto), session(proto)
    for length in lengths:
        feed = {"x": array(length, 3), "y": array(9, 3)}
        expected = peer.run(None, feed)
        if not length:
            expected[2] = expected[2].reshape(0, 3)  # onnxruntime does not know the shape of no rows
        assert_agrees(compiled(**feed), expected, ["c", "total", "sums"])
    return compiled


def is_one_call(compiled: Compiled) -> bool:
    return "invoke_packed kernel_loop" in compiled.executable.bytecode


def test_a_condition_over_a_counter_is_the_number_of_iterations() -> None:
    assert is_one_call(assert_right(over_steps(), 0, 1, 2, 7))


@pytest.mark.parametrize(
    "options",
    [{"start": 1}, {"step": 2}, {"ahead": 1}, {"start": -2, "condition": "LessOrEqual"}, {"condition": "Greater"}],
    ids=lambda o: " ".join(f"{k}={v}" for k, v in o.items()),
)
def test_a_condition_that_may_end_a_loop_early_is_kept(options: dict[str, Any]) -> None:
    # A first row beyond the last one is refused, as by onnxruntime.
    assert_right(over_steps(**options), 2, 3, 8)


def test_a_counter_from_the_end_on_is_counted_from_the_front() -> None:
    assert not is_one_call(assert_right(over_steps(start=-1), 1, 2, 5))


def test_a_counter_of_other_rows_is_checked() -> None:
    compiled = Compiled(over_steps(source="y"))
    x = array(4, 3)
    np.testing.assert_allclose(compiled(x=x, y=x)[2], np.cumsum(x, 0), rtol=1e-6)
    with pytest.raises(VMError, match="Gather: an index lies outside of axis 0"):
        compiled(x=x, y=array(3, 3))


def while_below(begins: str, start: int = 0, extra: str = "", opset: int = 16) -> onnx.ModelProto:
    """Return a model that squares x again and again, and stacks what comes, while a counter is less than `n`.

    `begins` is the condition for the first time; with `extra` an iteration's condition has another part.
    """
    nodes = [
        node("Mul", "s scale", "t"),
        node("Add", "c one", "next"),
        node("Less", "next n_inside", "counted"),
        node("ReduceMax", "t", "most", keepdims=0),
        node("Less", "most limit", "small"),
        node("And", "counted small", "both"),
        node("Identity", "n_inside", "n_same"),
        node("Identity", "n_same", "n_kept"),
        node("Identity", "scale", "scale_kept"),
    ]
    states = {"c": ([], "int64"), "s": ([2], "float32"), "n_inside": ([], "int64"), "scale": ([2], "float32")}
    body = graph(nodes, {**ITERATION, **states}, f"{extra or 'counted'} next t n_kept scale_kept t")
    outer = [
        node("Less", "start n", "below"),
        node("Loop", f"_ {begins} start x n double", "c s n_after double_after rows", body=body),
    ]
    constants = {
        "one": np.int64(1), "start": np.int64(start), "limit": np.float32(20), "double": np.full(2, 2, "float32"),
        "always": np.array(True),
    }  # fmt: skip
    inputs = {"n": ([], "int64"), "x": ([2], "float32"), "go": ([], "bool")}
    return model(outer, inputs, "c s n_after double_after rows", constants, opset=opset)


def check_while(proto: onnx.ModelProto) -> Compiled:
    compiled, peer = Compiled(proto), session(proto)
    for n in (-1, 0, 1, 2, 5):
        for go in (True, False):
            feed = {"n": np.array(n), "x": np.array([1, 3], "float32"), "go": np.array(go)}
            expected = peer.run(None, feed)
            if not len(expected[-1]):
                expected[-1] = expected[-1].reshape(0, 2)
            assert_agrees(compiled(**feed), expected, ["c", "s", "n_after", "double_after", "rows"])
    return compiled


def test_a_counter_below_a_limit_is_a_number_of_iterations() -> None:
    assert is_one_call(check_while(while_below("below")))


@pytest.mark.parametrize(
    ("begins", "start", "extra"),
    [("always", 0, ""), ("go", 0, ""), ("below", -3, ""), ("below", 2, ""), ("below", 0, "both"), ("go", 1, "both")],
)
def test_a_first_iteration_that_is_not_asked_and_conditions_of_other_values(
    begins: str, start: int, extra: str
) -> None:
    check_while(while_below(begins, start, extra))


def test_what_no_iteration_changes_is_known_inside() -> None:
    compiled = Compiled(while_below("below"))
    loop = next(f for v, f in compiled.module.functions.items() if v.name_hint != "main")
    assert [p.name_hint for p in loop.params] == ["position", "limit", "c", "s", "stacked", "n_inside"]
