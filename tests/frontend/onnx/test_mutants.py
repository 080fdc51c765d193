"""Broken models: an error of vmkit's own that says what is wrong, or the same results as onnxruntime; never worse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frontend.onnx.mutations import FEEDS, SEEDS
from tests.frontend.onnx.programs import check
from tests.places import TOP

SECONDS = 60


@pytest.mark.parametrize("name", SEEDS)
def test_the_models_are_sound_before_they_are_broken(name: str) -> None:
    check(SEEDS[name](), FEEDS)


def outcomes(numbers: range, folder: Path, *options: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what became of each mutant; a process that dies or hangs is replaced."""
    paths = os.pathsep.join([str(TOP), *filter(None, sys.path)])
    command = [sys.executable, "-m", "tests.frontend.onnx.mutant_process", str(folder), *options]
    process: subprocess.Popen[str] | None = None
    for number in numbers:
        if process is None:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": paths},
            )
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        timer.cancel()
        if line:
            yield number, json.loads(line)
        else:
            yield number, {"became": "died", "said": f"of signal {-process.wait()}, or after {SECONDS} s"}
            process = None
    if process is not None:
        process.communicate()


def told(numbers: range, folder: Path, *options: str) -> dict[str, int]:
    """Return how many mutants became what, after a check that none became what it must not."""
    counts: dict[str, int] = {}
    wrong = []
    for number, found in outcomes(numbers, folder, *options):
        counts[found["became"]] = counts.get(found["became"], 0) + 1
        if found["became"] in ("died", "raised", "differs") or not is_told(found):
            wrong.append(f"mutant {number} {found['became']}: {found['said'][-400:]}")
    assert not wrong, f"{len(wrong)} of {len(numbers)} mutants:\n" + "\n".join(wrong[:20])
    return counts


def is_told(found: dict[str, Any]) -> bool:
    """Say whether a refusal names the file and gives a reason that is not a Python error's."""
    return found["became"] != "refused" or ("Traceback" not in found["said"] and len(found["said"]) > 20)


def test_mutants_are_refused_or_imported(tmp_path: Path) -> None:
    counts = told(range(400), tmp_path)
    assert counts["refused"] > 100 and counts["imported"] > 20


@pytest.mark.nightly
def test_many_mutants_are_refused_or_imported(tmp_path: Path) -> None:
    told(range(2000, 4000), tmp_path)


@pytest.mark.nightly
def test_mutants_that_run_agree_with_onnxruntime(tmp_path: Path) -> None:
    assert told(range(4000, 5000), tmp_path, "--run")["ran"] > 50
