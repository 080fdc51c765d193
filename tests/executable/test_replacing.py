"""A file that is written is there whole or not at all, with the mode it had, where its links lead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.places import TOP
from vmkit.errors import ExecutableError
from vmkit.executable.replacing import replacing

WRITER = """
import sys, time
from pathlib import Path
from vmkit.executable.replacing import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    print("begun", flush=True)
    time.sleep(60)
"""


def write(path: Path, data: bytes) -> None:
    with replacing(path) as file:
        file.write(data)


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "below" / "file")
    write(link, b"first")
    write(link, b"second")
    assert link.is_symlink()
    assert (tmp_path / "below" / "file").read_bytes() == b"second"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["below", "link"]


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(ExecutableError, match=r"cannot write .*a: .*[Ss]ymlink"):
        write(tmp_path / "a", b"x")


def test_a_pipe_is_refused_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ExecutableError, match="pipe: it is no regular file"):
        write(tmp_path / "pipe", b"x")
    assert (tmp_path / "pipe").is_fifo()


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(KeyError), replacing(path) as file:
        file.write(b"new")
        raise KeyError("in between")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_writer_left_goes_with_the_next_and_a_living_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    command = [sys.executable, "-c", WRITER, str(path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=TOP) as killed,
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=TOP) as living,
    ):
        assert killed.stdout is not None and living.stdout is not None
        assert (killed.stdout.readline(), living.stdout.readline()) == (b"begun\n", b"begun\n")
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        time.sleep(0.05)
        assert len(list(tmp_path.iterdir())) == 2
        write(path, b"whole")
        assert path.read_bytes() == b"whole"
        assert len(list(tmp_path.iterdir())) == 2, "the living one's is still there"
        living.kill()
        living.wait()
        write(path, b"again")
        assert [p.name for p in tmp_path.iterdir()] == ["file"]
