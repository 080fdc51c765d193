"""Folders for temporary files are private, end with their use, and those of killed processes end with the next use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vmkit
from tests.places import TOP
from vmkit import relay
from vmkit.errors import ExecutableError
from vmkit.executable import library_files
from vmkit.executable.scratch import scratch_folder

USER = """
import time
from vmkit.executable.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "file").write_text("text")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_a_folder_is_private_and_gone_at_the_end(temporary: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").write_text("text")
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_process_goes_with_the_next(temporary: Path) -> None:
    (temporary / "vmkit-mine").mkdir()
    with subprocess.Popen([sys.executable, "-c", USER], stdout=subprocess.PIPE, cwd=TOP, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        with scratch_folder():
            assert (theirs / "file").exists(), "its process lives"
        other.kill()
        other.wait()
    assert theirs.exists()
    with scratch_folder():
        assert not theirs.exists()
    assert [p.name for p in temporary.iterdir()] == ["vmkit-mine"]


def test_a_folder_for_temporary_files_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    with (
        pytest.raises(ExecutableError, match=r"temporary files cannot be written .*: No such file.*; set TMPDIR"),
        scratch_folder(),
    ):
        pass


def test_kernels_are_not_written_where_there_is_no_room_for_them(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x = relay.var("x", shape=(4,))
    executable = vmkit.compile(relay.Function([x], relay.exp(x)), target="llvm")

    class Full:
        free = 100

    monkeypatch.setattr(library_files.shutil, "disk_usage", lambda folder: Full)
    with pytest.raises(ExecutableError, match=r"room for 100 bytes, and up to \d+ are needed; set TMPDIR"):
        executable.export(tmp_path / "model.vmx")
    assert not (tmp_path / "model.vmx").exists()
