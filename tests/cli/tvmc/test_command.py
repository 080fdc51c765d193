"""``vmkit tvmc``: what its commands write, print and refuse, and their exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from vmkit.cli import main
from vmkit.cli.tvmc import TVMCPackage
from vmkit.cli.tvmc.main import SCRIPT, parsers
from vmkit.cli.tvmc.option_states import MLONMCU, STATES, rows
from vmkit.tophub import Records

TIMES = re.compile(r"mean \(ms\) +median \(ms\) +max \(ms\) +min \(ms\) +std \(ms\) *\n( *\d+\.\d+){5}")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return ``y = relu(x @ w)`` for ``x: float32[n, 8]``; the weight is among the inputs, as old files have it."""
    weight = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8]),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [8, 16]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 16])]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, [onnx.numpy_helper.from_array(weight, "w")])
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def weight_of(model: Path) -> np.ndarray:
    return np.asarray(onnx.numpy_helper.to_array(onnx.load(model).graph.initializer[0]))


@pytest.fixture(scope="module")
def package(model: Path) -> Path:
    path = model.with_suffix(".tar")
    words = ["compile", str(model), "--target", "llvm", "--input-shapes", "x:[2,8] w:[8,16]", "-o", str(path)]
    assert main(["tvmc", *words, "--dump-code", "relay,ll", "--disabled-pass", "AlterOpLayout"]) == 0
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["tvmc", *map(str, words)]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def test_compiling_writes_a_package_and_the_dumps_beside_it(package: Path) -> None:
    with tarfile.open(package) as archive:
        assert archive.getnames() == ["package.json", "model.vmx"]
        description = json.load(archive.extractfile("package.json"))  # type: ignore[arg-type]
    assert description["type"] == "vm" and description["signature"].startswith("main(x: float32[2, 8])")
    assert "nn.dense" in Path(f"{package}.relay").read_text() and "define" in Path(f"{package}.ll").read_text()


def test_running_prints_times_and_the_largest_and_writes_outputs(
    model: Path, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(1).standard_normal((2, 8)).astype("float32")
    np.savez(tmp_path / "in.npz", x=x)
    words = ["-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--print-time", "--print-top", 2, "--repeat", 2]
    text = said(capsys, "run", package, *words, "--end-to-end", "--profile")
    expected = np.maximum(x @ weight_of(model), 0)
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["output_0"], expected, rtol=1e-5, atol=1e-5)
    assert TIMES.search(text)
    assert f"[[{float(expected[0].argmax())}"[:3] in text.replace(" ", "")
    header = next(line for line in text.splitlines() if line.startswith("Name"))
    columns = ["Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes"]
    assert re.split(r" {2,}", header)[: len(columns)] == columns
    assert "\n----------\nSum" in text and "\nTotal" in text


