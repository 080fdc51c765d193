"""Maps: made of the scores of classes, and given as dicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import vmkit
from tests.frontend.onnx.ml.models import numbers
from vmkit.errors import InputError, ModelError, VMError

CODES = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64,
    "string": TensorProto.STRING,
}  # fmt: skip


def map_type(key: str, value: str) -> onnx.TypeProto:
    return helper.make_map_type_proto(CODES[key], helper.make_tensor_type_proto(CODES[value], []))


def with_map(op_type: str, key: str, value: str, dtype: str, **attributes: Any) -> onnx.ModelProto:
    """Return a model of one node that takes a map and gives a tensor."""
    node = helper.make_node(op_type, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    given = helper.make_value_info("x", map_type(key, value))
    return _model([node], [given], helper.make_tensor_value_info("y", CODES[dtype], None))


def zipped(labels: list[int] | list[str], shape: list[str | int]) -> onnx.ModelProto:
    """Return a model that names the columns of a matrix by labels."""
    name = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **{name: labels})
    key = "string" if isinstance(labels[0], str) else "int64"
    result = helper.make_value_info("y", helper.make_sequence_type_proto(map_type(key, "float32")))
    return _model([node], [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], result)


def _model(nodes: list[onnx.NodeProto], inputs: Any, output: Any) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, [output]), opset_imports=imports, ir_version=8)


def machine(proto: onnx.ModelProto) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(proto, target="llvm"), num_threads=1)


def expected(proto: onnx.ModelProto, feed: Mapping[str, Any]) -> Any:
    """Return what onnxruntime gives."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(feed))[0]


@pytest.mark.parametrize(
    ("labels", "shape"),
    [
        ([0, 1, 2], ["n", 3]),
        ([7, -2, 3], ["n", 3]),
        ([2, 0, 2], ["n", 3]),
        (["b", "a", "é"], ["n", 3]),
        (["b", "a", "c"], ["n", "columns"]),
        ([4, 3], ["n", 2]),
        (["b", "a", "d", "c"], ["n", 4]),
    ],
)
def test_scores_become_a_list_of_dicts(labels: Any, shape: Any) -> None:
    proto = zipped(labels, shape)
    vm = machine(proto)
    for rows in (1, 4, 0):
        x = numbers(rows, len(labels))
        result, wanted = vm.run(x), expected(proto, {"x": x})
        assert result == wanted
        # The order of the keys and the types of Python are the same too.
        assert repr(result) == repr(wanted)


def test_a_vector_of_scores_is_one_row() -> None:
    proto, x = zipped(["b", "a"], ["n"]), numbers(2)
    assert machine(proto).run(x) == expected(proto, {"x": x})


