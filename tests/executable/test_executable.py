"""Saving and loading executables, and files that are not what they should be."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import vmkit
from tests.relax import programs as vm_programs
from vmkit import bytecode, relay
from vmkit.errors import DeviceError, ExecutableError, VMKitError
from vmkit.executable import archive, library_files, loading
from vmkit.executable.archive import read_archive, write_archive
from vmkit.executable.build_info import BuildInfo
from vmkit.executable.executable import Executable
from vmkit.executable.loading import load
from vmkit.runtime.machine import VirtualMachine
from vmkit.target.llvm import architecture, default_triple, host_features
from vmkit.values.signature import Signature, TensorSpec

X = np.arange(6, dtype="float32").reshape(2, 3)
Y = np.array([1, 2], "float32")
SUMS = [4.0, 14.0]
TARGET = {"kind": "llvm", "mcpu": "x86-64-v2" if architecture(default_triple()) == "x86_64" else "generic"}
# Features that no machine has all of.
UNSUPPORTED = {"mtriple": default_triple(), "mattr": [f"+{f}" for f, here in host_features().items() if not here]}


@pytest.fixture(scope="module")
def exe() -> Executable:
    mod, signature = vm_programs.add_rows()
    target = tvm.target.Target(TARGET)
    return Executable(
        vm_programs.compiled(mod, TARGET), {"main": signature}, target, BuildInfo(kernel_groups={"rows": ["sum"]})
    )


@pytest.fixture
def saved(exe: Executable, tmp_path: Path) -> Path:
    exe.export(tmp_path / "model.vmx")
    return tmp_path / "model.vmx"


def failure(path: Path | str) -> str:
    with pytest.raises(ExecutableError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def rewritten(path: Path, **changes: Any) -> Path:
    """Write the file anew with `changes` in its manifest, rightly sealed."""
    manifest, members = read_archive(path)
    manifest.update(changes)
    write_archive(path, {k: v for k, v in manifest.items() if k not in ("format", "members")}, members)
    return path


def test_what_an_executable_tells(exe: Executable) -> None:
    assert repr(exe).startswith(
        "<Executable main(x: float32[n, m], y: float32[n]) -> float32[n], target llvm -mcpu=x86-64-v2>"
    )
    assert [spec.name for spec in exe.inputs] == ["x", "y"]
    assert exe.outputs == (TensorSpec("", "float32", ("n",)),)
    assert exe.globals == ["main"]
    assert exe.get_function_params("main") == ["x", "y"]
    assert {"sum", "add"} <= set(exe.primitive_ops)
    assert "VM PackedFunc[0]: " in exe.primitives
    assert exe.bytecode.startswith("VM Function[0]: main(x, y)")
    assert exe.stats.startswith("Relay VM executable statistics:\n  Constant shapes (# 0): []")
    assert exe.constants == ""
    assert exe.lib is not None and exe.module is exe.mod
    assert exe.device_kind == "cpu"


def test_an_unknown_function_is_named(exe: Executable) -> None:
    with pytest.raises(ExecutableError, match="Cannot find function foo in executable; it has main"):
        exe.get_function_params("foo")


def test_signatures_must_fit_the_code(exe: Executable) -> None:
    with pytest.raises(ExecutableError, match="signatures for functions that the executable lacks: other"):
        Executable(exe.mod, {"other": exe.signature})
    with pytest.raises(ExecutableError, match=r"main takes 2 values, but its signature is main\(\)"):
        Executable(exe.mod, {"main": Signature("main", ())})


def test_export_then_load_keeps_everything(exe: Executable, saved: Path) -> None:
    loaded = load(saved)
    assert loaded.signatures == exe.signatures
    assert str(loaded.target) == str(exe.target)
    assert loaded.info == exe.info == {"checks": {}, "kernel_groups": {"rows": ["sum"]}}
    assert loaded.code == exe.code
    np.testing.assert_array_equal(VirtualMachine(loaded).run(X, Y).numpy(), SUMS)


def test_the_target_host_is_kept(exe: Executable, tmp_path: Path) -> None:
    target = tvm.target.Target(TARGET, tvm.target.Target(TARGET))
    Executable(exe.mod, exe.signatures, target).export(tmp_path / "model.vmx")
    loaded = load(tmp_path / "model.vmx")
    assert loaded.target is not None and str(loaded.target.host) == str(target.host)


def test_a_loaded_executable_can_be_exported_again(saved: Path, tmp_path: Path) -> None:
    load(saved).export(tmp_path / "again.vmx")
    assert (tmp_path / "again.vmx").read_bytes() == saved.read_bytes()


def test_a_fresh_process_loads_and_runs(saved: Path) -> None:
    program = (
        "import sys, numpy as np\n"
        "from vmkit.executable.loading import load\n"
        "from vmkit.runtime.machine import VirtualMachine\n"
        "vm = VirtualMachine(load(sys.argv[1]))\n"
        "x = np.arange(6, dtype='float32').reshape(2, 3)\n"
        "print(vm.run(x, [1, 2]).numpy().tolist(), vm.run(x.T.copy(), np.zeros(3, 'float32')).numpy().tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(saved)], capture_output=True, text=True)
    assert done.stdout.strip() == "[4.0, 14.0] [3.0, 5.0, 7.0]", done.stderr


def test_without_a_compiler_the_kernels_are_llvm_ir(
    exe: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_files, "linker_for", lambda *_: None)
    exe.export(tmp_path / "model.vmx")
    assert zipfile.ZipFile(tmp_path / "model.vmx").namelist() == ["manifest.json", "code.bin", "lib0.ll"]
    np.testing.assert_array_equal(VirtualMachine(load(tmp_path / "model.vmx")).run(X, Y).numpy(), SUMS)


def test_loading_leaves_no_temporary_files(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    vm = VirtualMachine(load(saved))
    assert list(scratch.iterdir()) == []
    np.testing.assert_array_equal(vm.run(X, Y).numpy(), SUMS)


def test_save_and_load_exec_keep_signature_and_target(exe: Executable) -> None:
    code, lib = exe.save()
    assert isinstance(code, bytearray) and isinstance(lib, tvm.runtime.Module)
    for form in (code, bytes(code), code.decode("latin-1")):
        loaded = Executable.load_exec(form, lib)
        assert loaded.signatures == exe.signatures
        assert str(loaded.target) == str(exe.target)
        np.testing.assert_array_equal(VirtualMachine(loaded).run(X, Y).numpy(), SUMS)
    assert loaded.save()[0] == code


def test_load_exec_of_plain_code_takes_names_from_the_code(exe: Executable) -> None:
    loaded = Executable.load_exec(exe.code, exe.lib)
    assert str(loaded.signature) == "main(x: any, y: any)"
    np.testing.assert_array_equal(VirtualMachine(loaded).run(X, Y).numpy(), SUMS)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((3, None), "bytecode is expected to be the type of bytearray or TVMByteArray, but received int"),
        ((b"", 3), "lib is expected to be the type of tvm.runtime.Module, but received int"),
    ],
)
def test_load_exec_checks_types(args: tuple[Any, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text) as caught:
        Executable.load_exec(*args)
    assert isinstance(caught.value, VMKitError)


@pytest.mark.parametrize(("size", "section"), [(0, "header"), (18, "header"), (40, "global"), (-10, "code")])
def test_load_exec_of_truncated_code(exe: Executable, size: int, section: str) -> None:
    with pytest.raises(ExecutableError, match=f"Invalid VM file format in the {section} section"):
        Executable.load_exec(exe.code[:size], exe.lib)


def test_code_without_its_library_says_what_is_missing(exe: Executable) -> None:
    with pytest.raises(ExecutableError, match=r"the executable cannot be linked: .*(sum|add|shape_func)"):
        VirtualMachine(Executable.load_exec(exe.code, None))


def test_a_missing_file(tmp_path: Path) -> None:
    assert "there is no such file" in failure(tmp_path / "none.vmx")
    assert "cannot be read: Is a directory" in failure(tmp_path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the file is empty"),
        (b"hello world", "not a vmkit executable"),
        (b"\x7fELF" + bytes(100), "not a vmkit executable"),
        (b"PK", "the file is truncated or altered"),
    ],
)
def test_what_is_not_an_executable(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "model.vmx"
    path.write_bytes(content)
    assert text in failure(path)


def test_another_zip_file_is_not_an_executable(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("some/longer/name.txt", "text")
    assert "manifest.json is not its first member" in failure(path)


@pytest.mark.parametrize("part", [0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(saved: Path, part: float) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: int(len(data) * part)])
    assert "the file is truncated or altered" in failure(saved)


@pytest.mark.parametrize("name", ["manifest.json", "code.bin", "lib0.so"])
def test_an_altered_member_is_named(saved: Path, name: str) -> None:
    data = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as file:
        info = file.getinfo(name)
    data[info.header_offset + 30 + len(name) + info.file_size // 2] ^= 1
    saved.write_bytes(data)
    text = failure(saved)
    assert "altered: " in text and name in text


@pytest.mark.parametrize("name", ["code.bin", "lib0.so"])
def test_a_member_altered_with_its_checksum_is_named(saved: Path, name: str) -> None:
    with zipfile.ZipFile(saved) as file:
        contents, seal = {info: file.read(info) for info in file.namelist()}, file.comment
    contents[name] = contents[name][:-1] + b"?"
    with zipfile.ZipFile(saved, "w") as file:
        file.comment = seal
        for member, data in contents.items():
            file.writestr(member, data)
    assert f"the file was altered: {name} does not have the digest recorded for it" in failure(saved)


@pytest.mark.parametrize(("change", "text"), [("drop", "code.bin is missing"), ("add", "evil.so was added")])
def test_members_that_the_manifest_does_not_list(saved: Path, change: str, text: str) -> None:
    with zipfile.ZipFile(saved) as file:
        contents, seal = {info: file.read(info) for info in file.namelist()}, file.comment
    if change == "drop":
        del contents["code.bin"]
    else:
        contents["evil.so"] = b"\x7fELF"
    with zipfile.ZipFile(saved, "w") as file:
        file.comment = seal
        for member, data in contents.items():
            file.writestr(member, data)
    assert text in failure(saved)


def test_every_altered_byte_is_an_error_or_does_not_matter(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    original = load(saved)
    generator = np.random.default_rng(0)
    for at in [*range(40), *generator.integers(0, len(data), 60), *range(len(data) - 200, len(data))]:
        altered = bytearray(data)
        altered[at] ^= 0xFF
        path = tmp_path / "altered.vmx"
        path.write_bytes(altered)
        try:
            loaded = load(path)
        except ExecutableError:
            continue
        assert loaded.code == original.code


def test_without_a_compiler_shape_functions_are_kept_beside_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = relay.var("x", shape=(relay.Any(),)), relay.var("y", shape=(relay.Any(),))
    built = vmkit.compile(relay.Function([x, y], x + y), target="llvm")
    assert "shape_func" in built.primitive_ops
    monkeypatch.setattr(library_files, "linker_for", lambda *_: None)
    built.export(tmp_path / "model.vmx")
    a, b = np.array([1, 2], "float32"), np.array([3], "float32")
    np.testing.assert_array_equal(VirtualMachine(load(tmp_path / "model.vmx")).run(a, b).numpy(), [4, 5])


def test_a_newer_format_names_both_versions(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten(saved, format_version=7, vmkit_version="9.9")
    assert "format version 7, written by vmkit 9.9; this vmkit reads up to 5" in failure(saved)


def test_another_tvm_names_both_versions(saved: Path) -> None:
    rewritten(saved, tvm_version="0.31.0")
    assert f"built with TVM 0.31.0, this is TVM {tvm.__version__}: compile the model again" in failure(saved)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        ({"mtriple": "riscv64-linux-gnu"}, "built for riscv64 (riscv64-linux-gnu)"),
        (UNSUPPORTED, "but this machine's cpu lacks"),
    ],
)
def test_code_for_another_machine_is_refused_before_it_is_loaded(
    saved: Path, built: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten(saved, target=json.dumps({"kind": "llvm", **built}), target_host=None)
    monkeypatch.setattr(loading, "_load_library", lambda *_: pytest.fail("the library was loaded"))
    assert text in failure(saved)
    assert "compile the model for this machine" in failure(saved)


def test_an_executable_for_cuda_is_written_anywhere_and_loaded_where_cuda_is(tmp_path: Path) -> None:
    mod, signature = vm_programs.double()
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_80"}, tvm.target.Target("llvm"))
    with target:
        module = relax.build(mod, target, relax_pipeline=relax.get_default_pipeline(target)).mod
    built = Executable(module, {"main": signature}, target)
    assert built.device_kind == "cuda"
    with pytest.raises(DeviceError, match=r"Unable to find a physical device \(from among the 1 given\).* type cuda"):
        VirtualMachine(built, "cpu")
    path = tmp_path / "model.vmx"
    built.export(path)
    if tvm.cuda().exist:
        x = np.ones((64, 64), "float32")
        np.testing.assert_array_equal(VirtualMachine(load(path), "cuda").run(x).numpy(), 2 * x)
    else:
        assert "cannot be loaded here: " in failure(path) and "cuda" in failure(path)


def test_a_library_that_does_not_load_says_why(saved: Path, tmp_path: Path) -> None:
    manifest, members = read_archive(saved)
    del manifest["format"], manifest["members"]
    write_archive(saved, manifest, {**members, "lib0.so": b"\x7fELF but no more"})
    assert "the kernels for" in failure(saved) and "cannot be loaded here" in failure(saved)


def test_a_manifest_that_lacks_entries_is_an_error(saved: Path) -> None:
    write_archive(saved, {}, {"code.bin": b""})
    assert "the manifest is incomplete" in failure(saved)


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "{"},
        {"target": json.dumps({"kind": "llvm", "mcpu": 3})},
        {"signatures": {"main": {"name": "main", "inputs": [3], "outputs": [], "result_is_tuple": False}}},
        {"info": None},
    ],
)
def test_a_manifest_of_other_values_is_an_error(saved: Path, changes: dict[str, Any]) -> None:
    rewritten(saved, **changes)
    assert "the manifest is incomplete" in failure(saved)


@pytest.mark.parametrize("note", ["{", "[]", '{"signatures": {}}'])
def test_a_note_that_is_none_is_an_error(exe: Executable, note: str) -> None:
    program = replace(exe.program, constants=(*exe.program.constants, f"vmkit.executable:{note}"))
    with pytest.raises(ExecutableError, match="the note in the bytecode is incomplete"):
        Executable.load_exec(bytecode.encode(program), exe.lib)


def test_a_missing_folder(exe: Executable, tmp_path: Path) -> None:
    with pytest.raises(ExecutableError, match=r"there is no folder .*/none"):
        exe.export(tmp_path / "none" / "model.vmx")
    with pytest.raises(ExecutableError, match="it is a folder"):
        exe.export(tmp_path)


@pytest.mark.parametrize("at", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_what_was_there(
    exe: Executable, saved: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = {"write": (zipfile.ZipFile, "open"), "fsync": (os, "fsync"), "replace": (os, "replace")}
    with monkeypatch.context() as patch:
        patch.setattr(*place[at], full)
        with pytest.raises(ExecutableError, match=r"cannot write .*model.vmx: No space left on device"):
            exe.export(saved)
    assert [path.name for path in saved.parent.iterdir()] == ["model.vmx"]
    assert saved.read_bytes() == before


def test_an_unwritable_place(exe: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("builtins.open", denied)
    with pytest.raises(ExecutableError, match=r"cannot write .*: Permission denied"):
        write_archive(tmp_path / "model.vmx", {}, {})


def test_the_manifest_is_readable_and_first(saved: Path) -> None:
    with zipfile.ZipFile(saved) as file:
        assert file.namelist()[0] == "manifest.json"
        manifest = json.loads(file.read("manifest.json"))
    assert manifest["format_version"] == archive.PLAIN_VERSION
    assert manifest["tvm_version"] == tvm.__version__
    assert json.loads(manifest["target"])["kind"] == "llvm"
    assert set(manifest["members"]) == {"code.bin", "lib0.so"}
