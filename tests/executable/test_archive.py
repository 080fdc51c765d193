"""The file of an executable by itself: what is written is read, in place and aligned, and nothing else is."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from vmkit.errors import ExecutableError
from vmkit.executable import archive
from vmkit.executable.archive import ALIGNMENT, read_archive, write_archive

MEMBERS = {"code.bin": b"code" * 5, "weights.bin": bytes(range(200)), "empty.bin": b""}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_archive(tmp_path / "model.vmx", {"target": "llvm"}, MEMBERS)
    return tmp_path / "model.vmx"


def test_members_and_manifest_come_back(path: Path) -> None:
    manifest, members = read_archive(path)
    assert {name: bytes(data) for name, data in members.items()} == MEMBERS
    assert (manifest["target"], manifest["format"], manifest["format_version"]) == ("llvm", "vmkit-executable", 2)
    assert {name: entry["size"] for name, entry in manifest["members"].items()} == {
        n: len(d) for n, d in MEMBERS.items()
    }


def test_members_are_aligned_in_the_file_and_in_memory(path: Path) -> None:
    import numpy as np

    _, members = read_archive(path)
    data = path.read_bytes()
    for name in ("code.bin", "weights.bin"):
        assert data.index(MEMBERS[name]) % ALIGNMENT == 0
        assert np.frombuffer(members[name], "uint8").ctypes.data % ALIGNMENT == 0


def test_equal_contents_are_equal_files(path: Path, tmp_path: Path) -> None:
    write_archive(tmp_path / "again.vmx", {"target": "llvm"}, MEMBERS)
    assert (tmp_path / "again.vmx").read_bytes() == path.read_bytes()


def test_any_tool_for_zip_files_reads_it(path: Path) -> None:
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert file.namelist() == ["manifest.json", *MEMBERS]
        assert json.loads(file.read("manifest.json"))["target"] == "llvm"


def test_a_member_that_is_compressed_is_not_used(path: Path) -> None:
    with zipfile.ZipFile(path) as file:
        contents, seal = {name: file.read(name) for name in file.namelist()}, file.comment
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.comment = seal
        for name, data in contents.items():
            file.writestr(name, data)
    with pytest.raises(ExecutableError, match=r"the file was altered: manifest.json is not where it should be"):
        read_archive(path)


def test_a_sealed_manifest_of_another_format_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_FORMAT", "other")
    write_archive(path, {}, MEMBERS)
    monkeypatch.undo()
    with pytest.raises(ExecutableError, match="not a vmkit executable: format 'other'"):
        read_archive(path)


def test_a_window_over_memory_reads_as_a_file() -> None:
    window = archive._Window(memoryview(b"0123456789"))
    assert window.readable() and window.seekable()
    assert (window.seek(-3, io.SEEK_END), window.read(2), window.seek(-1, io.SEEK_CUR), window.read()) == (
        7,
        b"78",
        8,
        b"89",
    )
    assert window.read(1) == b""
    with pytest.raises(ValueError, match="there is no place -1"):
        window.seek(-1)


@pytest.mark.parametrize("place", [0, 1, 59, 60, 61, 64])
def test_padding_ends_at_a_multiple(place: int) -> None:
    extra = archive._padding(place)
    assert (place + len(extra)) % ALIGNMENT == 0 and len(extra) >= 4