def test_a_classifier_gives_dicts_after_export_and_load(tmp_path: Path) -> None:
    nodes = [
        helper.make_node(
            "LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", coefficients=[1.0, -1.0, 0.5, 2.0],
            intercepts=[0.1, 0.2], classlabels_strings=["no", "yes"], post_transform="SOFTMAX",
        ),
        helper.make_node(
            "ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"]
        ),
    ]  # fmt: skip
    result = helper.make_value_info("probabilities", helper.make_sequence_type_proto(map_type("string", "float32")))
    proto = _model(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])], result)
    proto.graph.output.insert(0, helper.make_tensor_value_info("label", TensorProto.STRING, None))
    report = vmkit.check(proto)
    assert str(report.signature) == (
        "main(x: float32[n, 2]) -> (label: string[n], probabilities: list[dict[string, float32]])"
    )
    vmkit.compile(proto, target="llvm").export(tmp_path / "model.vmx")
    vm = vmkit.VirtualMachine(vmkit.load(tmp_path / "model.vmx"), num_threads=1)
    x = numbers(3, 2)
    label, probabilities = vm.run(x)
    assert label.numpy().tolist() == expected(proto, {"x": x}).tolist()
    assert [list(row) for row in probabilities] == [["no", "yes"]] * 3
    np.testing.assert_allclose([sum(row.values()) for row in probabilities], np.ones(3), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int64", "string"])
@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
def test_a_map_of_numbers_is_cast_to_a_row(dtype: str, form: str) -> None:
    cast = {"float32": "TO_FLOAT", "int64": "TO_INT64", "string": "TO_STRING"}[dtype]
    proto = with_map("CastMap", "int64", "float32", dtype, cast_to=cast, map_form=form, max_map=5)
    vm = machine(proto)
    for given in ({3: 2.7, 1: 1e10, 0: -0.5, 4: 1e-7}, {9: 1.0, 2: 0.25}):
        wanted, result = expected(proto, {"x": given}), vm.run(given).numpy()
        assert (result.dtype, result.tolist()) == (wanted.dtype, wanted.tolist())


def test_a_map_of_texts_is_cast_to_a_row() -> None:
    # onnxruntime's interface in Python takes no maps of texts; this is what the operator's definition says.
    given = {4: "2.7", 1: "10"}
    numbers_of = with_map("CastMap", "int64", "string", "float32")
    assert machine(numbers_of).run(given).numpy().tolist() == [[10.0, np.float32(2.7)]]
    places = with_map("CastMap", "int64", "string", "int64", cast_to="TO_INT64", map_form="SPARSE", max_map=3)
    assert machine(places).run({1: "10"}).numpy().tolist() == [[0, 10, 0]]
    texts = with_map("CastMap", "int64", "string", "string", cast_to="TO_STRING")
    assert machine(texts).run(given).numpy().tolist() == [["10", "2.7"]]


def test_a_negative_place_is_an_error() -> None:
    vm = machine(with_map("CastMap", "int64", "float32", "float32", map_form="SPARSE", max_map=3))
    with pytest.raises(VMError, match="a key is negative"):
        vm.run({-1: 1.0})


@pytest.mark.parametrize("vocabulary", [["a", "b", "c"], ["c", "a", "b", "a"]])
def test_a_dict_becomes_a_row_of_the_vocabulary(vocabulary: list[str]) -> None:
    proto = with_map("DictVectorizer", "string", "float32", "float32", string_vocabulary=vocabulary)
    vm = machine(proto)
    for given in ({"a": 1.5, "unknown": 3.0, "c": 2}, {"b": 1.0}):
        assert vm.run(given).numpy().tolist() == expected(proto, {"x": given}).tolist()
    assert vm.run({}).numpy().tolist() == [[0.0] * len(vocabulary)]


@pytest.mark.parametrize(
    ("key", "value", "given", "row"),
    [
        ("string", "int64", {"b": 2}, [0, 2]),
        ("string", "float64", {"a": 0.5}, [0.5, 0.0]),
        ("int64", "float32", {7: 2.5, 6: 1.0}, [0.0, 2.5]),
        ("int64", "string", {5: "q"}, ["q", ""]),
    ],
)
def test_maps_of_every_kind_become_rows(key: str, value: str, given: Any, row: Any) -> None:
    words: dict[str, Any] = (
        {"string_vocabulary": ["a", "b"]} if key == "string" else {"int64_vocabulary": [5, 7]}
    )  # fmt: skip
    proto = with_map("DictVectorizer", key, value, value, **words)
    assert machine(proto).run(given).numpy().tolist() == [row]


def test_maps_and_lists_of_maps_pass_through() -> None:
    one = helper.make_value_info("x", map_type("string", "int64"))
    many = helper.make_value_info("xs", helper.make_sequence_type_proto(map_type("int64", "float32")))
    graph = helper.make_graph([], "g", [one, many], [many, one])
    vm = machine(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    given: list[Any] = [{"b": 1, "a": 2}, [{3: 0.5}, {}, {1: 2.0, 0: 4.0}]]
    assert list(vm.run(*given)) == given[::-1]
    vm.set_input("main", *given)
    assert list(vm.run()) == given[::-1]


@pytest.mark.parametrize(
    ("proto", "said"),
    [
        (zipped([0, 1], ["n", 3]), "there are 2 labels for 3 columns"),
        (zipped([0, 1], ["n", 1, 2]), "must be a vector or a matrix of float32"),
        (with_map("CastMap", "string", "float32", "float32"), "keys of the map must be int64, not string"),
        (with_map("CastMap", "int64", "float32", "float32", cast_to="TO_BOOL"), "cast_to is 'TO_BOOL'"),
        (with_map("CastMap", "int64", "float32", "float32", map_form="SPARSE", max_map=0), "max_map is 0"),
        (
            with_map("DictVectorizer", "string", "float32", "float32", int64_vocabulary=[1]),
            "the vocabulary is of int64, the map of string",
        ),
    ],
)
def test_what_does_not_fit_is_refused(proto: onnx.ModelProto, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        vmkit.compile(proto, target="llvm")


def test_what_is_no_map_is_refused() -> None:
    vm = machine(with_map("DictVectorizer", "string", "float32", "float32", string_vocabulary=["a"]))
    with pytest.raises(InputError, match=r"x: a list, expected dict\[string, float32\]"):
        vm.run([{"a": 1.0}])
    with pytest.raises(InputError, match="its keys: 3 is no string"):
        vm.run({3: 1.0})
    wide = machine(zipped(["b", "a", "c"], ["n", "columns"]))
    with pytest.raises(VMError, match="has not the 3 columns of its labels"):
        wide.run(numbers(1, 2))
