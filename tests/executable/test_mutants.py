"""Damaged files of executables, with seals that are right too, end in errors of vmkit's own or in results."""

from __future__ import annotations

import pytest

from tests.children import tally

MUTANTS = "tests.executable.mutant_process"


def test_damaged_files_end_in_errors_alone() -> None:
    counts = tally(MUTANTS, range(300))
    assert counts["refused"] > 150 and counts["ran"] > 5


@pytest.mark.nightly
def test_many_damaged_files_end_in_errors_alone() -> None:
    assert tally(MUTANTS, range(300, 10_000))["refused"] > 5000
