"""Whatever is given to a program, it is refused with an error of vmkit's own, or the results are right."""

from __future__ import annotations

import sys

import pytest

from tests.children import tally

ODD = "tests.runtime.input_process"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the child's memory")


def test_odd_inputs_are_refused_or_give_right_results() -> None:
    counts = tally(ODD, range(1000))
    assert counts["refused"] > 300 and counts["ran"] > 200


@pytest.mark.nightly
def test_many_odd_inputs_are_refused_or_give_right_results() -> None:
    assert tally(ODD, range(1000, 10_000))["ran"] > 2000
