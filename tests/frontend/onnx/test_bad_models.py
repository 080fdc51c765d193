"""Files that are no models, and models that make no sense: each error names the node and the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.frontend.onnx.programs import array, graph, model, node
from vmkit.errors import ModelError, UnsupportedOperatorError
from vmkit.relay.frontend import from_onnx

X = {"x": (["n", 4], "float32")}


def relu() -> onnx.ModelProto:
    return model([node("Relu", "x", "y")], X, "y")


def refused(proto: Any, error: type[Exception] = ModelError) -> str:
    with pytest.raises(error) as caught:
        from_onnx(proto)
    return str(caught.value)


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    assert refused(path) == "empty.onnx is empty; an ONNX model was expected"


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.onnx").endswith("no.onnx: no such file; give the path of an .onnx file")
    assert refused(tmp_path).endswith(": a folder; give the path of an .onnx file")


def test_a_truncated_file() -> None:
    data = model([node("MatMul", "x w", "y")], X, "y", {"w": array(4, 50)}).SerializeToString()
    for length in range(1, len(data), max(1, len(data) // 40)):
        assert "the model" in refused(data[:length])


@pytest.mark.parametrize("data", [b"hello, world", b"\x7fELF" + bytes(60), b"\x08\x07", b"PK\x03\x04" + bytes(99)])
def test_other_data(data: bytes) -> None:
    assert "is no ONNX model, or a truncated one" in refused(data)


def test_names_that_are_no_text() -> None:
    data = relu().SerializeToString().replace(b"\x01x", b"\x01\xff")
    assert refused(data) == "the model is malformed: the name b'\\xff' is no UTF-8"


def test_a_model_without_opset_or_graph() -> None:
    proto = relu()
    del proto.opset_import[:]
    assert refused(proto) == "the model is no ONNX model, or a truncated one: it has no opset"
    assert "it has no IR version, no graph, no opset" not in refused(onnx.ModelProto(ir_version=8))


def test_something_that_is_no_model() -> None:
    with pytest.raises(TypeError, match="an ONNX model is a ModelProto, a path or bytes, not int"):
        from_onnx(7)


def test_an_opset_that_is_not_known_yet() -> None:
    proto = relu()
    proto.opset_import[0].version = 999
    assert "the model has opset 999; the installed onnx knows 1 to" in refused(proto)


def test_all_unsupported_operators_are_listed() -> None:
    nodes = [
        node("Relu", "x", "a"),
        onnx.helper.make_node("Alpha", ["a"], ["b"], name="first", domain="own"),
        onnx.helper.make_node("Alpha", ["b"], ["c"], name="second", domain="own"),
        onnx.helper.make_node("Beta", ["c"], ["y"], name="third", domain="own"),
    ]
    proto = model(nodes, X, "y")
    proto.opset_import.append(onnx.helper.make_opsetid("own", 3))
    message = refused(proto, UnsupportedOperatorError)
    assert message == (
        "the model: 2 operators are not supported:\n"
        "  own.Alpha (opset 3): 2 nodes, 'first', 'second'\n"
        "  own.Beta (opset 3): 1 node, 'third'"
    )


def test_unsupported_operators_in_branches_are_listed() -> None:
    branch = graph([onnx.helper.make_node("Alpha", ["x"], ["a"], name="inside", domain="own")], {}, "a")
    proto = model([node("If", "c", "y", then_branch=branch, else_branch=branch)], X | {"c": ([], "bool")}, "y")
    proto.opset_import.append(onnx.helper.make_opsetid("own", 3))
    message = refused(proto, UnsupportedOperatorError)
    assert "own.Alpha (opset 3): 2 nodes, 'inside', 'inside'" in message


def test_a_domain_without_an_opset() -> None:
    proto = model([onnx.helper.make_node("Alpha", ["x"], ["y"], domain="own")], X, "y")
    assert "node 'y' (Alpha): the model imports no opset of its domain 'own'" in refused(proto)


def test_names_that_nothing_defines() -> None:
    assert "'z', read by node 'y' (Add)" in refused(model([node("Add", "x z", "y")], X, "y"))
    assert "'z', an output of the graph" in refused(model([node("Relu", "x", "y")], X, "z"))


def test_names_defined_twice() -> None:
    twice = model([node("Relu", "x", "y"), node("Neg", "x", "y")], X, "y")
    assert "names are defined more than once: 'y'" in refused(twice)
    assert "'x'" in refused(model([node("Relu", "x", "x")], X, "x"))


def test_a_cycle() -> None:
    nodes = [node("Add", "x b", "a"), node("Neg", "a", "b"), node("Relu", "a", "y")]
    message = refused(model(nodes, X, "y"))
    assert "the graph has a cycle" in message
    assert "node 'a' (Add)" in message


def test_nodes_in_any_order_are_sorted() -> None:
    module, _ = from_onnx(model([node("Neg", "a", "y"), node("Relu", "x", "a")], X, "y"))
    assert str(module["main"].checked_type.ret_type) == "Tensor[(n, 4), float32]"


def test_attributes_of_a_wrong_type_or_name() -> None:
    wrong_type = model([node("Softmax", "x", "y", axis=1.5)], X, "y")
    assert "node 'y' (Softmax): attribute 'axis' is of type FLOAT, expected INT" in refused(wrong_type)
    wrong_name = model([node("Softmax", "x", "y", axes=1)], X, "y")
    assert "it has no attribute 'axes' in opset 17; did you mean 'axis'?" in refused(wrong_name)
    missing = model([node("Cast", "x", "y")], X, "y")
    assert "node 'y' (Cast): the attribute 'to' is missing" in refused(missing)


def test_a_wrong_number_of_inputs() -> None:
    assert "node 'y' (Add): 1 inputs; it takes 2" in refused(model([node("Add", "x", "y")], X, "y"))


@pytest.mark.parametrize(
    ("op_type", "inputs", "missing"), [("Relu", "_", "x"), ("Add", "_ x", "a"), ("Add", "x _", "b")]
)
def test_an_input_that_is_left_out_and_must_not_be(op_type: str, inputs: str, missing: str) -> None:
    text = refused(model([node(op_type, inputs, "y")], X, "y"))
    assert text.endswith(f": the node leaves out {missing}, which the operator cannot be without")


def test_types_that_do_not_fit_name_the_node_and_its_inputs() -> None:
    proto = model([node("MatMul", "x w", "y")], X, "y", {"w": array(5, 3)})
    message = refused(proto)
    assert "node 'y' (MatMul, opset 17) of (Tensor[(n, 4), float32], Tensor[(5, 3), float32]): " in message


def test_an_initializer_that_is_too_short() -> None:
    proto = model([node("Add", "x w", "y")], X, "y", {"w": array(4)})
    proto.graph.initializer[0].raw_data = b"\0" * 7
    assert "initializer 'w': its data does not fill float32[4]" in refused(proto)


def test_a_data_type_that_is_not_supported() -> None:
    proto = model([node("Cast", "x", "y", to=14)], X, "y")
    assert "Cast has the element type 14 (COMPLEX64)" in refused(proto)


def test_names_in_functions_and_subgraphs_that_are_no_text() -> None:
    branch = graph([node("Relu", "x", "inside")], {}, "inside")
    proto = model([node("If", "c", "y", then_branch=branch, else_branch=branch)], X | {"c": ([], "bool")}, "y")
    body = [node("Neg", "a", "b")]
    proto.functions.append(onnx.helper.make_function("own", "F", ["a"], ["b"], body, proto.opset_import))
    data = proto.SerializeToString()
    for name in (b"inside", b"Neg", b"own"):
        assert "is no UTF-8" in refused(data.replace(name, b"\xff" * len(name)))