def test_a_batch_may_be_of_any_size(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "any.tar"
    words = ["--target", "llvm", "--input-shapes", "x:[batch,8]", "--executor", "graph", "--print-pass-times"]
    text = said(capsys, "compile", model, *words, "-o", path)
    assert "Compilation time breakdown by pass:" in text and "us]" in text
    for size in (1, 5):
        said(capsys, "run", path, "--input-shapes", f"batch:{size}", "-o", tmp_path / "o.npz", "--fill-mode", "ones")
        expected = np.maximum(np.ones((size, 8), "float32") @ weight_of(model), 0)
        np.testing.assert_allclose(np.load(tmp_path / "o.npz")["output_0"], expected, rtol=1e-5, atol=1e-5)
    assert "the sizes batch of" in said(capsys, "run", path, code=4)


def test_tuned_records_are_taken_when_compiling(
    model: Path, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records, shapes = tmp_path / "records.json", ["--input-shapes", "x:[2,8]"]
    assert "Available Tasks for tuning:\n  0. " in said(
        capsys, "tune", model, "--target", "native", *shapes, "-o", records, "--tasks", "list"
    )
    limits = ["--trials", 2, "--number", 1, "--min-repeat-ms", 1, "--early-stopping", 1, "--model-format", "onnx"]
    said(capsys, "tune", model, "--target", "native", *shapes, "-o", records, *limits)
    assert len(Records.read(records)) == 1
    said(capsys, "compile", model, "--target", "native", "--tuning-records", records, "-o", tmp_path / "m.tar")


def test_weights_come_out_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, weight = tmp_path / "model.txt", np.arange(128, dtype="float32").reshape(16, 8)
    tensors = "%x: Tensor[(2, 8), float32], %w: Tensor[(16, 8), float32]"
    model.write_text(f'#[version = "0.0.5"]\ndef @main({tensors}) {{ nn.dense(%x, %w) }}')
    np.savez(tmp_path / "weights.npz", w=weight)
    words = ["--model-format", "relay", "--relay-params", tmp_path / "weights.npz", "-o", tmp_path / "m.tar"]
    said(capsys, "compile", model, "--target", "llvm", *words)
    said(capsys, "run", tmp_path / "m.tar", "--fill-mode", "ones", "-o", tmp_path / "o.npz")
    expected = np.ones((2, 8), "float32") @ weight.T
    np.testing.assert_allclose(np.load(tmp_path / "o.npz")["output_0"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--target", "lvm"], "The last target needs to be a TVM target, not 'lvm'; did you mean 'llvm'"),
        (["--target", "llvm -mcpu=znver44"], "did you mean 'znver4'"),
        ([], "there is no target: --target native"),
        (["--target", "llvm", "--desired-layout", "NHWX"], "there is no layout 'NHWX' of data; did you mean 'NHWC'"),
        (["--target", "llvm", "--disabled-pass", "FuseOp"], "there is no pass 'FuseOp'; did you mean 'FuseOps'"),
        (["--target", "llvm", "--pass-config", "tir.disable_vectorise=1"], "did you mean"),
        (["--target", "llvm", "--input-shapes", "z:[1]"], "z"),
        (["--target", "llvm", "--input-shapes", "w:[8,8]"], "'w' is a weight of shape [8, 16], not [8, 8]"),
        (
            ["--target", "llvm", "--tuning-records", "nosuch.json"],
            "--tuning-records nosuch.json: there is no such file",
        ),
        (["--target", "llvm", "--workspace-pools", "sram"], "--workspace-pools: memory is planned by vmkit"),
        (["--target", "llvm", "--runtime", "crt"], "C without any is written by -f mlf"),
        (["--target", "llvm", "--executor", "aot", "--executor-aot-interface-api", "c"], "C is written by -f mlf"),
        (["--target", "llvm", "--cross-compiler-options=-O2"], "the command of --cross-compiler, which is not given"),
        (["--target", "llvm", "--cross-compiler", "nosuch-gcc"], "linker 'nosuch-gcc' cannot be found"),
        (["--target", "llvm", "--target-c-mcpu", "x"], "Passed --target-c-mcpu but did not specify c target"),
        (["--target", "llvm", "--config", "nosuch"], "--config 'nosuch': there is no such file"),
        (["--target", "npu, llvm"], "Composite target npu is not defined in TVMC"),
        (["--target", "llvm", "--dump-code", "wasm"], "--dump-code: there is no 'wasm'"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exits_with_4(
    words: list[str], error: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.tar"
    text = said(capsys, "compile", model, "-o", path, *words, code=4)
    assert error in text and text.startswith("Error: ") and text.count("\n") == 1
    assert not path.exists()


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (
            ["compile", "nosuch.onnx", "--target", "c"],
            4,
            "Input file 'nosuch.onnx' doesn't exist, is a",
        ),
        (["tune", "tests", "--target", "llvm", "-o", "r.json"], 4, "Input file 'tests' doesn't exist"),
        (["run", "nosuch.tar"], 4, "nosuch.tar: there is no such file"),
        (["run", "README.md"], 4, "README.md: not a package"),
        (["run", "nosuch.tar", "--rpc-key", "board"], 4, "but --rpc-tracker is not given"),
        (["run", "nosuch.tar", "--list-options"], 4, "microTVM's projects are gone from TVM"),
        (["micro", "create", "--force"], 4, "microTVM's projects are gone from TVM"),
        ([], 1, "usage: vmkit tvmc"),
    ],
)
def test_exit_codes(words: list[str], code: int, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error in said(capsys, *words, code=code)


def test_an_archive_of_c_is_written_and_not_run(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.tar"
    words = ["compile", model, "-f", "mlf", "--target", "c", "--executor", "aot", "--runtime", "crt", "-o", path]
    more = ["--executor-aot-unpacked-api", 1, "--executor-aot-interface-api", "c", "--module-name", "small"]
    assert "input x" in said(capsys, *words, code=4)  # whose batch is of any size
    more += ["--dump-code", "c"]
    said(capsys, *words, *more, "--input-shapes", "x:[1,8]", "--executor-aot-workspace-byte-alignment", 16)
    assert "int32_t tvmgen_small_run(struct" in (tmp_path / "m.tar.c").read_text()
    with tarfile.open(path) as archive:
        header = archive.extractfile("./codegen/host/include/tvmgen_small.h")
        assert header is not None and b"tvmgen_small_run(" in header.read()
    package = TVMCPackage(str(path), project_dir="project")
    assert (package.type, package.lib_path, package.graph, package.executor_type) == ("mlf", None, None, "aot")
    cross = said(capsys, *words, "--input-shapes", "x:[1,8]", "--cross-compiler", "gcc", code=4)
    assert "Specifying the MLF output and a cross compiler is not supported." in cross
    assert "saved using the Model Library Format (MLF)" in said(capsys, "run", path, code=4)


def test_a_package_runs_under_the_other_commands_too(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(package)]) == 0
    assert capsys.readouterr().out == "y: float32[2, 16]\n"


def test_the_script_is_tvmc_wherever_it_is_called(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(SCRIPT), "--script"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == SCRIPT


def test_help_and_wrong_arguments_do_not_wait_for_tvm() -> None:
    program = """
import contextlib, sys
from vmkit.cli import main
for words in (["tvmc", "compile", "--help"], ["tvmc", "run"], ["tvmc", "tune", "m.onnx", "--trials", "none"]):
    with contextlib.suppress(SystemExit):
        main(words)
print(sorted({"numpy", "onnx", "tvm", "tvm_ffi"} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_the_table_has_every_option_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    commands = parsers()
    for command, states in STATES.items():
        if command == "micro":
            continue
        known = {word.removeprefix("--") for action in commands[command]._actions for word in action.option_strings}
        assert set(states) <= known
    listed = [(of, option) for of, option, _ in rows(commands)]
    assert len(set(listed)) == len(listed)
    assert {("tvmc compile", "--opt-level"), ("tvmc run", "--print-time"), ("tvmc tune", "--tasks")} <= set(listed)
    printed = json.loads(said(capsys, "--options", "--json"))
    assert [(row["of"], row["option"]) for row in printed] == listed
    assert {row["state"] for row in printed} == {"works", "changed", "no effect", "refused"}
    assert len(said(capsys, "--options").splitlines()) == len(listed) + 1
    assert {"opt_level", "tvmc_custom_script"} <= set(MLONMCU)


@pytest.mark.parametrize(
    ("command", "option"),
    [(c, o) for c in ("compile", "tune") for o, state in STATES[c].items() if state.kind == "refused"],
)
def test_what_the_table_says_is_refused_is(
    command: str, option: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    action = next(a for a in parsers()[command]._actions if f"--{option}" in a.option_strings)
    words = [
        command,
        model,
        "--target",
        "llvm",
        "-o",
        tmp_path / "out",
        f"--{option}",
        *(["1"] if action.nargs is None else []),
    ]
    assert STATES[command][option].note in said(capsys, *words, code=4)


def test_what_has_no_effect_is_said_once(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compile", model, "--target", "lvm", "-o", tmp_path / "m.tar", "--executor", "graph"]
    said(capsys, *words, "--executor-graph-link-params", "1", code=4)
    assert [r.getMessage() for r in caplog.records if "no effect" in r.getMessage()] == [
        "--executor-graph-link-params: no effect; weights are always inside"
    ]
