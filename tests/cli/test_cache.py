"""``vmkit cache``: what is kept, and its removal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import vmkit
from vmkit import relay
from vmkit.cache import Cache, Key
from vmkit.cli import ExitCode, main


@pytest.fixture
def folder(tmp_path: Path) -> str:
    x = relay.var("x", shape=(2,))
    Cache(tmp_path).put(Key({"model": "a" * 64}), vmkit.compile(relay.Function([x], relay.exp(x)), target="llvm"))
    return str(tmp_path)


def test_entries_are_listed_with_what_they_were_compiled_from(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "ls", "--folder", folder]) == ExitCode.OK
    title, entry = capsys.readouterr().out.splitlines()
    assert title.startswith(f"{folder}: 1 executables, ")
    assert entry.endswith(" model " + "a" * 12)
    assert main(["cache", "ls", "--folder", folder, "--json"]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    (listed,) = told["entries"]
    assert (told["folder"], listed["key"], listed["size"]) == (
        folder,
        {"model": "a" * 64},
        Path(listed["path"]).stat().st_size,
    )


def test_clearing_says_how_many_there_were(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "clear", "--folder", folder, "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == {"folder": folder, "removed": 1}
    assert main(["cache", "clear", "--folder", folder]) == ExitCode.OK
    assert capsys.readouterr().out == f"removed 0 from {folder}\n"


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["cache", "ls", "--folder", str(tmp_path / "file")]) == ExitCode.MODEL
    assert "file cannot be used" in capsys.readouterr().err


def test_kernels_are_counted(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    Cache(folder).kernels.put(Key({"kernel": "b"}), b"object")
    size = 32 + len(b"object")
    assert main(["cache", "ls", "--folder", folder]) == ExitCode.OK
    said = f"1 kernels, for models that have some of them, {size} bytes"
    assert capsys.readouterr().out.splitlines()[1] == said
    assert main(["cache", "ls", "--folder", folder, "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["kernels"] == {"count": 1, "size": size}
    assert Cache(folder).kernels.get(Key({"kernel": "b"})) == b"object"
    assert main(["cache", "clear", "--folder", folder]) == ExitCode.OK
    assert Cache(folder).kernels.get(Key({"kernel": "b"})) is None
