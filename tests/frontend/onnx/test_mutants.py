"""Broken models: an error of vmkit's own that says what is wrong, or the same results as onnxruntime; never worse."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.children import Child, Outcome
from tests.frontend.onnx.mutations import FEEDS, SEEDS
from tests.frontend.onnx.programs import check
from tests.frontend.onnx.suite_mutants import Mutant, family_mutant, own_mutant, suite_mutant

PROCESS = "tests.frontend.onnx.mutant_process"


@pytest.mark.parametrize("name", SEEDS)
def test_the_models_are_sound_before_they_are_broken(name: str) -> None:
    check(SEEDS[name](), FEEDS)


def outcomes(
    numbers: range, folder: Path, *options: str, make: Callable[[int], Mutant] = own_mutant
) -> Iterator[tuple[int, Outcome]]:
    """Yield what became of each mutant."""
    child, alone = Child(PROCESS, *options), Child(PROCESS, *options, "--alone")
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
