"""Lines of words for the console script: with every option of every command, and what is looked at then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.places import TOP
from vmkit.cli import ExitCode
from vmkit.tophub import Records

__all__ = ["ROWS", "Row", "W", "X", "done", "started"]

SCRIPT = Path(sys.executable).with_name("vmkit")
X = np.random.default_rng(1).standard_normal((2, 1, 6, 6)).astype("float32")
W = np.random.default_rng(0).standard_normal((8, 1, 3, 3)).astype("float32")


def started(*words: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    command = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "vmkit"]
    path = os.pathsep.join([*filter(None, [environment.pop("first", "")]), str(TOP)])
    given = {**os.environ, "PYTHONPATH": path, "TVM_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder / "home")}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, *words], cwd=folder, env=given | environment, text=True, **piped)


def done(*words: str, folder: Path, code: int = ExitCode.OK, **environment: str) -> str:
    """Return what the script prints: on stdout, or where that is nothing on stderr."""
    process = started(*words, folder=folder, **environment)
    out, err = process.communicate(timeout=500)
    assert process.returncode == code, f"{words}: {process.returncode}\n{out}\n{err}"
    return out or err


def expected(x: np.ndarray = X, sign: float = 1) -> np.ndarray:
    """Return what the model gives, its weights of a sign."""
    windows = np.lib.stride_tricks.sliding_window_view(x[:, 0], (3, 3), (1, 2))
    return np.maximum(np.einsum("nhwij,oij->nohw", windows, sign * W[:, 0]), 0)


def is_expected(path: Path, x: np.ndarray = X, sign: float = 1, name: str = "y", atol: float = 1e-4) -> None:
    np.testing.assert_allclose(np.load(path)[name], expected(x, sign), rtol=1e-3, atol=atol)


@dataclass(frozen=True)
class Row:
    """A line of words behind ``vmkit``, its exit code, and what is looked at then."""

    words: str
    look: Callable[[Path, str], None]
    code: int = ExitCode.OK


def compiled(folder: Path, out: str) -> None:
    facts = json.loads(out)
    assert facts["target"] and facts["signature"] == "main(x: float32[2, 1, 6, 6]) -> (y: float16[2, 8, 4, 4])"
    assert '"float16"' in (folder / "all.vmx.relay").read_text() and "define" in (folder / "all.vmx.ll").read_text()
    assert 'data_layout="NHWC"' in (folder / "all.vmx.relay").read_text() and "offloads" in facts
    done("run", "all.vmx", "-i", "in.npz", "-o", "all.npz", folder=folder)
    is_expected(folder / "all.npz", atol=0.05)  # in float16


def weighed(folder: Path, out: str) -> None:
    done("run", "w.vmx", "-i", "in.npz", "-o", "w-out.npz", folder=folder)
    is_expected(folder / "w-out.npz", sign=-1, name="output_0")


def kept(folder: Path, out: str) -> None:
    assert json.loads(done("cache", "ls", "--folder", "kept", "--json", folder=folder))["entries"]
    done("run", "kept.vmx", "-i", "in.npz", "-o", "kept.npz", folder=folder)
    is_expected(folder / "kept.npz")


def exported(folder: Path, out: str) -> None:
    assert json.loads(out)["memory"]["inputs"] == {"x": {"size": 288, "dtype": "float32"}}
    with tarfile.open(folder / "small.tar") as archive:
        assert any("small" in name for name in archive.getnames())
    assert "no option" not in done("run", "small.tar", "-i", "in.npz", "-o", "small.npz", folder=folder)
    is_expected(folder / "small.npz")


def ran(folder: Path, out: str) -> None:
    facts = json.loads(out)
    assert len(facts["seconds"]["results"]) == 2 and facts["profile"]["calls"]
    assert facts["top"]["y"][0] == [int(expected().argmax()), pytest.approx(expected().max(), rel=1e-3)]
    is_expected(folder / "out.npz")


def filled(folder: Path, out: str) -> None:
    assert out == "y: float32[2, 8, 4, 4]\n"
    is_expected(folder / "out.npz", np.ones_like(X))


def pictured(folder: Path, out: str) -> None:
    is_expected(folder / "out.npz", np.full((1, 1, 6, 6), 0.2, "float32"))


def profiled(folder: Path, out: str) -> None:
    assert any("conv" in call["Name"]["string"] for call in json.loads(out)["calls"])
    assert json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert "<html" in (folder / "profile.html").read_text()


def converted(folder: Path, out: str) -> None:
    assert json.loads(out)["functions"] == ["main"]
    done("run", "m.relay", "-i", "in.npz", "-o", "out.npz", "--target", "llvm", folder=folder)
    is_expected(folder / "out.npz")


def benched(folder: Path, out: str) -> None:
    assert {row["name"] for row in json.loads(out)["benchmarks"]} >= {"vmkit[x:[1,1,6,6], threads 1]"}
    assert json.loads((folder / "bench.json").read_text()) == json.loads(out)


def tuned(folder: Path, out: str) -> None:
    assert json.loads(out)["records"] >= 1
    assert len(Records.read(folder / "records.json")) == json.loads(out)["records"]


def told(*texts: str) -> Callable[[Path, str], None]:
    def look(folder: Path, out: str) -> None:
        assert all(text in out for text in texts), out

    return look


def run_by_tvmc(folder: Path, out: str) -> None:
    assert "mean (ms)" in out and "\nTotal" in out
    is_expected(folder / "out.npz", name="output_0")


def packed_by_tvmc(folder: Path, out: str) -> None:
    assert all((folder / f"tvmc.tar.{form}").exists() for form in ("relay", "ll"))
    done("tvmc", "run", "tvmc.tar", "-i", "in.npz", "-o", "out.npz", folder=folder)
    is_expected(folder / "out.npz", name="output_0", atol=0.05)


def weighed_by_tvmc(folder: Path, out: str) -> None:
    done("tvmc", "run", "w.tar", "-i", "in.npz", "-o", "out.npz", folder=folder)
    is_expected(folder / "out.npz", name="output_0", sign=-1)


def in_c_by_tvmc(folder: Path, out: str) -> None:
    done("run", "c.tar", "-i", "in.npz", "-o", "out.npz", folder=folder)
    is_expected(folder / "out.npz", name="output")


_SHAPES = "--input-shapes x:[2,1,6,6]"
_CHANGES = (
    "--desired-layout NHWC --desired-layout-ops nn.conv2d --mixed-precision --mixed-precision-ops nn.conv2d "
    "--mixed-precision-calculation-type float16 --mixed-precision-acc-type float32"
)
_MEASURED = "--print-time --repeat 2 --number 1 --end-to-end --print-top 2 --profile"

ROWS = {
    "compile": [
        Row("r.py -o r.vmx --target llvm --trust-script", told("main(x: float32[n, 4])")),
        Row(
            "m.onnx -o all.vmx -f vmx --target llvm --target-llvm-opt-level 2 --target-host llvm "
            f"{_SHAPES} -O 2 --pass-config relax.FuseOps.max_depth=10 --disabled-pass AlterOpLayout --required-pass "
            f"FoldConstant {_CHANGES} --tuning-records none.json --dump-code relay,ll --dump-offloads - "
            "--print-pass-times --timeout 400 --jobs 2 --cross-compiler g++ --cross-compiler-options=-O1 "
            "--config level.json --json",
            compiled,
        ),
        Row("w.relay -o w.vmx --params w.npz --target llvm --in-process", weighed),
        Row("m.onnx -o kept.vmx --target llvm --in-process --cache kept", kept),
        Row(f"m.onnx -o small.tar -f mlf --module-name small {_SHAPES} --in-process --json", exported),
        Row("m.onnx --timeout 0.001", told("was compiled for longer than timeout=0.001 seconds"), ExitCode.MODEL),
    ],
    "run": [
        Row(
            "r.py --target llvm --trust-script --input-shapes n:2 --fill-mode ones --print-top 1",
            told("float32[2, 2]", "0  4"),
        ),
        Row(
            f"m.onnx -i in.npz --target llvm --device cpu --num-threads 1 -o out.npz --config repeat.json {_MEASURED} "
            "--json",
            ran,
        ),
        Row(f"m.onnx {_SHAPES} --fill-mode ones --seed 1 --cache kept --target llvm -o out.npz", filled),
        Row("m.onnx -i photo.png --preprocess unit --target llvm -o out.npz", pictured),
        Row(
            "m.onnx -i in.npz --target llvm --rpc-tracker BOARD --rpc-key board -o out.npz",
            lambda folder, out: is_expected(folder / "out.npz"),
        ),
    ],
    "inspect": [
        Row("r.py --view operators --target llvm --trust-script", told("relu")),
        Row(f"m.onnx --view kernels --target llvm {_SHAPES} --json", told("conv2d")),
        Row("m.onnx --html graph.html", lambda folder, out: told("Conv")(folder, (folder / "graph.html").read_text())),
    ],
    "convert": [Row(f"m.onnx -o m.relay {_SHAPES} --json", converted)],
    "targets": [Row("llvm --json", told('"mcpu"'))],
    "verify": [
        Row(
            "m.onnx --against reference --input-shapes n:2 -i in.npz --target llvm --rtol 1e-3 --atol 1e-4 --inside "
            "--seed 1 --json",
            told('"y"'),
        ),
        Row(
            "m.onnx -i in.npz --target llvm --rtol 0 --atol 0",
            told("y"),
            ExitCode.MISMATCH,
        ),
    ],
    "bench": [
        Row("r.py --target llvm --trust-script --input-shapes n:2 --calls 1 --json", told("x:[2,4]")),
        Row(
            "m.onnx --input-shapes x:[1,1,6,6] --threads 1 --vs onnxruntime --target llvm --seconds 0.1 --calls 2 "
            "--warm-up 1 -o bench.json --json",
            benched,
        ),
    ],
    "tune": [
        Row("r.py --list --target llvm --trust-script --json", told("matmul")),
        Row("m.onnx --list --target llvm", told("conv2d")),
        Row(
            "m.onnx -o records.json --target llvm --target-host llvm --input-shapes x:[n,1,6,6] --sizes n=2 --kernels "
            "fused_nn_conv2d_nn_relu --seconds 5 --timeout 10 --candidates 2 --trials 0 --budget 60 "
            "--config budget.json --json "
            "--rpc-tracker BOARD --rpc-key board",
            tuned,
        ),
    ],
    "profile": [
        Row("r.py --target llvm --trust-script --input-shapes n:2", told("float32[2, 2]")),
        Row(
            "m.onnx -i in.npz --target llvm --device cpu --num-threads 1 --by-node --trace trace.json --html "
            "profile.html --config quiet.json --json",
            profiled,
        ),
        Row("m.onnx -i photo.png --preprocess raw --target llvm --order --csv", told("Name,")),
        Row("m.onnx --input-shapes n:2 --fill-mode zeros --seed 1 --target llvm", told("float32[2, 8, 4, 4]")),
        Row("m.onnx --input-shapes n:2 --target llvm --by-operator", told("conv2d")),
    ],
    "cache": [Row("clear --folder nothing --json", told('"removed": 0'))],
    "check": [Row(f"m.onnx {_SHAPES} --json", told('"x"'))],
    "completion": [Row("", told("complete -o default -F _vmkit vmkit"))],
    "demo": [Row("--target llvm --output demo.vmx", told("read [3, 1, 4, 1, 5]"))],
    "tvmc compile": [
        Row(
            "m.onnx --model-format onnx --target llvm -o tvmc.tar -f so --cross-compiler g++ "
            f"--cross-compiler-options=-O1 --dump-code relay,ll --dump-offloads - -O 2 {_SHAPES} "
            f"--disabled-pass AlterOpLayout --print-pass-times --tuning-records none.json {_CHANGES} --executor graph "
            "--executor-graph-link-params 1 --runtime cpp --config level.json -v",
            packed_by_tvmc,
        ),
        Row(
            f"m.onnx --target c -o c.tar -f mlf {_SHAPES} --module-name small --executor aot --runtime crt "
            "--executor-aot-unpacked-api 1 --executor-aot-interface-api c --executor-aot-link-params 1 "
            "--executor-aot-workspace-byte-alignment 8 --executor-aot-constant-byte-alignment 8 "
            "--runtime-crt-system-lib 1 --pass-config tir.disable_vectorize=1",
            in_c_by_tvmc,
        ),
        Row(
            "w.relay --model-format relay --target llvm --target-llvm-opt-level 2 --relay-params w.npz -o w.tar",
            weighed_by_tvmc,
        ),
        Row("m.onnx --target llvm --runtime cpp --runtime-cpp-system-lib 1 -o no.tar", told("Error: "), 4),
    ],
    "tvmc run": [
        Row(
            f"package.tar --device cpu -i in.npz -o out.npz {_SHAPES} {_MEASURED} --config repeat.json -v", run_by_tvmc
        ),
        Row(f"package.tar {_SHAPES} --fill-mode ones --rpc-tracker BOARD --rpc-key board --print-top 1", told("[["), 0),
    ],
    "tvmc tune": [
        Row(
            f"m.onnx --model-format onnx --target native {_SHAPES} -o tvmc.json --trials 2 --number 1 --repeat 1 "
            "--enable-autoscheduler --min-repeat-ms 1 --early-stopping 1 --timeout 10 --parallel 1 --tuner "
            "random --tasks 0 --tuning-records "
            "none.json --config repeat.json --rpc-tracker BOARD --rpc-key board -v",
            lambda folder, out: told("records")(folder, (folder / "tvmc.json").read_text()),
        ),
        Row(
            f"m.onnx --target llvm --target-host llvm --num-cores 1 {_SHAPES} {_CHANGES} -o tvmc.json --tasks list",
            told("Available Tasks for tuning:"),
        ),
    ],
}

# What tvmc had and has no more; its own commands say so.
