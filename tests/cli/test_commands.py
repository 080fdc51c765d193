"""The sub-commands on a small model: what they write, print and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from pytest_benchmark.cli import main as compare

import vmkit
from tests.cli.commands import printed, refused, save
from vmkit import verification
from vmkit.cli import ExitCode, main
from vmkit.executable.overview import overview


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weight = np.random.default_rng(0).standard_normal((8, 1, 3, 3)).astype("float32")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"], "relu")]
    return save(tmp_path_factory.mktemp("model") / "small.onnx", *nodes, w=weight)


@pytest.fixture(scope="module")
def executable(model: Path) -> Path:
    path = model.with_suffix(".vmx")
    assert main(["compile", str(model), "-o", str(path)]) == ExitCode.OK
    return path


def reference(model: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def test_compile_writes_an_executable_and_says_what_it_takes(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.vmx"
    facts = json.loads(printed(capsys, "compile", model, "-o", path, "--input-shapes", "x:[2,1,6,6]", "--json"))
    assert facts["output"] == str(path)
    assert facts["bytes"] == path.stat().st_size
    assert facts["signature"] == "main(x: float32[2, 1, 6, 6]) -> (y: float32[2, 8, 4, 4])"
    x = np.ones((2, 1, 6, 6), "float32")
    result = vmkit.VirtualMachine(vmkit.load(path), "cpu").run(x).numpy()
    np.testing.assert_allclose(result, reference(model, x), rtol=1e-4, atol=1e-5)


def test_dumps_show_the_program_at_each_stage(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.vmx"
    formats = "relay,relax,tir,ll,asm,bytecode,tir:StorageRewrite"
    text = printed(capsys, "compile", model, "-o", path, "--dump-code", formats, "--target", "llvm")
    contents = {each: (tmp_path / f"m.vmx.{each.replace(':', '.')}").read_text() for each in formats.split(",")}
    assert all(f"m.vmx.{each.replace(':', '.')}" in text for each in formats.split(","))
    assert "nn.conv2d(%x" in contents["relay"]
    assert "R.call_tir" in contents["relax"]
    assert "T.prim_func" in contents["tir"]
    assert "T.prim_func" in contents["tir:StorageRewrite"] != contents["tir"]
    assert "define" in contents["ll"]
    assert ".globl" in contents["asm"]
    assert "ret %" in contents["bytecode"]


def test_layouts_and_precision_change_what_is_compiled(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.vmx"
    words = ["compile", model, "-o", path, "--dump-code", "relay", "-O", "0"]
    printed(capsys, *words, "--desired-layout", "NHWC:HWIO", "--desired-layout-ops", "nn.conv2d")
    assert 'data_layout="NHWC", kernel_layout="HWIO"' in (tmp_path / "m.vmx.relay").read_text()
    x = np.random.default_rng(1).standard_normal((3, 1, 6, 6)).astype("float32")
    result = vmkit.VirtualMachine(vmkit.load(path), "cpu").run(x).numpy()
    np.testing.assert_allclose(result, reference(model, x), rtol=1e-4, atol=1e-5)
    printed(capsys, *words, "--mixed-precision", "--mixed-precision-acc-type", "float32")
    assert 'out_dtype="float32"' in (tmp_path / "m.vmx.relay").read_text()
    result = vmkit.VirtualMachine(vmkit.load(path), "cpu").run(x).numpy()
    np.testing.assert_allclose(result, reference(model, x), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "llvm -mcpu=skylake-avx51"], "did you mean 'skylake-avx512'"),
        (["--disabled-pass", "FuseOp"], "there is no pass 'FuseOp'; did you mean 'FuseOps'"),
        (["--pass-config", "tir.disable_vectorise=1"], "did you mean 'tirx.disable_vectorize'"),
        (["--desired-layout", "NHWX"], "there is no layout 'NHWX' of data; did you mean 'NHWC'"),
        (["--desired-layout-ops", "nn.conv2d"], "--desired-layout gives no layout"),
        (["--mixed-precision", "--mixed-precision-ops", "nn.conv"], "there is no operator 'nn.conv'"),
        (["--mixed-precision-ops", "nn.conv2d"], "--mixed-precision is not given"),
        (["--dump-code", "wasm"], "--dump-code: there is no 'wasm'; there are relay, relax, tir"),
        (["--dump-code", "tir:StorageRewrit"], "there is no pass 'StorageRewrit'"),
        (["--cross-compiler-options=-O2"], "the command of --cross-compiler, which is not given"),
        (["--input-shapes", "x:[1,1,6,6]", "--input-shapes", "x:[2,1,6,6]"], "'x' is given twice"),
        (["--input-shapes", "z:[1]"], "z"),
        (["--params", "nosuch.npz"], "nosuch.npz"),
        (["--tuning-records", "nosuch.json"], "nosuch.json"),
    ],
)
def test_compile_refuses_in_words(
    words: list[str], said: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.vmx"
    assert said in refused(capsys, "compile", model, "-o", path, *words)
    assert not path.exists()


def test_run_gives_what_the_model_gives(
    model: Path, executable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(2).standard_normal((2, 1, 6, 6)).astype("float32")
    np.savez(tmp_path / "in.npz", x=x)
    words = ["run", executable, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--print-top", "2"]
    text = printed(capsys, *words)
    expected = reference(model, x)
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_allclose(outputs["y"], expected, rtol=1e-4, atol=1e-5)
    assert text.startswith("y: float32[2, 8, 4, 4]\n")
    assert int(text.splitlines()[2].split()[0]) == expected.argmax()


def test_run_fills_in_and_measures(executable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", executable, "--input-shapes", "x:[3,1,6,6]", "--print-time", "--repeat", "2", "--fill-mode", "ones"]
    assert "mean (ms)" in printed(capsys, *words)
    facts = json.loads(printed(capsys, *words, "--end-to-end", "--json"))
    assert facts["outputs"] == {"y": {"dtype": "float32", "shape": [3, 8, 4, 4]}}
    assert len(facts["seconds"]["results"]) == 2
    assert facts["seconds"]["min"] > 0


def test_run_refuses_in_words(executable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the sizes n of float32[n, 1, 6, 6] are not known" in refused(capsys, "run", executable)
    said = "there is no input 'z'; the names of inputs are x, those of sizes n"
    assert said in refused(capsys, "run", executable, "--input-shapes", "z:[1]")
    assert "n is the name of a size; expected one number" in refused(
        capsys, "run", executable, "--input-shapes", "n:[1,2]"
    )
    shape = ["--input-shapes", "x:[2,1,6,7]"]
    assert "x: dim 3 is 7, expected 6" in refused(capsys, "run", executable, *shape)
    np.savez(tmp_path / "in.npz", z=np.zeros(1))
    assert "there is no input 'z'" in refused(capsys, "run", executable, "-i", tmp_path / "in.npz")
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    assert "not an .npz file of arrays" in refused(capsys, "run", executable, "-i", tmp_path / "bad.npz")
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object))
    assert "not an .npz file of arrays" in refused(capsys, "run", executable, "-i", tmp_path / "objects.npz")
    assert "there is no such file" in refused(capsys, "run", tmp_path / "nosuch.onnx")


def test_inspect_runs_no_code(executable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "inspect", executable)
    assert "main(x: float32[n, 1, 6, 6]) -> (y: float32[n, 8, 4, 4])" in text
    facts = json.loads(printed(capsys, "inspect", executable, "--json"))
    assert facts["members"]["lib0.so"] > 0
    assert "ret %" in printed(capsys, "inspect", executable, "--view", "bytecode")
    assert printed(capsys, "inspect", executable, "--view", "kernels").splitlines() == facts["kernels"]
    # A library that was mapped would be among these.
    data = Path("/proc/self/maps").read_text(encoding="utf-8") if Path("/proc/self/maps").exists() else ""
    before = data.count("lib0.so")
    overview(executable)
    after = Path("/proc/self/maps").read_text(encoding="utf-8").count("lib0.so") if data else 0
    assert after == before


def test_inspect_shows_a_model(model: Path, executable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "supported: main(x: float32[n, 1, 6, 6])" in printed(capsys, "inspect", model)
    assert "nn.conv2d(%x" in printed(capsys, "inspect", model, "--view", "relay")
    assert "ret %" in printed(capsys, "inspect", model, "--view", "bytecode", "--target", "llvm")
    assert "--view bytecode" in refused(capsys, "inspect", executable, "--view", "relay")


def test_inspect_shows_what_is_compiled(model: Path, executable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "inspect", executable, "--view", "memory")
    assert "at run time" in text and text.splitlines()[-1].endswith("bytes")
    fixed = ["--input-shapes", "x:[2,1,6,6]", "--target", "llvm"]
    sizes = [line.split()[0] for line in printed(capsys, "inspect", model, "--view", "memory", *fixed).splitlines()]
    assert f"{2 * 8 * 4 * 4 * 4:,}" in sizes
    assert "nn.conv2d + nn.relu  1" in printed(capsys, "inspect", executable, "--view", "operators")
    assert json.loads(printed(capsys, "inspect", model, "--view", "operators", "--json")) == {"Conv": 1, "Relu": 1}
    assert any(
        "R.call_tir" in line for line in json.loads(printed(capsys, "inspect", model, "--view", "relax", "--json"))
    )


def test_convert_writes_relay(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "small.relay"
    assert "functions main" in printed(capsys, "convert", model, "-o", text)
    assert "nn.conv2d(%x" in text.read_text()
    facts = json.loads(printed(capsys, "convert", text, "-o", tmp_path / "small.json.gz", "--json"))
    assert facts["functions"] == ["main"] and facts["bytes"] == (tmp_path / "small.json.gz").stat().st_size
    assert "'.onnx' is not one of" in refused(capsys, "convert", text, "-o", tmp_path / "small.onnx")


def test_inspect_draws_a_model(
    model: Path, executable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert "wrote" in printed(capsys, "inspect", model, "--html", page)
    assert '"operator": "Conv"' in page.read_text() and '"float32[n, 8, 4, 4]"' in page.read_text()
    assert "--view bytecode" in refused(capsys, "inspect", executable, "--html", page)


def test_verify_finds_the_first_value_that_differs(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = ["--input-shapes", "x:[2,1,6,6]"]
    found = json.loads(printed(capsys, "verify", model, *shape, "--rtol", "1e-2", "--atol", "1e-3", "--json"))
    assert (found["rtol"], found["atol"]) == (1e-2, 1e-3)
    assert found["is_equal"]
    assert [each["name"] for each in found["differences"]] == ["y"]
    assert "equal to reference" in printed(capsys, "verify", model, *shape, "--against", "reference", "--inside")

    def altered(proto: onnx.ModelProto, feed: Any, against: Any) -> list[np.ndarray]:
        weight = onnx.numpy_helper.to_array(proto.graph.initializer[0]) * np.float32(1.01)
        proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w"))
        return list(onnx.reference.ReferenceEvaluator(proto).run(None, dict(feed)))

    monkeypatch.setattr(verification, "_expected", altered)
    text = printed(capsys, "verify", model, *shape, "--inside", code=ExitCode.MISMATCH)
    assert text.splitlines()[1].endswith("differs, by Conv 'conv'")
    assert "not equal to onnxruntime" in text


def test_bench_writes_what_pytest_benchmark_reads(
    model: Path, executable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = ["--input-shapes", "x:[1,1,6,6]", "--input-shapes", "x:[2,1,6,6]"]
    words = ["bench", model, *shapes, "--calls", "5", "--vs", "onnxruntime", "-o", tmp_path / "b.json"]
    words += ["--threads", "1", "--warm-up", "1"]
    assert "below 1 vmkit is faster" in printed(capsys, *words)
    rows = json.loads((tmp_path / "b.json").read_text())["benchmarks"]
    assert [(row["params"]["system"], row["params"]["shapes"]) for row in rows] == [
        ("vmkit", "x:[1,1,6,6]"),
        ("onnxruntime", "x:[1,1,6,6]"),
        ("vmkit", "x:[2,1,6,6]"),
        ("onnxruntime", "x:[2,1,6,6]"),
    ]
    assert all(row["stats"]["rounds"] == 5 and row["stats"]["min"] <= row["stats"]["median"] for row in rows)
    words = ["py.test-benchmark", "--storage", f"file://{tmp_path}", "compare", str(tmp_path / "b.json")]
    monkeypatch.setattr("sys.argv", words)
    compare()
    assert "vmkit[x:[1,1,6,6], threads 1]" in capsys.readouterr().out
    assert "peers run ONNX files" in refused(capsys, "bench", executable, *shapes, "--vs", "onnxruntime")
    assert "there is no peer 'tflite'" in refused(capsys, "bench", model, *shapes, "--vs", "tflite")
    assert "at least one call" in refused(capsys, "bench", model, *shapes, "--calls", "0")


def test_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(printed(capsys, "targets", "--json"))
    assert {"llvm", "c", "cuda"} <= set(listed["kinds"])
    assert listed["native"].startswith("llvm ") and listed["portable"].startswith("llvm ")
    assert "-mcpu  str" in printed(capsys, "targets", "llvm")
    assert "did you mean 'llvm'" in refused(capsys, "targets", "llmv")


def test_what_goes_to_any_processor_is_compiled_inspected_and_run(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, image = tmp_path / "small.vmx", np.ones((1, 1, 6, 6), "float32")
    words = ("--in-process", "--input-shapes", "x:[1,1,6,6]")
    facts = json.loads(printed(capsys, "compile", model, "-f", "portable", "-o", path, *words, "--json"))
    assert "mcpu" not in facts["target"]
    assert "portable: kernels are LLVM IR" in printed(capsys, "inspect", path)
    np.savez(tmp_path / "in.npz", x=image)
    printed(capsys, "run", path, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    (expected,) = onnxruntime.InferenceSession(model).run(None, {"x": image})
    (got,) = np.load(tmp_path / "out.npz").values()
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert main(["compile", str(model), "-f", "portable", *words, "--target", "llvm -mcpu=skylake"]) == ExitCode.MODEL
    assert "were compiled for one: llvm -mcpu=skylake" in capsys.readouterr().err


def test_c_for_microcontrollers_is_written_and_run(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, image = tmp_path / "small.tar", np.ones((1, 1, 6, 6), "float32")
    words = ("-f", "mlf", "-o", archive, "--input-shapes", "x:[1,1,6,6]")
    facts = json.loads(printed(capsys, "compile", model, *words, "--module-name", "small", "--json"))
    assert facts["memory"]["inputs"] == {"x": {"size": 144, "dtype": "float32"}}
    np.savez(tmp_path / "in.npz", x=image)
    text = printed(capsys, "run", archive, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--print-time")
    assert text.startswith("y: float32[1, 8, 4, 4]\n") and "mean (ms)" in text
    (expected,) = onnxruntime.InferenceSession(model).run(None, {"x": image})
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], expected, rtol=1e-5)
    told = printed(capsys, "inspect", archive)
    assert told.startswith(
        "Model Library Format 7, full-model: small\n  tvmgen_small_run(x: float32[1, 1, 6, 6]) -> (y:"
    )
    assert json.loads(printed(capsys, "inspect", archive, "--json"))["modules"]["small"]["executors"] == ["aot"]
    assert "has --view summary alone" in refused(capsys, "inspect", archive, "--view", "kernels")
    assert main(["run", str(archive), "--device", "cuda"]) == ExitCode.MODEL
    assert main(["compile", str(model), *map(str, words), "--dump-code", "c"]) == ExitCode.MODEL
    assert "its C runs on the cpu" in (told := capsys.readouterr().err) and "the archive holds its source" in told


def test_compile_ends_what_takes_too_long_in_a_process_of_its_own(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.vmx"
    said = refused(capsys, "compile", model, "-o", path, "--timeout", "0.001")
    assert f"vmkit: {model} was compiled for longer than timeout=0.001 seconds, and was ended" in said
    assert "--in-process asks for none" in refused(capsys, "compile", model, "--in-process", "--timeout", "1")
    assert not path.exists()
    here = json.loads(printed(capsys, "compile", model, "-o", path, "--in-process", "--json"))
    there = json.loads(printed(capsys, "compile", model, "-o", path, "--json"))
    assert {**here, "seconds": 0, "bytes": 0} == {**there, "seconds": 0, "bytes": 0}


def test_records_of_tune_are_what_compile_takes(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", model, "--input-shapes", "x:[n,1,6,6]", "-o", tmp_path / "records.json"]
    name, *_ = json.loads(printed(capsys, *words, "--list", "--json"))
    limits = ["--candidates", "2", "--sizes", "n=2", "--kernels", name]
    assert json.loads(printed(capsys, *words, *limits, "--json"))["records"] == 1
    assert "the model has no kernel 'nosuch' to tune" in refused(capsys, *words, "--kernels", "nosuch")
    assert "expected NAME=N" in refused(capsys, *words, "--sizes", "n")
    assert "--rpc-tracker and --rpc-key go together" in refused(capsys, *words, "--key", "board")
    path = tmp_path / "m.vmx"
    facts = json.loads(
        printed(capsys, "compile", model, "--tuning-records", tmp_path / "records.json", "-o", path, "--json")
    )
    assert facts["kernels"]["tuned"] == 1


def test_profile_has_a_row_for_each_kernel(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, page = tmp_path / "trace.json", tmp_path / "page.html"
    words = ["--input-shapes", "n:2", "--target", "llvm", "--trace", trace, "--html", page]
    text = printed(capsys, "profile", model, *words)
    assert text.startswith("Name") and "float32[2, 8, 4, 4]" in text and "\n----------\nSum" in text
    assert json.loads(trace.read_text())["traceEvents"]
    assert "float32[2, 8, 4, 4]" in page.read_text()
