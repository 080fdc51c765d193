"""Nodes of a converted model say which of the model's they were made of, where that is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vmkit import relay
from vmkit.frontend.onnx import from_onnx, spans


@pytest.fixture
def filled() -> Iterator[None]:
    before = spans.fill(True)
    yield
    spans.fill(before)


def _model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Add", ["x", "bias"], ["sum"], name="adds"),
        helper.make_node("HardSwish", ["sum"], ["y"], name="bends"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(np.ones(3, "float32"), "bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def _places() -> dict[str, set[str]]:
    mod, _ = from_onnx(_model())
    found: dict[str, set[str]] = {}
    for node in relay.analysis.all_vars(mod["main"]):
        found.setdefault("vars", set()).add(node.span.source_name.name if node.span else "")

    def visit(node: relay.Expr) -> None:
        if isinstance(node, relay.Call):
            found.setdefault(node.op.name, set()).add(node.span.source_name.name if node.span else "")

    relay.analysis.post_order_visit(mod["main"].body, visit)
    return found


def test_each_node_has_the_place_of_what_it_came_from(filled: None) -> None:
    places = _places()
    assert places["vars"] == {"x"}
    # HardSwish becomes several calls, one of them an addition.
    assert places["add"] == {"adds", "bends"} and places["multiply"] == {"bends"}


def test_by_default_there_are_no_places() -> None:
    assert set().union(*_places().values()) == {""}
