"""Broken models: an error of vmkit's own that says what is wrong, or the same results as onnxruntime; never worse."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frontend.onnx.mutations import FEEDS, SEEDS
from tests.frontend.onnx.programs import check
from tests.frontend.onnx.suite_mutants import Mutant, family_mutant, own_mutant, suite_mutant
from tests.places import TOP

SECONDS = 60
Outcome = dict[str, Any]


@pytest.mark.parametrize("name", SEEDS)
def test_the_models_are_sound_before_they_are_broken(name: str) -> None:
    check(SEEDS[name](), FEEDS)


class _Child:
    """A process that tells what becomes of mutants; one that dies or hangs is replaced by the next question."""

    def __init__(self, *options: str) -> None:
        self._command = [sys.executable, "-m", "tests.frontend.onnx.mutant_process", *options]
        self._process: subprocess.Popen[str] | None = None

    def tell(self, path: Path) -> Outcome:
        process = self._process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        timer.cancel()
        if line:
            return dict(json.loads(line))
        self._process = None
        return {"became": "died", "said": f"of signal {-process.wait()}, or after {SECONDS} s"}

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TOP), *filter(None, sys.path)])},
        )

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()


def outcomes(
    numbers: range, folder: Path, *options: str, make: Callable[[int], Mutant] = own_mutant
) -> Iterator[tuple[int, Outcome]]:
    """Yield what became of each mutant."""
    child, alone = _Child(*options), _Child(*options, "--alone")
    (folder / "short.bin").write_bytes(bytes(3))
    path = folder / "mutant.onnx"
    for number in numbers:
        made = make(number)
        path.write_bytes(made.data)
        path.with_suffix(".feed").write_bytes(pickle.dumps(list(made.feed)))
        found = child.tell(path)
        if found["became"] == "died":
            # onnxruntime runs in the same process: what dies without it, too, is vmkit's fault.
            found = alone.tell(path)
        yield number, found
    child.close()
    alone.close()


def told(numbers: range, folder: Path, *options: str, make: Callable[[int], Mutant] = own_mutant) -> dict[str, int]:
    """Return how many mutants became what, after a check that none became what it must not."""
    counts: dict[str, int] = {}
    wrong = []
    for number, found in outcomes(numbers, folder, *options, make=make):
        counts[found["became"]] = counts.get(found["became"], 0) + 1
        if found["became"] in ("died", "raised", "differs") or not is_told(found):
            wrong.append(f"mutant {number} {found['became']}: {found['said'][-400:]}")
    assert not wrong, f"{len(wrong)} of {len(numbers)} mutants:\n" + "\n".join(wrong[:20])
    return counts


def is_told(found: Outcome) -> bool:
    """Say whether a refusal names the file and gives a reason that is not a Python error's."""
    return found["became"] != "refused" or ("Traceback" not in found["said"] and len(found["said"]) > 20)


def test_mutants_are_refused_or_imported(tmp_path: Path) -> None:
    counts = told(range(200), tmp_path)
    assert counts["refused"] > 50 and counts["imported"] > 10


def test_mutants_of_operators_run_as_in_onnxruntime_or_are_refused(tmp_path: Path) -> None:
    counts = told(range(40), tmp_path, "--run", make=suite_mutant)
    assert counts["refused"] > 6 and counts["ran"] > 3


@pytest.mark.nightly
def test_many_mutants_are_refused_or_imported(tmp_path: Path) -> None:
    told(range(200, 400), tmp_path)
    told(range(2000, 4000), tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("numbers", "make"),
    [(range(4000, 5000), own_mutant), (range(40, 2000), suite_mutant), (range(100), family_mutant)],
)
def test_mutants_that_run_agree_with_onnxruntime(numbers: range, make: Callable[[int], Mutant], tmp_path: Path) -> None:
    assert told(numbers, tmp_path, "--run", make=make)["ran"] > len(numbers) // 20
