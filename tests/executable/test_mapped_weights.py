"""Weights that processes have in memory once: which files are mapped, and what may happen to one that is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.cache import Cache, Key
from vmkit.errors import ExecutableError
from vmkit.executable import file_memory
from vmkit.executable.archive import ALIGNMENT, read_archive

SMAPS = Path("/proc/self/smaps")
pytestmark = pytest.mark.skipif(not SMAPS.exists(), reason="only Linux says what of a file is mapped")

SIDE = 1024
WEIGHT = np.random.default_rng(0).standard_normal((SIDE, SIDE)).astype("float32")
ONES = np.ones((1, SIDE), "float32")
EXPECTED = ONES @ WEIGHT.T
MODEL_BYTES = WEIGHT.nbytes

CHILD = f"""
import sys, numpy as np, vmkit
machine = vmkit.VirtualMachine(vmkit.load(sys.argv[1]), "cpu")
machine.run(np.ones((1, {SIDE}), "float32"))
print(open("/proc/self/smaps").read())
"""


def mapped(path: Path, smaps: str | None = None) -> dict[str, int]:
    """Return of a file's mappings how many kB are in memory, this process's part of them, and what it wrote to."""
    found, is_here = dict.fromkeys(("Rss", "Pss", "Private_Dirty"), 0), False
    for line in (SMAPS.read_text() if smaps is None else smaps).splitlines():
        name = line.partition(":")[0]
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            is_here = line.endswith(str(path))
        elif is_here and name in found:
            found[name] += int(line.split()[1])
    return found


@pytest.fixture(scope="module")
def executable() -> vmkit.Executable:
    x = relay.var("x", shape=(1, SIDE))
    return vmkit.compile(relay.Function([x], relay.nn.dense(x, relay.const(WEIGHT))), "native")


@pytest.fixture
def path(executable: vmkit.Executable, tmp_path: Path) -> Path:
    executable.export(tmp_path / "model.vmx")
    return tmp_path / "model.vmx"


def result(machine: vmkit.VirtualMachine) -> np.ndarray:
    return machine.run(ONES).numpy()


def test_two_processes_have_the_weights_of_a_read_only_file_once(path: Path) -> None:
    path.chmod(0o444)
    machine = vmkit.VirtualMachine(vmkit.load(path), "cpu")
    np.testing.assert_allclose(result(machine), EXPECTED, rtol=1e-3, atol=1e-3)
    alone = mapped(path)
    assert alone["Rss"] * 1024 >= MODEL_BYTES and alone["Private_Dirty"] == 0
    said = subprocess.run([sys.executable, "-c", CHILD, path], capture_output=True, text=True, check=True).stdout
    beside = mapped(path, said)
    assert beside["Rss"] * 1024 >= MODEL_BYTES and beside["Private_Dirty"] == 0
    assert beside["Pss"] < 0.6 * beside["Rss"]


def test_what_is_mapped_goes_with_its_executable(path: Path) -> None:
    machine = vmkit.VirtualMachine(vmkit.load(path, map_weights=True), "cpu")
    kept = machine.run(ONES)
    assert mapped(path)["Rss"]
    del machine
    assert mapped(path)["Rss"] == 0
    np.testing.assert_allclose(kept.numpy(), EXPECTED, rtol=1e-3, atol=1e-3)


def test_a_file_that_is_mapped_may_be_replaced_and_removed(path: Path, executable: vmkit.Executable) -> None:
    machine = vmkit.VirtualMachine(vmkit.load(path, map_weights=True), "cpu")
    executable.export(path)
    np.testing.assert_allclose(result(machine), EXPECTED, rtol=1e-3, atol=1e-3)
    later = vmkit.VirtualMachine(vmkit.load(path, map_weights=True), "cpu")
    path.unlink()
    np.testing.assert_allclose(result(later), EXPECTED, rtol=1e-3, atol=1e-3)


def test_a_file_that_may_be_written_to_is_copied_and_may_be_shortened(path: Path) -> None:
    machine = vmkit.VirtualMachine(vmkit.load(path), "cpu")
    assert mapped(path)["Rss"] == 0
    os.truncate(path, 100)
    np.testing.assert_allclose(result(machine), EXPECTED, rtol=1e-3, atol=1e-3)
    for way in (None, True):
        with pytest.raises(ExecutableError, match="truncated"):
            vmkit.load(path, map_weights=way)
    path.chmod(0o444)
    with pytest.raises(ExecutableError, match="truncated"):
        vmkit.load(path)


def test_a_read_only_file_is_copied_if_asked_or_on_another_machine(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.chmod(0o444)
    machine = vmkit.VirtualMachine(vmkit.load(path, map_weights=False), "cpu")
    assert mapped(path)["Rss"] == 0
    device = path.stat().st_dev
    mounts = f"36 35 {os.major(device)}:{os.minor(device)} / /data rw,noatime shared:1 - KIND server:/data rw\n"
    monkeypatch.setattr(file_memory, "_MOUNTS", tmp_path / "mountinfo")
    for kind, is_mapped in [("nfs4", False), ("ext4", True)]:
        (tmp_path / "mountinfo").write_text(mounts.replace("KIND", kind))
        loaded = vmkit.load(path)
        assert bool(mapped(path)["Rss"]) is is_mapped
        del loaded
    np.testing.assert_allclose(result(machine), EXPECTED, rtol=1e-3, atol=1e-3)


def test_an_entry_of_a_cache_is_mapped(executable: vmkit.Executable, tmp_path: Path) -> None:
    cache, key = Cache(tmp_path / "cache"), Key({"model": "one"})
    cache.put(key, executable)
    cache.put(key, executable)  # one that nobody may write to is replaced all the same
    found = cache.get(key)
    assert found is not None
    machine = vmkit.VirtualMachine(found, "cpu")
    assert mapped(cache.entries()[0].path)["Rss"] * 1024 >= MODEL_BYTES
    cache.clear()
    np.testing.assert_allclose(result(machine), EXPECTED, rtol=1e-3, atol=1e-3)


def test_members_of_a_mapping_are_aligned_and_writing_to_them_changes_no_file(path: Path) -> None:
    before = path.read_bytes()
    _, members = read_archive(path, mapped=True)
    weights = np.frombuffer(members["weights.bin"], "uint8")
    assert weights.ctypes.data % ALIGNMENT == 0
    weights[:8] = 255 - weights[:8]
    assert path.read_bytes() == before
