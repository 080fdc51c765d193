"""Executables on disk: found by what they were compiled from, whole or not there, and only this user's."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.cache import Cache, Key, default_folder
from vmkit.errors import OptionError
from vmkit.executable.executable import Executable

ONE, OTHER, THIRD = (Key({"model": name, "target": "llvm"}) for name in ("one", "other", "third"))


@pytest.fixture(scope="module")
def executable() -> Executable:
    x = relay.var("x", shape=(2,))
    return vmkit.compile(relay.Function([x], relay.add(x, x)), target="llvm")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def doubles(executable: Executable | None) -> bool:
    """Tell whether an executable is the one that the tests keep."""
    assert executable is not None
    return bool((vmkit.VirtualMachine(executable).run(np.array([1, 2], "float32")).numpy() == [2, 4]).all())


def test_what_was_put_is_found_and_runs(cache: Cache, executable: Executable) -> None:
    assert cache.get(ONE) is None
    cache.put(ONE, executable)
    assert doubles(cache.get(ONE))
    assert cache.get(OTHER) is None
    assert [entry.key for entry in cache.entries()] == [ONE]


def test_a_miss_names_what_is_different(cache: Cache, executable: Executable, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cache.put(Key({"model": "one", "target": "cuda", "opt_level": "3"}), executable)
    cache.put(Key({"model": "one", "target": "cuda", "opt_level": "2"}), executable)
    cache.get(Key({"model": "one", "target": "llvm", "opt_level": "2"}))
    assert caplog.messages[-1] == "cache miss: the model was compiled before with another target"
    cache.get(Key({"model": "two", "target": "llvm", "opt_level": "2"}))
    assert caplog.messages[-1] == "cache miss: the model was not compiled before"


@pytest.mark.parametrize("damage", ["truncated", "altered", "empty", "other", "folder"])
def test_a_bad_entry_is_a_miss_and_is_removed(cache: Cache, executable: Executable, damage: str) -> None:
    cache.put(ONE, executable)
    (entry,) = cache.entries()
    data = bytearray(entry.path.read_bytes())
    middle = len(data) // 2
    data[middle] ^= 1
    entry.path.unlink()
    match damage:
        case "truncated":
            entry.path.write_bytes(data[:middle])
        case "altered":
            entry.path.write_bytes(data)
        case "empty":
            entry.path.touch()
        case "other":  # another executable under this name
            cache.put(OTHER, executable)
            (cache.folder / f"{OTHER.digest}.vmx").rename(entry.path)
        case "folder":
            entry.path.mkdir()
    assert cache.get(ONE) is None
    assert entry.path.is_dir() if damage == "folder" else not entry.path.exists()


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_link_is_no_entry(cache: Cache, executable: Executable, tmp_path: Path) -> None:
    cache.put(ONE, executable)
    (entry,) = cache.entries()
    entry.path.rename(tmp_path / "elsewhere.vmx")
    entry.path.symlink_to(tmp_path / "elsewhere.vmx")
    assert cache.get(ONE) is None
    assert not entry.path.is_symlink()
    assert (tmp_path / "elsewhere.vmx").exists()


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path, executable: Executable) -> None:
    size = _size_of_one(tmp_path / "measured", executable)
    cache = Cache(tmp_path / "cache", limit=2 * size + size // 2)
    for age, key in ((30, ONE), (20, OTHER)):
        cache.put(key, executable)
        then = time.time() - age
        os.utime(cache.folder / f"{key.digest}.vmx", (then, then))
    assert doubles(cache.get(ONE))  # which makes it the one that was used last
    cache.put(THIRD, executable)
    assert [entry.key for entry in cache.entries()] == [THIRD, ONE]
    assert cache.get(OTHER) is None


def _size_of_one(folder: Path, executable: Executable) -> int:
    cache = Cache(folder)
    cache.put(ONE, executable)
    return cache.entries()[0].size


def test_one_that_is_larger_than_all_may_be_is_not_kept(tmp_path: Path, executable: Executable) -> None:
    cache = Cache(tmp_path / "cache", limit=10)
    cache.put(ONE, executable)
    assert cache.entries() == []


@pytest.mark.parametrize("limit", [-1, 1.5, True, "1G"])
def test_a_limit_is_a_number_of_bytes(tmp_path: Path, limit: object) -> None:
    with pytest.raises(OptionError, match="the limit of a cache is"):
        Cache(tmp_path, limit=limit)  # type: ignore[arg-type]


def test_clearing_removes_entries_and_nothing_else(cache: Cache, executable: Executable) -> None:
    cache.put(ONE, executable)
    cache.put(OTHER, executable)
    mine = cache.folder / "notes.txt"
    mine.write_text("mine")
    (cache.folder / f".{ONE.digest}.vmx.{'0' * 12}.part").touch()  # of a writer that was killed
    (cache.folder / f"{ONE.digest}.lock").touch()
    assert cache.clear() == 2
    assert list(cache.folder.iterdir()) == [mine]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no modes")
def test_a_folder_is_private_and_one_that_others_write_to_is_refused(tmp_path: Path) -> None:
    made = Cache(tmp_path / "new" / "cache").folder
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o770)
    with pytest.raises(OptionError, match=f"has mode 0770, so others may write to it.*chmod 700 {made}"):
        Cache(made)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives folders away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(OptionError, match="belongs to user 12345, and this is user 0"):
        Cache(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="cannot be used"):
        Cache(tmp_path / "file")


@pytest.mark.skipif(sys.platform != "linux", reason="the convention of Linux")
def test_the_default_folder_is_where_the_system_has_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "vmkit"
    monkeypatch.setenv("HOME", str(tmp_path))
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert default_folder() == tmp_path / ".cache" / "vmkit"


def test_others_wait_for_who_compiles_the_same(cache: Cache, executable: Executable) -> None:
    entered, found = threading.Event(), list[bool]()

    def wait() -> None:
        entered.set()
        with cache.alone(ONE):
            found.append(doubles(cache.get(ONE)))

    with cache.alone(ONE):
        other = threading.Thread(target=wait)
        other.start()
        entered.wait()
        with cache.alone(OTHER):  # another key does not wait
            cache.put(ONE, executable)
    other.join(30)
    assert found == [True]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are not killed so")
def test_a_writer_that_is_killed_leaves_an_entry_whole_or_none(cache: Cache, executable: Executable) -> None:
    path = cache.folder.parent / "source.vmx"
    executable.export(path)
    code = f"""import vmkit
from vmkit.cache import Cache, Key
cache, executable = Cache({str(cache.folder)!r}), vmkit.load({str(path)!r})
print("ready", flush=True)
while True:
    with cache.alone(Key({dict(ONE.parts)!r})):
        cache.put(Key({dict(ONE.parts)!r}), executable)
"""
    for delay in (0.001, 0.004, 0.013):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(delay)
            writer.send_signal(signal.SIGKILL)
        found = cache.get(ONE)
        assert found is None or doubles(found)
    cache.put(ONE, executable)
    assert [path.name for path in cache.folder.iterdir()] == [f"{ONE.digest}.vmx"]
    assert doubles(cache.get(ONE))
