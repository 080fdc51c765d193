"""Models as files of Relay's: what is read back computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vmkit
from vmkit import relay
from vmkit.compiler.models import to_module
from vmkit.relay.ir.structural import structural_equal


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [onnx.numpy_helper.from_array(np.arange(6, dtype="float32").reshape(3, 2) / 7, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", ["m.relay", "m.txt", "m.json", "m.json.gz"])
def test_what_is_read_back_is_the_program(model: onnx.ModelProto, tmp_path: Path, name: str) -> None:
    written = vmkit.convert(model, tmp_path / name)
    again, params = to_module(tmp_path / name)
    assert not params
    assert structural_equal(relay.transform.InferType()(again)["main"], written["main"])


def test_the_converted_program_computes_the_same(model: onnx.ModelProto, tmp_path: Path) -> None:
    vmkit.convert(model, tmp_path / "m.json", shapes={"x": ("rows", 3)})
    x = np.random.default_rng(0).standard_normal((5, 3)).astype("float32")
    results = [
        vmkit.VirtualMachine(vmkit.compile(each), vmkit.device("cpu")).run(x).numpy()
        for each in (model, tmp_path / "m.json")
    ]
    np.testing.assert_array_equal(*results)


def test_an_unknown_form_is_refused_before_the_model_is_read(tmp_path: Path) -> None:
    with pytest.raises(vmkit.errors.ModelError, match=r"'.onnx' is not one of .relay, .txt, .json, .json.gz"):
        vmkit.convert(tmp_path / "missing.onnx", tmp_path / "m.onnx")
