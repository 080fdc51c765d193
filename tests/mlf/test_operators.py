"""Archives of single operators, and kernels as object files."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tvm import IRModule, te, tirx

import vmkit
from tests.mlf.built import FLAGS
from tests.mlf.networks import keyword_spotting
from vmkit import relay
from vmkit.errors import ExecutableError, ModelError, OptionError
from vmkit.target.llvm import default_triple


def sums(name: str, first: int = 2) -> tirx.PrimFunc:
    a, b = te.placeholder((first,), name="A", dtype="int8"), te.placeholder((1,), name="B", dtype="int8")
    made = te.create_prim_func([a, b, te.compute(a.shape, lambda i: a[i] + b[0], name="C")])
    return made.with_attr("global_symbol", name)


def test_operators_of_te_and_tir_are_functions_of_c(tmp_path: Path) -> None:
    a = te.placeholder((2,), name="A", dtype="int8")
    b = te.placeholder((1,), name="B", dtype="int8")
    c = te.compute(a.shape, lambda i: a[i] + b[0], name="C")
    metadata = vmkit.mlf.export([a, b, c], tmp_path / "add.tar", model_name="add")
    assert (metadata["version"], metadata["style"], metadata["executors"], metadata["target"]) == (
        7,
        "operator",
        [],
        ["c"],
    )
    assert metadata["memory"] == {
        "add": [
            {"size_bytes": size, "shape": [size], "dtype": "int8", "input_binding": name}
            for name, size in (("A", 2), ("B", 1), ("C", 2))
        ]
    }
    library = vmkit.mlf.load(tmp_path / "add.tar")
    assert sorted(library.files) == [
        "codegen/host/include/add.h",
        "codegen/host/src/lib0.c",
        "codegen/host/src/lib1.c",
        "metadata.json",
        "src/tir-1.txt",
    ]
    with pytest.raises(ExecutableError, match="it holds operators, and no model that could be run"):
        library.build()
    library.extract(tmp_path / "out")
    function = built_library(tmp_path / "out").add
    out = np.zeros(2, "int8")
    assert (
        function(*(each.ctypes.data_as(ctypes.c_void_p) for each in (np.array([5, 127], "int8"), np.int8([2]), out)))
        == 0
    )
    assert out.tolist() == [7, -127]


def built_library(folder: Path) -> ctypes.CDLL:
    files = [*folder.glob("codegen/host/src/*.c"), *folder.glob("codegen/host/lib/*.o")]
    command = ["gcc", *FLAGS, "-shared", "-fPIC", "-o", str(folder / "l.so"), *map(str, files), "-lm"]
    done = subprocess.run([*command, f"-I{folder / 'codegen/host/include'}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "l.so"))


def test_several_targets_in_one_archive(tmp_path: Path) -> None:
    llvm = f"llvm -mtriple={default_triple()}"
    x = relay.var("x", shape=(3,), dtype="int8")
    modules = {"c": IRModule({"one": sums("one")}), llvm: sums("two", 3), "c -mcpu=any": relay.Function([x], -x)}
    metadata = vmkit.mlf.export(modules, tmp_path / "both.tar", model_name="both")
    assert (list(metadata["memory"]), metadata["target"]) == (["one", "two", "negative"], ["c", llvm, "c -mcpu=any"])
    library = vmkit.mlf.load(tmp_path / "both.tar")
    head = ["Model Library Format 7, operator: both", f"  target c, {llvm}, c -mcpu=any"]
    assert str(library).splitlines()[:3] == [*head, "  one(A: int8[2], B: int8[1], C: int8[2])"]
    assert {"codegen/host/lib/lib0.o", "codegen/host/src/lib2.c"} < set(library.files)
    text = library.files["src/tir-1.txt"].decode()
    assert "def one(" in text and "def two(" in text
    library.extract(tmp_path / "out")
    out, a, b = np.zeros(3, "int8"), np.array([1, 2, 3], "int8"), np.array([4], "int8")
    built = built_library(tmp_path / "out")
    built.two(*(each.ctypes.data_as(ctypes.c_void_p) for each in (a, b, out)))
    assert out.tolist() == [5, 6, 7]
    built.negative(*(each.ctypes.data_as(ctypes.c_void_p) for each in (a, out)))
    assert out.tolist() == [-1, -2, -3]


def test_kernels_of_relay_functions(tmp_path: Path) -> None:
    x = relay.var("x", shape=(4, 3))
    network = relay.Function([x], relay.nn.relu(relay.nn.softmax(x)))
    metadata = vmkit.mlf.export(network, tmp_path / "softmax.tar", style="operator", model_name="softmax")
    ((name, params),) = metadata["memory"].items()
    assert ("softmax" in name, [p["shape"] for p in params]) == (True, [[4, 3], [4, 3]])


def test_functions_have_no_names_of_the_c_library(tmp_path: Path) -> None:
    x = relay.var("NULL", shape=(3,), dtype="int8")
    operators = IRModule({name: sums(name) for name in ("exp", "free", "modf", "memcmp", "double", "sum")})
    vmkit.mlf.export({"c": operators, "c -mcpu=any": relay.Function([x], relay.abs(x))}, tmp_path / "some.tar")
    vmkit.mlf.load(tmp_path / "some.tar").extract(tmp_path / "out")
    built, out, a = built_library(tmp_path / "out"), np.zeros(3, "int8"), np.array([-1, 2, -3], "int8")
    assert all(hasattr(built, name) for name in ("exp_", "free_", "modf_", "memcmp_", "double_", "sum"))
    built.abs_(*(each.ctypes.data_as(ctypes.c_void_p) for each in (a, out)))
    assert out.tolist() == [1, 2, 3]


def test_operators_that_cannot_be_exported_say_why(tmp_path: Path) -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    with pytest.raises(ModelError, match="default: A is of a size that is known at run time only"):
        vmkit.mlf.export([a, te.compute(a.shape, lambda i: a[i] * 2)], tmp_path / "x.tar")
    with pytest.raises(ModelError, match="one: two functions have that name"):
        vmkit.mlf.export({"c": sums("one"), "llvm": sums("one")}, tmp_path / "x.tar")
    for one, other in (("abs", "abs_"), ("one", "one_kernel")):
        with pytest.raises(ModelError, match=f"{other}: two functions have that name"):
            vmkit.mlf.export({"c": sums(one), "llvm": sums(other)}, tmp_path / "x.tar")
    with pytest.raises(OptionError, match="expected 'full-model' or 'operator', got 'other'"):
        vmkit.mlf.export(sums("one"), tmp_path / "x.tar", style="other")
    with pytest.raises(
        OptionError, match="executor='graph', interface='packed': operators are functions by themselves"
    ):
        vmkit.mlf.export(sums("one"), tmp_path / "x.tar", executor="graph", interface="packed")
    with pytest.raises(OptionError, match="params and shapes are for models"):
        vmkit.mlf.export(sums("one"), tmp_path / "x.tar", params={"A": np.zeros(2, "int8")})
    assert list(tmp_path.iterdir()) == []


def test_kernels_of_a_model_as_objects_for_named_processors(tmp_path: Path) -> None:
    network, x = keyword_spotting(), np.random.default_rng(0).random((1, 1, 25, 10), dtype="float32")
    vmkit.mlf.export(network, tmp_path / "c.tar")
    (expected,) = vmkit.mlf.load(tmp_path / "c.tar").build().run(x)
    vmkit.mlf.export(network, tmp_path / "host.tar", target=f"llvm -mtriple={default_triple()}")
    (got,) = vmkit.mlf.load(tmp_path / "host.tar").build().run(x)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    machines = {
        "thumbv7em-none-eabi -mcpu=cortex-m4 -mfloat-abi=soft": (40, 1),
        "riscv32-unknown-elf": (243, 1),
        "aarch64-linux-gnu": (183, 2),
    }
    for triple, (machine, words) in machines.items():
        vmkit.mlf.export(network, tmp_path / "other.tar", target=f"llvm -mtriple={triple}")
        made = vmkit.mlf.load(tmp_path / "other.tar").files["codegen/host/lib/default_lib0.o"]
        assert (made[:4], made[4], int.from_bytes(made[18:20], "little")) == (b"\x7fELF", words, machine)
