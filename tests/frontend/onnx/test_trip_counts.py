"""Loops whose condition says no more than their number of iterations, and indices that count iterations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.feeds import ITERATION
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, graph, model, node, session
from vmkit.errors import VMError

STEPS = ("steps", 3)
INT32, FLOAT = onnx.TensorProto.INT32, onnx.TensorProto.FLOAT
Build = Callable[..., onnx.ModelProto]


def over_steps(start: int = 0, step: int = 1, ahead: int = 0, source: str = "x", condition: str = "Less") -> Build:
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
def test_a_condition_that_may_end_a_loop_early_is_kept(options: dict[str, int]) -> None:
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
