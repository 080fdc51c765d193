"""What links kernels for another machine, and what is stored where nothing does."""

from __future__ import annotations

import logging
import zipfile
from pathlib import Path

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import ExecutableError
from vmkit.executable.executable import Executable
from vmkit.executable.linker import advice, linker_for
from vmkit.target import llvm

# Two architectures, of which one at least is another machine's.
FOREIGN = next(t for t in ("aarch64-linux-gnu", "x86_64-linux-gnu") if t.split("-")[0] not in llvm.default_triple())
COMPILER = """#!/bin/sh
if [ "$1" = -dumpmachine ]; then echo {machine}; exit; fi
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
echo "$0" > "$out"
"""


@pytest.fixture(scope="module")
def foreign() -> Executable:
    x = relay.var("x", shape=(relay.Any(), 4))
    return vmkit.compile(relay.Function([x], relay.exp(x)), target={"kind": "llvm", "mtriple": FOREIGN})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are found."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    for variable in ("CC", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def install(folder: Path, name: str, machine: str) -> str:
    (folder / name).write_text(COMPILER.format(machine=machine))
    (folder / name).chmod(0o755)
    return str(folder / name)


def linked_by(exe: Executable, path: Path, linker: str | None = None) -> str:
    exe.export(path, linker=linker)
    with zipfile.ZipFile(path) as archive:
        return archive.read("lib0.so").decode().strip()


def test_a_cross_compiler_is_found_by_its_name_or_by_the_environment_or_named(
    foreign: Executable, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = install(folder, f"{FOREIGN}-gcc", FOREIGN)
    assert linked_by(foreign, tmp_path / "a.vmx") == usual
    of_environment = install(folder, "mine", FOREIGN)
    monkeypatch.setenv("CXX", of_environment)
    assert linked_by(foreign, tmp_path / "b.vmx") == of_environment
    assert linked_by(foreign, tmp_path / "c.vmx", f"{usual} -O1") == usual
    # A compiler that makes code for this machine is not taken for the other.
    install(folder, "mine", llvm.default_triple())
    assert linked_by(foreign, tmp_path / "d.vmx") == usual


def test_where_nothing_links_the_kernels_are_llvm_ir_and_a_warning_says_what_to_install(
    foreign: Executable, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="vmkit"):
        foreign.export(tmp_path / "model.vmx")
    with zipfile.ZipFile(tmp_path / "model.vmx") as archive:
        assert FOREIGN in archive.read("lib0.ll").decode()
    assert f"install a cross compiler such as {FOREIGN}-gcc" in caplog.text
    with pytest.raises(ExecutableError, match=f"built for {FOREIGN.split('-')[0]}"):
        vmkit.load(tmp_path / "model.vmx")


def test_without_any_compiler_models_are_compiled_and_saved_and_run(folder: Path, tmp_path: Path) -> None:
    assert linker_for(llvm.default_triple()) is None
    x = relay.var("x", shape=(relay.Any(), 4))
    folded = relay.op.concatenate([relay.const(np.ones((1, 4), "float32")), relay.const(np.ones((1, 4), "float32"))], 0)
    exe = vmkit.compile(relay.Function([x], relay.Tuple([relay.exp(x), folded, x])))
    exe.export(tmp_path / "model.vmx")
    given = np.arange(8, dtype="float32").reshape(2, 4)
    for each in (exe, vmkit.load(tmp_path / "model.vmx")):
        made = vmkit.VirtualMachine(each, "cpu").run(given)
        for value, expected in zip(made, (np.exp(given), np.ones((2, 4)), given), strict=True):
            np.testing.assert_allclose(value.numpy(), expected, rtol=1e-6)


def test_a_program_without_kernels_has_no_library(tmp_path: Path) -> None:
    x = relay.var("x", shape=(3,))
    exe = vmkit.compile(relay.Function([x], relay.Tuple([x, relay.const([1.0, 2.0])])))
    assert list(exe.mod.imports) == []
    exe.export(tmp_path / "model.vmx")
    code, library = exe.save()
    assert library is None
    for each in (exe, vmkit.load(tmp_path / "model.vmx"), Executable.load_exec(code, library)):
        made = vmkit.VirtualMachine(each, "cpu").run(np.arange(3, dtype="float32"))
        assert [value.numpy().tolist() for value in made] == [[0.0, 1.0, 2.0], [1.0, 2.0]]


def test_a_linker_that_is_not_there_or_for_another_machine_or_fails_is_named(
    foreign: Executable, folder: Path, tmp_path: Path
) -> None:
    own = install(folder, "own", llvm.default_triple())
    (folder / "broken").write_text("#!/bin/sh\necho no such option >&2\nexit 1\n")
    (folder / "broken").chmod(0o755)
    for linker, text in {
        "none-such": f"linker 'none-such' cannot be found; install a cross compiler such as {FOREIGN}-gcc",
        own: f"makes code for {llvm.default_triple()}, but the target is {FOREIGN}",
        "broken": rf"the kernels cannot be linked for {FOREIGN}: (.|\n)*no such option",
    }.items():
        with pytest.raises(ExecutableError, match=text):
            foreign.export(tmp_path / "model.vmx", linker=linker)
        assert not (tmp_path / "model.vmx").exists()


@pytest.mark.parametrize(
    ("triple", "name"),
    [
        ("s390x-linux-gnu", "s390x-linux-gnu-gcc"),
        ("ppc64le-linux-gnu", "powerpc64le-linux-gnu-gcc"),
        ("s390x-unknown-linux-gnu", "s390x-linux-gnu-gcc"),
        ("armv7l-linux-gnueabihf", "arm-linux-gnueabihf-g++"),
    ],
)
def test_cross_compilers_are_known_by_their_usual_names(folder: Path, triple: str, name: str) -> None:
    assert linker_for(triple) is None
    install(folder, name, triple)
    assert linker_for(triple) is not None
    assert triple in advice(triple)
