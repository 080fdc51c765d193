"""Kernels that a cache keeps by themselves: a changed model takes along what stayed, and gets the same values."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.cache import Cache
from vmkit.compiler import kernel_objects
from vmkit.compiler.cache_key import kernel_key
from vmkit.compiler.units import Unit
from vmkit.errors import ExecutableError
from vmkit.target import canonical_target

RNG = np.random.default_rng(0)
SIDE = 48
WEIGHTS = [RNG.standard_normal((SIDE, SIDE)).astype("float32") / 8 for _ in range(3)]
DATA = RNG.standard_normal((5, SIDE)).astype("float32")


def network(first: str = "tanh") -> relay.Function:
    """Return three layers, of which the first one's function may differ."""
    x = relay.var("x", shape=(5, SIDE))
    y = getattr(relay, first)(relay.nn.dense(x, relay.const(WEIGHTS[0])))
    y = relay.nn.softmax(relay.nn.dense(y, relay.const(WEIGHTS[1])))
    return relay.Function([x], relay.cumsum(relay.nn.dense(y, relay.const(WEIGHTS[2])), axis=1))


def expected(first: str = "tanh") -> np.ndarray:
    y = np.exp(getattr(np, first)(DATA @ WEIGHTS[0].T) @ WEIGHTS[1].T)
    return np.cumsum(y / y.sum(axis=1, keepdims=True) @ WEIGHTS[2].T, axis=1)


def compiled(folder: Path, function: relay.Function | None = None) -> vmkit.Executable:
    return vmkit.compile(function if function is not None else network(), "native", cache=folder)


def check(executable: vmkit.Executable, first: str = "tanh") -> None:
    got = vmkit.VirtualMachine(executable, "cpu").run(DATA).numpy()
    np.testing.assert_allclose(got, expected(first), rtol=1e-4, atol=1e-5)


def kernels_said(caplog: pytest.LogCaptureFixture) -> tuple[int, int]:
    """Return how many kernels were found and how many were built, as the log said last."""
    lines = [re.fullmatch(r"cache: (\d+) of (\d+) kernels found, (\d+) built", line) for line in caplog.messages]
    found, total, built = map(int, [line for line in lines if line][-1].groups())
    assert found + built == total
    return found, built


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "vmkit")


def test_a_changed_model_takes_the_kernels_that_stayed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check(compiled(tmp_path))
    found, built = kernels_said(caplog)
    assert (found, built > 3) == (0, True)
    check(compiled(tmp_path, network("sin")), "sin")
    kept, new = kernels_said(caplog)
    # What is new: the first layer, and the group that calls all of them.
    assert kept + new == built and 0 < new <= 2
    # What it was linked to is in its file, which is found as a whole.
    again = compiled(tmp_path, network("sin"))
    check(again, "sin")
    assert caplog.messages[-1].startswith("cache hit")
    again.export(tmp_path / "again.vmx")
    check(vmkit.load(tmp_path / "again.vmx"), "sin")

    cache = Cache(tmp_path)
    assert len(cache.kernel_sizes()) == built + new
    assert cache.clear() == 2 and cache.kernel_sizes() == []


def test_loops_and_sizes_that_data_decides_are_built_in_parts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = """
    #[version = "0.0.5"]
    def @main(%n: int32, %x: Tensor[(m, 4), float32]) {
      if (less(%n, 1)) { %x } else { @main(subtract(%n, 1), nn.relu(subtract(multiply(%x, 2f), 1f))) }
    }
    """
    wanted = np.arange(12, dtype="float32").reshape(3, 4)
    for _ in range(5):
        wanted = np.maximum(wanted * 2 - 1, 0)
    executable = vmkit.compile(relay.parse(text), "native", cache=tmp_path)
    got = vmkit.VirtualMachine(executable, "cpu").run(np.int32(5), np.arange(12, dtype="float32").reshape(3, 4))
    np.testing.assert_array_equal(got.numpy(), wanted)
    assert kernels_said(caplog)[1] > 0


def test_an_altered_kernel_is_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check(compiled(tmp_path))
    _, built = kernels_said(caplog)
    for entry in Cache(tmp_path).entries():
        entry.path.unlink()
    altered, cut, linked, *_ = sorted(tmp_path.glob("*.o"))
    data = bytearray(altered.read_bytes())
    data[-1] ^= 1
    altered.write_bytes(data)
    cut.write_bytes(cut.read_bytes()[:10])
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    check(compiled(tmp_path))
    assert kernels_said(caplog) == (built - 3, 3)
    assert sum("the kernel was altered and is removed" in line for line in caplog.messages) == 3
    assert (tmp_path / "elsewhere").exists()


def test_kernels_count_for_the_limit(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=1)
    check(vmkit.compile(network(), "native", cache=cache))
    assert cache.entries() == [] and cache.kernel_sizes() == []


@pytest.mark.parametrize("linker", ["missing", "failing"])
def test_without_a_linker_kernels_are_not_kept(
    linker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("  ld: no space  ")

    monkeypatch.setattr(kernel_objects, "linker_for", lambda _: None if linker == "missing" else failing)
    monkeypatch.setattr(kernel_objects, "_objects", lambda *_: [])
    check(compiled(tmp_path))
    why = "no C compiler is there to link them" if linker == "missing" else "they cannot be linked: ld: no space"
    assert f"cache: kernels are not kept, since {why}" in caplog.messages
    assert len(Cache(tmp_path).entries()) == 1


def test_a_kernel_that_cannot_be_written_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise ExecutableError("no space left")

    monkeypatch.setattr("vmkit.cache.kernels.Kernels.put", full)
    check(compiled(tmp_path))
    assert "a kernel was built, but the cache cannot keep it: no space left" in caplog.messages


def test_a_kernel_depends_on_its_text_target_options_and_pipeline() -> None:
    native, other = canonical_target("native").primary, canonical_target("llvm").primary
    key = kernel_key("text", "one", native)
    assert key.digest == kernel_key("text", "one", native).digest
    assert key.differences(kernel_key("another", "one", native)) == ["kernel"]
    assert key.differences(kernel_key("text", "other", native)) == ["pipeline"]
    assert "target" in key.differences(kernel_key("text", "one", other))
    with vmkit.PassContext(opt_level=3, config={"tirx.disable_assert": True}):
        assert key.differences(kernel_key("text", "one", native)) == ["opt_level", "config"]
    assert {"vmkit", "tvm", "tvm_ffi", "llvm"} <= set(key.parts)


def test_values_that_were_numbered_otherwise_are_the_same_kernel() -> None:
    def scaled(name: str, factor: float) -> tvm.tirx.PrimFunc:
        x = tvm.te.placeholder((4,), "float32", name)
        return tvm.te.create_prim_func([x, tvm.te.compute((4,), lambda i: x[i] * factor, "y")])

    texts = [kernel_objects._text(f) for f in (scaled("lv3", 2), scaled("lv17", 2), scaled("lv3", 3), scaled("a", 2))]
    assert texts[0] == texts[1] and len(set(texts)) == 3
    # What a program calls it by is another thing, also where it looks like such a name.
    target = canonical_target("native").primary
    units = [Unit(tvm.IRModule({name: scaled("x", 2)}), "vmkit") for name in ("lv3", "lv17", "lv3")]
    one, other, same = (kernel_objects._key_of(unit, target).digest for unit in units)
    assert one == same != other
