"""Bars: on a terminal only, and what is printed beside them is the same without."""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import helper

from tests.cli.commands import save
from vmkit.cli.progress import bar, compiling
from vmkit.isolation.progress import LOGGER, read, tell


def on_terminal(*words: str) -> tuple[str, str]:
    """Return what a command prints on stdout, and what on a terminal that is its stderr."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vmkit", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        drawn += part
    os.close(ours)
    assert process.stdout is not None
    out = process.stdout.read()
    assert process.wait() == 0
    return out, drawn.decode()


def test_a_compilation_shows_its_stages_and_leaves_nothing(tmp_path: Path) -> None:
    model = save(tmp_path / "relu.onnx", helper.make_node("Relu", ["x"], ["y"]))
    out, drawn = on_terminal("compile", str(model), "--target", "llvm", "-o", str(tmp_path / "m.vmx"))
    assert out.splitlines()[1] == "main(x: float32[n, 1, 6, 6]) -> (y: float32[n, 1, 6, 6])"
    stages = [drawn.index(f"relu.onnx: {stage}") for stage in ("starting", "optimising", "building kernels", "writing")]
    assert stages == sorted(stages) and "3 of 4" in drawn
    assert "\x1b[" not in drawn  # no colours
    *_, last = drawn.rstrip("\r\n").split("\r")
    assert not last.strip()


def test_there_is_no_bar_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bar(3, "work") as shown, compiling("model"):
        shown.to(1, "more work")
        shown.say("said")
        tell(1, 4, "optimising")
    assert capsys.readouterr() == ("", "said\n")


def test_what_is_told_is_read_and_shown_only_by_who_listens(caplog: pytest.LogCaptureFixture) -> None:
    assert not logging.getLogger(LOGGER).isEnabledFor(logging.INFO)
    with caplog.at_level(logging.INFO, LOGGER):
        tell(2, 4, "building: all kernels")
    assert [read(record.getMessage()) for record in caplog.records] == [(2, 4, "building: all kernels")]
