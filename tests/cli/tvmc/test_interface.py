"""tvmc from Python: models, packages, results, and what makes inputs up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import rpc
from tvm.runtime.module import BenchmarkResult

from vmkit.cli import tvmc
from vmkit.cli.tvmc import TVMCException, TVMCImportError, TVMCModel, TVMCPackage, TVMCResult
from vmkit.cli.tvmc.offloads import dump_operation_offloads
from vmkit.cli.tvmc.runner import generate_tensor_data, get_input_info, get_top_results, make_inputs_dict
from vmkit.relay import parse

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(3, 4), float32]) { nn.relu(nn.dense(%x, %w)) }
"""
W = np.arange(12, dtype="float32").reshape(3, 4) - 6


@pytest.fixture(scope="module")
def model() -> TVMCModel:
    return TVMCModel(parse(TEXT), {"w": W})


@pytest.fixture(scope="module")
def package(model: TVMCModel) -> TVMCPackage:
    return tvmc.compile(model, target="llvm", dump_code=["relay", "tir1"], mod_name="small")


def test_a_package_has_a_graph_and_one_for_the_machine_alone_has_none(model: TVMCModel, package: TVMCPackage) -> None:
    assert (package.type, package.executor_type, type(package.graph), type(package.params)) == (
        "classic",
        "graph",
        str,
        bytearray,
    )
    assert package.package_path == model.default_package_path() and package.facts["module"] == "small"
    assert isinstance(package.lib_path, str) and Path(package.lib_path).name == package.lib_name == "model.vmx"
    assert "T.prim_func" in Path(f"{package.package_path}.tir1").read_text()
    with pytest.raises(TVMCException, match=r"Setting 'project_dir' is only allowed when importing a MLF.!"):
        TVMCPackage(package.package_path, project_dir="project")


def test_a_run_gives_outputs_and_times(package: TVMCPackage, tmp_path: Path) -> None:
    x = np.ones((2, 4), "float32")
    result = tvmc.run(package, device="cpu", inputs={"x": x}, repeat=2, number=1)
    np.testing.assert_allclose(result.get_output("output_0"), np.maximum(x @ W.T, 0))
    assert len(result.times.results) == 2 and "std (ms)" in result.format_times()
    assert str(result).endswith("Output Names:\n ['output_0']")
    result.save(str(tmp_path / "o.npz"))
    assert np.load(tmp_path / "o.npz").files == ["output_0"]
    assert get_input_info(package) == ({"x": (2, 4)}, {"x": "float32"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"inputs": {"y": np.ones(1)}}, "the input tensor 'y' is not in the graph. Expected inputs: x"),
        ({"fill_mode": "twos"}, "unknown fill-mode: twos"),
        ({"device": "cpus"}, "there is no device 'cpus'; did you mean 'cpu'"),
        ({"device": "micro"}, "microTVM's projects are gone"),
        ({"hostname": "127.0.0.1", "port": 1}, "--rpc-tracker 127.0.0.1:1"),
        ({"hostname": "127.0.0.1", "profile": True}, "cannot be profiled from here"),
    ],
)
def test_runs_that_cannot_be(package: TVMCPackage, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(TVMCException, match=said):
        tvmc.run(package, **{"device": "cpu", **arguments})


def test_a_model_has_to_be_compiled_before_it_runs(model: TVMCModel) -> None:
    with pytest.raises(TVMCException, match=r"not TVMCModel. This model doesn't seem to have been compiled yet"):
        tvmc.run(model, device="cpu")  # type: ignore[arg-type]


def test_a_package_runs_on_another_machine(package: TVMCPackage) -> None:
    server = rpc.Server("127.0.0.1")
    try:
        x = np.ones((2, 4), "float32")
        result = tvmc.run(package, "cpu", hostname=server.host, port=server.port, inputs={"x": x}, repeat=1, number=1)
    finally:
        server.terminate()
    np.testing.assert_allclose(result.outputs["output_0"], np.maximum(x @ W.T, 0))


def test_a_model_is_kept_in_a_file_with_its_package(model: TVMCModel, package: TVMCPackage, tmp_path: Path) -> None:
    path = str(tmp_path / "model.tar")
    model.save(path)
    again = TVMCModel(model_path=path)
    assert str(again.mod) == str(model.mod) and again.params.keys() == {"w"}
    np.testing.assert_array_equal(again.params["w"].numpy(), W)
    assert TVMCPackage(again.default_package_path()).graph == package.graph
    with pytest.raises(TVMCException, match=r"not a model that TVMCModel.save wrote"):
        TVMCModel(model_path=__file__)


def test_records_are_beside_the_model(model: TVMCModel) -> None:
    path = tvmc.tune(model, target="native", trials=1, number=1, min_repeat_ms=1)
    assert path == model.default_tuning_records_path() and Path(path).exists()
    with pytest.raises(TVMCException, match="there is no tuner 'xg'"):
        tvmc.tune(model, target="native", tuner="xg")


def test_models_are_read_by_their_format(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_text(TEXT)
    assert tvmc.load(str(path), model_format="relay", shape_dict={"x": [2, 4]}).params == {}
    with pytest.raises(TVMCException, match=r"'x' has the shape \[2, 4\] in the file"):
        tvmc.load(str(path), model_format="relay", shape_dict={"x": [3, 4]})
    with pytest.raises(TVMCException, match="cannot infer the model format of"):
        tvmc.load(str(path))
    with pytest.raises(TVMCException, match="unrecognized frontend 'onx'; did you mean 'onnx'"):
        tvmc.load(str(path), model_format="onx")
    with pytest.raises(FileNotFoundError, match=r"did you mean 'model.txt'"):
        tvmc.load(str(tmp_path / "modl.txt"), model_format="onnx")
    with pytest.raises(TVMCException, match="not an ONNX model"):
        tvmc.load(str(path), model_format="onnx")
    with pytest.raises(TVMCImportError, match="export the model to ONNX"):
        tvmc.load("model.h5")


def test_inputs_are_made_up() -> None:
    made = make_inputs_dict({"a": (2, 3), "b": (4,)}, {"a": "uint8", "b": "float32"}, {"b": np.zeros(4)}, "ones")
    assert made["a"].dtype == "uint8" and made["a"].sum() == 6 and made["b"].sum() == 0
    assert generate_tensor_data((50,), "int8", "random").min() >= 0
    assert generate_tensor_data((50,), "float32", "random").min() < 0
    with pytest.raises(TVMCException, match="unknown fill-mode"):
        generate_tensor_data((2,), "float32", "whatever")


def test_the_largest_are_in_the_first_row() -> None:
    outputs = {"output_0": np.array([[1, 4, 3, 2], [9, 9, 9, 9]])}
    result = TVMCResult(outputs, BenchmarkResult([0.5, 1.5]))
    assert get_top_results(result, 3).tolist() == [[1, 2, 3], [4, 3, 2]]
    assert "1000.0000" in result.format_times()


def test_a_table_says_what_a_code_generator_gets(model: TVMCModel, tmp_path: Path) -> None:
    table = tmp_path / "table.txt"
    mod = tvmc.composite_target.get_codegen_by_target("ccompiler")["pass_pipeline"](
        parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 4), float32]) { nn.softmax(add(%x, %x)) }')
    )
    dump_operation_offloads(mod, str(table))
    lines = table.read_text().splitlines()
    assert lines[:4] == [
        "Total number of operators and distribution by targets",
        "Total: 2",
        "ccompiler: 1",
        "generic: 1",
    ]
    assert [line.split()[0] for line in lines[5:] if "<-" in line] == ["ccompiler", "generic"]
