"""Relax scripts: Python that is run when it is read, by nobody who has not said so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import vmkit
from tests.cli.commands import printed, refused
from vmkit.errors import ModelError
from vmkit.frontend.relax_script import from_relax_script

HEADER = "from tvm.script import ir as I\nfrom tvm.script import relax as R\n"
MODULE = """
SIZE = 3

@I.ir_module
class Half:
    @R.function
    def main(x: R.Tensor(("n", SIZE), "float32")):
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y
"""
X = np.arange(-3, 3, dtype="float32").reshape(2, 3)


def script(folder: Path, text: str, name: str = "model.py") -> Path:
    (folder / name).write_text(text)
    return folder / name


def run(model: object, x: np.ndarray = X) -> np.ndarray:
    return np.asarray(vmkit.VirtualMachine(vmkit.compile(model, "llvm"), "cpu").run(x).numpy())


def test_a_file_of_python_is_run_and_its_module_is_the_model(tmp_path: Path) -> None:
    before = set(sys.modules)
    mod = from_relax_script(script(tmp_path, HEADER + MODULE))
    np.testing.assert_array_equal(run(mod), np.maximum(X, 0))
    assert not [name for name in set(sys.modules) - before if "relax script" in name]


def test_what_a_module_prints_is_read_with_its_constants(tmp_path: Path) -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, relax.const(X))))
    text = builder.finalize().script(show_meta=True)
    np.testing.assert_array_equal(run(from_relax_script(script(tmp_path, text, "m.relax"))), X + X)


def test_one_function_is_main(tmp_path: Path) -> None:
    text = '@R.function\ndef twice(x: R.Tensor(("n", 3), "float32")):\n    y = R.add(x, x)\n    return y\n'
    np.testing.assert_array_equal(run(from_relax_script(script(tmp_path, HEADER + text))), X + X)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = (", "model.py:1: not Python: '(' was never closed"),
        ("\n1 / 0\n", "model.py:2: ZeroDivisionError: division by zero"),
        (MODULE.replace("nn.relu", "nn.rellu"), "model.py:9:17"),
        ("x = 1\n", "expected one tvm.IRModule, or one function of Relax, but the script has none"),
        (MODULE + MODULE.replace("Half", "Other"), "but the script has Half, Other"),
    ],
)
def test_what_is_no_script_says_where(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        from_relax_script(script(tmp_path, text))
    assert said in str(caught.value)


def test_a_script_is_run_for_nobody_who_does_not_trust_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tmp_path / "ran"
    path = script(tmp_path, f"{HEADER}{MODULE}\nopen({str(ran)!r}, 'w').close()\n")
    with pytest.raises(ModelError, match=r"reading it runs it.*from_relax_script"):
        vmkit.compile(path)
    words = ["--target", "llvm"]
    commands = ("compile", "run", "bench", "tune", "profile")
    for command in commands:
        assert "reading it runs it" in refused(
            capsys, command, path, *words, *(["--in-process"] * (command == "compile"))
        )
    assert "reading it runs it" in refused(capsys, "inspect", path, "--view", "relax")
    assert not ran.exists()
    (tmp_path / "m.relay").write_text("")
    assert "--trust-script is for Relax scripts" in refused(capsys, "run", tmp_path / "m.relay", "--trust-script")


def test_the_commands_take_a_script_that_is_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, trusted = script(tmp_path, HEADER + MODULE), ("--trust-script", "--target", "llvm")
    np.savez(tmp_path / "in.npz", x=X)
    printed(capsys, "compile", path, *trusted, "--in-process", "--cache", tmp_path / "kept", "-o", tmp_path / "m.vmx")
    assert len(list(vmkit.cache.Cache(tmp_path / "kept").entries())) == 1
    for file, words in ((path, trusted), (tmp_path / "m.vmx", ())):
        printed(capsys, "run", file, *words, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
        np.testing.assert_array_equal(next(iter(np.load(tmp_path / "out.npz").values())), np.maximum(X, 0))
    assert "call_tir(cls.relu" in printed(capsys, "inspect", path, *trusted, "--view", "relax")
    assert "main(x: float32[n, 3])" in printed(capsys, "inspect", path, *trusted)
    assert "this one is Relax" in refused(capsys, "inspect", path, *trusted, "--html", tmp_path / "page.html")
    bench = json.loads(printed(capsys, "bench", path, *trusted, "--input-shapes", "n:2", "--calls", 2, "--json"))
    assert len(bench["benchmarks"]) == 1
    product = script(tmp_path, HEADER + MODULE.replace("nn.relu(x)", "matmul(x, R.permute_dims(x))"), "product.py")
    assert printed(capsys, "tune", product, *trusted, "--list") == "nn_dense\n"
    assert "float32[2, 3]" in printed(capsys, "profile", path, *trusted, "-i", tmp_path / "in.npz")
