"""``vmkit.check`` and ``vmkit check``: what a model takes, what is dynamic in it, what is not supported."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import vmkit
from tests.frontend.onnx.programs import array, graph, model, node
from tests.places import TOP
from vmkit.cli import ExitCode, main
from vmkit.errors import InputError, ModelError
from vmkit.frontend.onnx.report import Report

X = {"x": (["batch", "steps", 4], "float32"), "lengths": (["batch"], "int64")}
NODES = [
    node("Shape", "x", "dims"),
    node("Reshape", "x dims", "same"),
    node("NonZero", "same", "places", name="which"),
    node("Transpose", "places", "rows"),
    node("GatherND", "same rows", "y"),
    node("Expand", "lengths widths", "z", name="spread"),
]


def report(**options: Any) -> Report:
    proto = model(NODES, X | {"widths": ([2], "int64")}, "y z")
    return vmkit.check(proto, **options)


def test_sizes_that_come_from_data_are_named_where_they_begin() -> None:
    found = report()
    assert found.is_supported
    assert [(d.node, d.op_type, d.steered_by) for d in found.data_dependent] == [
        ("which", "NonZero", ("same",)),
        ("spread", "Expand", ("lengths", "widths")),
    ]
    assert found.data_dependent[0].outputs == ("Tensor[(3, ?), int64]",)
    assert "'which' (NonZero) gives Tensor[(3, ?), int64], by the values of 'same'" in str(found)


def test_the_first_input_that_binds_a_dimension() -> None:
    assert report().bound_by == {"batch": "x[0]", "steps": "x[1]"}
    assert report(shapes={"x": ["n", 7, 4]}).bound_by == {"n": "x[0]"}


def test_nodes_of_subgraphs_are_counted() -> None:
    branch = onnx.helper.make_graph([node("Neg", "x", "a")], "b", [], [onnx.ValueInfoProto(name="a")])
    proto = model([node("If", "c", "y", then_branch=branch, else_branch=branch)], X | {"c": ([], "bool")}, "y")
    assert vmkit.check(proto).operators == {"If": 1, "Neg": 2}


def test_what_is_not_supported_is_reported_and_not_raised() -> None:
    nodes = [onnx.helper.make_node("Alpha", ["x"], ["y"], name="first", domain="own")]
    proto = model(nodes, X, "y")
    proto.opset_import.append(onnx.helper.make_opsetid("own", 3))
    found = vmkit.check(proto)
    assert not found.is_supported
    assert found.unsupported == ("own.Alpha (opset 3): 1 node, 'first'",)
    assert "operators that are not supported: 1\n  own.Alpha" in str(found)


def test_why_a_model_cannot_be_imported() -> None:
    found = vmkit.check(model([node("MatMul", "x w", "y")], X, "y", {"w": array(5, 3)}))
    assert not found.is_supported
    assert found.problem is not None
    assert "cannot be imported: node 'y' (MatMul, opset 17) of (Tensor[(batch, steps, 4)" in str(found)


def test_what_is_no_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        vmkit.check(tmp_path / "none.onnx")
    with pytest.raises(InputError, match="'z'"):
        report(shapes={"z": [1]})


@pytest.mark.parametrize("suffix", [".pt2", ".mlir", ".relay"])
def test_what_is_compiled_but_not_checked(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    path.touch()
    with pytest.raises(ModelError, match=r"vmkit\.compile takes this one"):
        vmkit.check(path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model([node("Relu", "x", "y")], {"x": ([1, 4], "float32")}, "y").SerializeToString())
    assert main(["check", str(path), "--shape", "x:n,4"]) == ExitCode.OK
    assert capsys.readouterr().out == (
        "m.onnx: 1 nodes, opset ai.onnx 17\n"
        "supported: main(x: float32[n, 4]) -> (y: float32[n, 4])\n"
        "  n is bound by x[0]\n"
        "no size comes from data\n"
    )
    assert main(["check", str(path), "--json"]) == ExitCode.OK
    made = json.loads(capsys.readouterr().out)
    assert made["is_supported"] and made["operators"] == {"Relu": 1} and made["bound_by"] == {}
    path.write_bytes(
        model([node("Add", "x w", "y")], {"x": ([1, 4], "float32")}, "y", {"w": np.ones(3)}).SerializeToString()
    )
    assert main(["check", str(path)]) == ExitCode.MODEL


def test_a_shape_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").touch()
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path / "m.onnx"), "--shape", "n,4"])
    assert "expected NAME:[SIZES]\n  n,4\n  ^^^" in capsys.readouterr().err


def test_products_of_stacks_of_matrices_are_reported_as_supported() -> None:
    made = model([node("MatMul", "a b", "y")], {n: (("n", 3, 4, 4), "float32") for n in "ab"}, "y")
    assert vmkit.check(made).problem is None


WIDE = {"x": (["n", 256], "float32")}
QUANTIZED = array(256, 256, dtype="int8")
LOOP = graph(
    [node("Identity", "on", "again"), node("MatMul", "before w", "after")],
    {"i": ([], "int64"), "on": ([], "bool"), "before": (["n", 256], "float32")},
    "again after",
)
LARGE_WEIGHTS = {
    "product": ([node("MatMul", "x w", "y")], {"w": array(256, 256)}),
    "quantized product": (
        [node("DequantizeLinear", "w s", "d", axis=1), node("Gemm", "x d", "y")],
        {"w": QUANTIZED, "s": np.full(256, 0.1, "float32")},
    ),
    "layer that goes back": (
        [node("Unsqueeze", "x one", "row"), node("LSTM", "row w r", "y", hidden_size=64)],
        {"w": array(1, 256, 256), "r": array(1, 256, 64), "one": np.array([1])},
    ),
    "places read out of a table": ([node("Gather", "w x", "y")], {"w": array(1000, 64)}),
    "loop": (
        [node("Loop", "times _ x", "y", body=LOOP)],
        {"w": array(256, 256), "times": np.array(3)},
    ),
}


@pytest.mark.parametrize("name", LARGE_WEIGHTS)
def test_what_is_said_of_large_weights_is_what_compilation_makes_of_them(name: str) -> None:
    nodes, weights = LARGE_WEIGHTS[name]
    inputs = {"x": (["n", 256], "int64")} if name.startswith("places") else WIDE
    proto = model(nodes, inputs, "y", weights)
    found = vmkit.check(proto)
    assert found.problem is None
    assert str(found.signature) == str(vmkit.compile(proto).signature)


def test_weights_are_left_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    weights = {name: array(1024, 1024, seed=seed) for seed, name in enumerate("vw")}
    nodes = [node("MatMul", "x v", "h"), node("MatMul", "h w", "y")]
    onnx.save(model(nodes, {"x": (["n", "m", 1024], "float32")}, "y", weights), path)
    vmkit.check(path)  # what is imported once
    tracemalloc.start()
    try:
        assert vmkit.check(path).is_supported
        assert tracemalloc.get_traced_memory()[1] < weights["v"].nbytes // 2
    finally:
        tracemalloc.stop()


def test_sizes_computed_from_a_large_table_are_known() -> None:
    nodes = [node("Neg", "shape", "minus"), node("Neg", "minus", "plus")]
    nodes += [node("ReduceProd", "plus", "count", keepdims=1), node("Reshape", "x count", "y")]
    proto = model(nodes, {"x": ([1, 1], "float32")}, "y", {"shape": np.ones(16384, "int64")})
    assert str(vmkit.check(proto).signature) == "main(x: float32[1, 1]) -> (y: float32[1])"


_NO_PASSES = """
import sys
import vmkit
assert vmkit.check(sys.argv[1]).is_supported
imported = {name for name in sys.modules if name.startswith("vmkit.relay.")}
late = {"data_dep_optimization", "dataflow_pattern", "qnn", "quantize", "transform"}
assert not {name.split(".")[2] for name in imported} & late, imported
from vmkit import relay
assert relay.transform.InferType and relay.qnn.op.quantize and relay.quantize.quantize and relay.dataflow_pattern.is_op
"""


def test_no_passes_are_imported_to_look_at_a_model() -> None:
    """They are a third of the modules, and come when they are asked for."""
    command = [sys.executable, "-c", _NO_PASSES, str(TOP / "vmkit" / "data" / "mnist.onnx")]
    subprocess.run(command, check=True, cwd=TOP)
