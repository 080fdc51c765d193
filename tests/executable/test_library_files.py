"""Libraries of kernels as files: with a linker, without one, and what cannot be written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from vmkit.errors import ExecutableError
from vmkit.executable import library_files
from vmkit.executable.library_files import export_libraries
from vmkit.target.llvm import default_triple


@pytest.fixture(scope="module")
def library() -> tvm.runtime.Module:
    """``twice(x: float32[4], y: float32[4])``, compiled for this machine."""
    x = te.placeholder((4,), "float32", "x")
    function = te.create_prim_func([x, te.compute((4,), lambda i: x[i] * 2, "y")]).with_attr("global_symbol", "twice")
    return tvm.compile(tvm.IRModule({"twice": function}), target="llvm").mod


def twice(module: tvm.runtime.Module) -> list[float]:
    x, y = tvm.runtime.tensor(np.arange(4, dtype="float32")), tvm.runtime.empty((4,), "float32")
    module["twice"](x, y)
    return y.numpy().tolist()


def loaded(tmp_path: Path, name: str, data: bytes) -> tvm.runtime.Module:
    (tmp_path / name).write_bytes(data)
    load = tvm.get_global_func("ffi.Module.load_from_file.ll") if name.endswith(".ll") else None
    return load(str(tmp_path / name), "ll") if load else tvm.runtime.load_module(str(tmp_path / name))


def asked(monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Any] | None = None) -> list[tuple[Any, ...]]:
    """Have the search for a linker give `answer`, and return what it is asked for."""
    questions: list[tuple[Any, ...]] = []
    monkeypatch.setattr(library_files, "linker_for", lambda *args: questions.append(args) or answer)
    return questions


def test_a_linked_library_runs(library: tvm.runtime.Module, tmp_path: Path) -> None:
    ((name, data),) = export_libraries([library], None).items()
    assert name == "lib0.so" and data.startswith(b"\x7fELF")
    assert twice(loaded(tmp_path, name, data)) == [0, 2, 4, 6]


def test_every_library_has_a_file(library: tvm.runtime.Module) -> None:
    assert list(export_libraries([library, library], None)) == ["lib0.so", "lib1.so"]
    assert export_libraries([], None) == {}


def test_without_a_linker_it_is_llvm_ir_and_said_so(
    library: tvm.runtime.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked(monkeypatch)
    with caplog.at_level(logging.WARNING):
        ((name, data),) = export_libraries([library], None).items()
        assert export_libraries([], None) == {}
    assert name == "lib0.ll" and b"define " in data
    assert len(caplog.records) == 1 and "kernels are stored as LLVM IR, which takes longer to load" in caplog.text
    assert twice(loaded(tmp_path, name, data)) == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("target", "triple"),
    [
        (None, default_triple()),
        (tvm.target.Target("llvm"), default_triple()),
        (tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}), "aarch64-linux-gnu"),
        (
            tvm.target.Target({"kind": "cuda", "arch": "sm_80"}, {"kind": "llvm", "mtriple": "aarch64-linux-gnu"}),
            "aarch64-linux-gnu",
        ),
    ],
    ids=["none", "here", "there", "host"],
)
def test_it_is_linked_for_the_host(target: Any, triple: str, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = asked(monkeypatch)
    export_libraries([], target, "my-gcc")
    assert questions == [(triple, "my-gcc")]


def test_a_linker_that_fails_says_why(library: tvm.runtime.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError("  ld: no space  ")

    asked(monkeypatch, failing)
    with pytest.raises(ExecutableError, match=r"the kernels cannot be linked for \S+: ld: no space$"):
        export_libraries([library], None)


def test_a_library_from_a_file_cannot_be_written_again(library: tvm.runtime.Module, tmp_path: Path) -> None:
    ((name, data),) = export_libraries([library], None).items()
    with pytest.raises(ExecutableError, match="loaded from a shared library and cannot be written again"):
        export_libraries([loaded(tmp_path, name, data)], None)


def test_source_needs_a_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch)
    x = te.placeholder((4,), "float32", "x")
    function = te.create_prim_func([x, te.compute((4,), lambda i: x[i], "y")]).with_attr("global_symbol", "same")
    source = tvm.compile(tvm.IRModule({"same": function}), target="c").mod
    with pytest.raises(ExecutableError, match=r"no C compiler for \S+ was found, and kernels of kind 'c' cannot be"):
        export_libraries([source], None)
