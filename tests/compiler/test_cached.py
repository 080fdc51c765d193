"""Compiling through a cache: when an entry is found, and when it must not be."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

import vmkit
from vmkit import byoc, relay, tophub
from vmkit.cache import Cache
from vmkit.compiler.cache_key import model_digest
from vmkit.errors import OptionError
from vmkit.executable.executable import Executable
from vmkit.tophub.choosing import entered


def scaled(factor: float) -> onnx.ModelProto:
    """Return an ONNX model that multiplies by a number."""
    weight = numpy_helper.from_array(np.full(2, factor, "float32"), "w")
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "scaled", *ends, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def result(executable: Executable) -> list[float]:
    return list(vmkit.VirtualMachine(executable).run(np.ones((1, 2), "float32")).numpy()[0])


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> None:
    """Have the log keep what is said at level INFO."""
    caplog.set_level(logging.INFO, "vmkit")


def outcome(messages: list[str]) -> str:
    """Return the last line about a lookup."""
    return next(line for line in reversed(messages) if line.startswith(("cache hit", "cache miss", "not cached")))


@pytest.mark.usefixtures("said")
def test_a_file_is_found_by_its_content(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache, file = tmp_path / "cache", tmp_path / "model.onnx"
    onnx.save(scaled(3), file)
    assert result(vmkit.compile(file, "llvm", cache=cache)) == [3, 3]
    assert outcome(caplog.messages) == "cache miss: the model was not compiled before"
    moved = shutil.move(file, tmp_path / "other.onnx")
    first = vmkit.compile(moved, "llvm", cache=str(cache))
    assert outcome(caplog.messages).startswith("cache hit")
    assert result(first) == [3, 3]
    onnx.save(scaled(5), moved)
    assert result(vmkit.compile(moved, "llvm", cache=cache)) == [5, 5]
    assert outcome(caplog.messages) == "cache miss: the model was not compiled before"


def test_what_is_found_is_what_was_compiled(tmp_path: Path) -> None:
    first, second = (vmkit.compile(scaled(2), "llvm -num-cores=1", cache=tmp_path) for _ in range(2))
    assert str(second.signature) == str(first.signature)
    assert (second.bytecode, dict(second.info), str(second.target)) == (
        first.bytecode,
        dict(first.info),
        str(first.target),
    )


@pytest.mark.usefixtures("said")
def test_whatever_compilation_depends_on_is_another_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def compiled(**given: Any) -> str:
        vmkit.compile(scaled(2), given.pop("target", "llvm"), cache=tmp_path, **given)
        return outcome(caplog.messages).removeprefix("cache miss: the model was compiled before with another ")

    compiled()
    assert compiled(target="llvm -num-cores=1") == "target"
    assert compiled(shapes={"x": [4, 2]}) == "shapes"
    with vmkit.PassContext(opt_level=0):
        assert compiled() == "opt_level"
    with vmkit.PassContext(disabled_pass=["FoldConstant"]):
        assert compiled() == "passes"
    with vmkit.PassContext(config={"tirx.disable_vectorize": True}):
        assert compiled() == "config"
    bundled = next(iter(tophub.RECORDS.glob("*.json")))
    with entered(tophub.Records.read(bundled)):
        assert compiled() == "records"
    with tvm.target.Target({"kind": "llvm", "num-cores": 1}):
        assert compiled(target=None).startswith("cache hit")


@pytest.mark.usefixtures("said")
def test_modules_are_found_by_structure_and_bound_arrays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def compiled(value: float) -> list[float]:
        x, w = relay.var("x", shape=(1, 2)), relay.var("w", shape=(2,))
        function = relay.Function([x, w], relay.multiply(x, w))
        return result(vmkit.compile(function, "llvm", params={"w": np.full(2, value, "float32")}, cache=tmp_path))

    assert compiled(2) == [2, 2]
    assert compiled(2) == [2, 2]
    assert outcome(caplog.messages).startswith("cache hit")
    assert compiled(3) == [3, 3]
    assert outcome(caplog.messages) == "cache miss: the model was compiled before with another params"


def test_weights_in_files_beside_a_model_count(tmp_path: Path) -> None:
    file, weights = tmp_path / "model.onnx", tmp_path / "weights.bin"
    onnx.save(scaled(2), file, save_as_external_data=True, location=weights.name, size_threshold=0)
    before = model_digest(file)
    assert model_digest(tmp_path) is not None
    data = bytearray(weights.read_bytes())
    data[0] ^= 1
    weights.write_bytes(data)
    assert model_digest(file) != before
    weights.unlink()
    assert model_digest(file) not in (before, None)
    assert model_digest(onnx.load(file, load_external_data=False)) is None  # nobody knows where its files are


def test_files_that_are_named_in_another_order_count_too(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    onnx.save(scaled(2), file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    key, value = b"\x0a\x08location", b"\x12\x0bweights.bin"
    data = file.read_bytes()
    assert data.count(key + value) == 1
    file.write_bytes(data.replace(key + value, value + key))
    assert onnx.load(file).graph.initializer[0].external_data == []  # it is read all the same
    before = model_digest(file)
    (tmp_path / "weights.bin").write_bytes(np.full(2, 7, "float32").tobytes())
    assert model_digest(file) != before


@pytest.mark.usefixtures("said")
def test_what_depends_on_more_is_not_cached(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with vmkit.PassContext(instruments=[tvm.ir.instrument.PassTimingInstrument()]):
        vmkit.compile(scaled(2), "llvm", cache=tmp_path)
    assert outcome(caplog.messages) == "not cached: passes are observed"
    vmkit.compile(scaled(2), "llvm -mtriple=aarch64-linux-gnu", cache=tmp_path)
    assert outcome(caplog.messages).startswith("not cached: the code is for another machine")
    assert Cache(tmp_path).entries() == []


@pytest.mark.usefixtures("said")
def test_what_other_code_generators_made_is_not_cached(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    x = relay.var("x", shape=(2,))
    mod = byoc.partition(relay.Function([x], x + x), "ccompiler").module
    for _ in range(2):
        executable = vmkit.compile(mod, "llvm", cache=tmp_path)
        assert outcome(caplog.messages).startswith("not cached: other code generators made parts of it")
    assert vmkit.VirtualMachine(executable).run(np.ones(2, "float32")).numpy().tolist() == [2, 2]
    assert list(tmp_path.glob("*.vmx")) == []


def test_a_cache_that_cannot_keep_it_does_not_make_compiling_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise vmkit.errors.ExecutableError("no space left")

    monkeypatch.setattr(Executable, "write", full)
    assert result(vmkit.compile(scaled(2), "llvm", cache=tmp_path)) == [2, 2]
    assert "the cache cannot keep it: no space left" in caplog.text


def test_a_cache_is_a_folder_or_a_cache(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cache is 3, expected True, False, a folder or a"):
        vmkit.compile(scaled(2), "llvm", cache=3)  # type: ignore[arg-type]
    kept = Cache(tmp_path)
    vmkit.compile(scaled(2), "llvm", cache=kept)
    assert len(kept.entries()) == 1


def test_true_is_the_folder_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vmkit.cache.cache.default_folder", lambda: tmp_path / "default")
    vmkit.compile(scaled(2), "llvm", cache=True)
    assert len(Cache().entries()) == 1
