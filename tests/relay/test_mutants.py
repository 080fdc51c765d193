"""Damaged programs are refused with errors of vmkit's own, or compile, run and give what they do unoptimised."""

from __future__ import annotations

import sys

import pytest

from tests.children import tally

MUTANTS = "tests.relay.mutant_process"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a child that hangs is ended by its signal")

# What was found by these: sizes beyond 63 bits, tables that end before they are read, lanes of no width, constants for
# dimensions, shapes of a thousand dimensions, tiles that TVM's arithmetic fails for.
FOUND = (53, 86, 872, 1743, 1953, 2284, 2344, 2378, 2408, 2409, 2516, 2965)


def test_damaged_programs_are_refused_or_give_right_results() -> None:
    counts = tally(MUTANTS, (*FOUND, *range(12)))
    assert counts["refused"] > 10 and counts["ran"] > 5


@pytest.mark.nightly
def test_many_damaged_programs_are_refused_or_give_right_results() -> None:
    assert tally(MUTANTS, range(3200))["ran"] > 1500
