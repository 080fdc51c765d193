"""Pictures of models: which nodes and edges there are, the scopes, and that names of a model stay data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from vmkit import relay
from vmkit.errors import ModelError
from vmkit.pages import Edge, Graph, Node, graph_of, graph_page


def model(*nodes: onnx.NodeProto, output: str = "y", **weights: np.ndarray) -> onnx.ModelProto:
    """Return a model from ``x: float32[n, 4]`` and ``c: bool`` to one output."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", 4])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pairs(graph: Graph) -> set[tuple[str, str]]:
    """Return the edges by what their ends are called."""

    def called(at: int) -> str:
        node = graph.nodes[at]
        return node.name if node.kind in ("input", "output") else node.operator

    return {(called(edge.source), called(edge.target)) for edge in graph.edges}


def data(page: str) -> dict[str, Any]:
    """Return what a page's script finds."""
    line = next(line for line in page.splitlines() if line.startswith("const DATA = "))
    found: dict[str, Any] = json.loads(line.removeprefix("const DATA = ").removesuffix(";"))
    return found


def test_an_onnx_model_is_drawn_as_it_is() -> None:
    made = model(
        helper.make_node("MatMul", ["x", "w"], ["h"], "/block/dense/MatMul"),
        helper.make_node("Clip", ["h", "low"], ["y"], "/block/Clip"),
        w=np.ones((4, 4), "float32"),
        low=np.float32(0),
    )
    graph = graph_of(made)
    assert [(node.operator, node.kind, node.scope) for node in graph.nodes] == [
        ("input", "input", ""),
        ("input", "input", ""),
        ("MatMul", "weighted", "block/dense"),
        ("Clip", "operator", "block"),
        ("output", "output", ""),
    ]
    assert graph.nodes[2].attributes == {"w": "constant float32[4, 4]"}
    assert graph.nodes[2].types == ("float32[n, 4]",)
    assert pairs(graph) == {("x", "MatMul"), ("MatMul", "Clip"), ("Clip", "y")}
    assert {edge.text for edge in graph.edges} == {"float32[n, 4]"}


def test_graphs_inside_nodes_stand_in_their_scopes() -> None:
    def branch(operator: str) -> onnx.GraphProto:
        node = helper.make_node(operator, ["x"], ["b"], operator.lower())
        return helper.make_graph([node], operator, [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)])

    node = helper.make_node("If", ["c"], ["y"], "choice", then_branch=branch("Exp"), else_branch=branch("Tanh"))
    graph = graph_of(model(node))
    assert pairs(graph) == {("x", "Exp"), ("x", "Tanh"), ("Exp", "If"), ("Tanh", "If"), ("c", "If"), ("If", "y")}
    assert {node.operator: node.scope for node in graph.nodes if node.name in ("exp", "tanh")} == {
        "Exp": "choice then_branch",
        "Tanh": "choice else_branch",
    }
    assert next(node.kind for node in graph.nodes if node.operator == "If") == "control"


def test_a_relay_program_is_drawn_by_its_calls() -> None:
    text = """#[version = "0.0.5"]
    def @f(%a: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] { nn.relu(%a) }
    def @main(%x: Tensor[(?, 4), float32], %c: bool) {
      let %y = nn.softmax(%x, axis=0);
      let %z = if (%c) { tanh(%y) } else { @f(%y) };
      let %t = (%z, %y);
      add(%t.0, %t.1)
    }"""
    graph = graph_of(relay.fromtext(text))
    assert pairs(graph) == {
        ("x", "nn.softmax"), ("nn.softmax", "tanh"), ("nn.softmax", "@f"), ("tanh", "if"), ("@f", "if"), ("c", "if"),
        ("if", "add"), ("nn.softmax", "add"), ("add", ""), ("a", "nn.relu"), ("nn.relu", ""),
    }  # fmt: skip
    softmax = next(node for node in graph.nodes if node.operator == "nn.softmax")
    assert (softmax.name, softmax.attributes, softmax.types) == ("y", {"axis": "0"}, ("Tensor[(?, 4), float32]",))
    assert {node.scope for node in graph.nodes if node.operator == "nn.relu"} == {"@f"}


def test_what_calls_itself_and_what_is_taken_apart_is_drawn() -> None:
    x = relay.var("x", shape=(2,))
    loop = relay.var("loop")
    body = relay.Call(loop, [relay.tanh(x)])
    recursive = relay.Let(
        loop, relay.Function([x], body, relay.TensorType((2,))), relay.Call(loop, [relay.ones((2,), "float32")])
    )
    graph = graph_of(relay.Function([], recursive))
    assert ("tanh", "call") in pairs(graph) and ("call", "fn") in pairs(graph)


def test_chains_are_scopes_where_the_model_names_none() -> None:
    names = ["input", "a", "b", "c", "d", "e", "output"]
    kinds = ["input", *["operator"] * 5, "output"]
    nodes = [Node(name, name, kind) for name, kind in zip(names, kinds, strict=True)]  # type: ignore[arg-type]
    straight = [Edge(at, at + 1) for at in range(6)]
    assert [node.scope for node in Graph("", nodes, straight).with_scopes().nodes] == [
        "", *["chain 1: a … e"] * 5, "",
    ]  # fmt: skip
    branched = Graph("", nodes, [*straight, Edge(3, 5)]).with_scopes()
    assert [node.scope for node in branched.nodes] == ["", *["chain 1: a … c"] * 3, "", "", ""]


def test_names_cannot_leave_the_data_of_a_page() -> None:
    name = "</script><script>alert(1)</script><!--"
    page = graph_page(model(helper.make_node("Exp", ["x"], ["y"], name)))
    assert data(page)["nodes"][2]["name"] == name
    assert name not in page and page.count("</script>") == 4 and "http://" not in page.split("const DATA")[0][-200:]


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ModelError, match="a model is a path"):
        graph_page(3)
