"""Kernels that go to any processor of a family: written as LLVM IR, compiled for the one that loads them."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te

import vmkit
from vmkit import relay
from vmkit.errors import ExecutableError, OptionError
from vmkit.executable.library_files import portable_libraries
from vmkit.executable.overview import overview
from vmkit.executable.portable import compiled_for_here
from vmkit.target.check import native_config
from vmkit.target.llvm import host_features

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((64, 64)).astype("float32")
DATA = RNG.standard_normal((5, 64)).astype("float32")


def compiled(target: str) -> vmkit.Executable:
    x = relay.var("x", shape=(relay.Any(), 64))
    return vmkit.compile(relay.Function([x], relay.tanh(relay.nn.dense(x, relay.const(WEIGHT)))), target)


@pytest.fixture(scope="module")
def executable() -> vmkit.Executable:
    return compiled("portable")


@pytest.fixture(scope="module")
def saved(executable: vmkit.Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("portable") / "model.vmx"
    executable.export(path, portable=True)
    return path


def test_a_fresh_process_compiles_the_kernels_and_computes_the_same(saved: Path) -> None:
    with zipfile.ZipFile(saved) as file:
        libraries = [name for name in file.namelist() if name.startswith("lib")]
    assert libraries and all(name.endswith(".ll") for name in libraries)
    program = """
import sys, numpy as np, vmkit
machine = vmkit.VirtualMachine(vmkit.load(sys.argv[1]), "cpu")
np.save(sys.argv[2], machine.run(np.load(sys.argv[3])).numpy())
"""
    given, got = saved.with_name("given.npy"), saved.with_name("got.npy")
    np.save(given, DATA)
    subprocess.run([sys.executable, "-c", program, saved, got, given], check=True)
    np.testing.assert_allclose(np.load(got), np.tanh(DATA @ WEIGHT.T), rtol=1e-5, atol=1e-5)


def test_what_is_loaded_is_made_for_the_processor_at_hand(saved: Path, tmp_path: Path) -> None:
    loaded = vmkit.load(saved)
    assert loaded.lib is not None
    source = loaded.lib.inspect_source("ll")
    assert f'"target-cpu"="{native_config()["mcpu"]}"' in source
    assert '"target-cpu"="generic"' not in source
    if host_features().get("fma"):
        # x86-64 as such has no multiply-add.
        assert "vfmadd" in loaded.lib.inspect_source("s")
    # What it is written as again is for the family, as it was.
    loaded.export(tmp_path / "again.vmx", portable=True)
    loaded.export(tmp_path / "as_it_was.vmx")
    assert (tmp_path / "again.vmx").read_bytes() == (tmp_path / "as_it_was.vmx").read_bytes() == saved.read_bytes()


def test_a_file_says_that_it_is_portable(saved: Path, executable: vmkit.Executable) -> None:
    seen = overview(saved)
    assert seen.portable and seen.to_json()["portable"] is True
    assert "portable: kernels are LLVM IR, compiled for the processor that loads them" in str(seen)
    executable.export(saved.with_name("linked.vmx"))
    linked = overview(saved.with_name("linked.vmx"))
    assert not linked.portable and "portable:" not in str(linked)


def test_what_is_for_one_processor_is_not_portable(executable: vmkit.Executable, saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ExecutableError, match=r"compiled for one: llvm -mcpu=\S+.*; compile for a family: target='por"):
        compiled("llvm -mcpu=skylake").export(tmp_path / "model.vmx", portable=True)
    executable.export(tmp_path / "linked.vmx")
    with pytest.raises(ExecutableError, match=r"some are of kind 'library': they were loaded from a shared library"):
        vmkit.load(tmp_path / "linked.vmx").export(tmp_path / "model.vmx", portable=True)
    with pytest.raises(OptionError, match="leaves nothing to link"):
        executable.export(tmp_path / "model.vmx", "gcc", portable=True)
    assert not (tmp_path / "model.vmx").exists()


def test_kernels_in_c_are_not_portable() -> None:
    x = te.placeholder((4,), "float32", "x")
    function = te.create_prim_func([x, te.compute((4,), lambda i: x[i], "y")]).with_attr("global_symbol", "same")
    source = tvm.compile(tvm.IRModule({"same": function}), target="c").mod
    with pytest.raises(ExecutableError, match=r"stores kernels as LLVM IR, and some are of kind 'c'$"):
        portable_libraries([source])


IR = r"""
define void @f() #0 { ret void }
attributes #0 = { nounwind "target-cpu"="CPU" "target-features" "tune-cpu"="CPU" }
attributes #1 = { noinline }
!2 = !{i32 2, !"tvm_target", !"{\22kind\22:\22llvm\22,\22mtriple\22:\22TRIPLE\22,\22mcpu\22:\22CPU\22}"}
"""


def ir(cpu: str) -> str:
    return IR.replace("CPU", cpu).replace("TRIPLE", native_config()["mtriple"])


def test_ir_for_a_family_becomes_ir_for_this_processor() -> None:
    native = native_config()
    made = compiled_for_here(ir("x86-64-v2") if "x86_64" in native["mtriple"] else ir("generic"))
    assert made.count(f'"target-cpu"="{native["mcpu"]}"') == 1 and "tune-cpu" not in made
    assert "attributes #1 = { noinline }" in made
    features = ",".join(native.get("mattr", ()))
    assert f'"target-features"="{features}" }}' in made if features else '"target-features"' not in made
    flag = json.loads(made.split('!"tvm_target", !"')[1].split('"}')[0].replace(r"\22", '"'))
    assert flag == {"kind": "llvm", **{name: native[name] for name in ("mtriple", "mcpu", "mattr") if name in native}}


def test_other_ir_stays_as_it_is() -> None:
    for_one = ir(native_config()["mcpu"])
    assert compiled_for_here(for_one) == for_one
    assert compiled_for_here("define void @f() { ret void }") == "define void @f() { ret void }"
