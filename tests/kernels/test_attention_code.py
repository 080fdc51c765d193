"""Squares of keys are transposed by as many shuffles as it takes, each of which stands once."""

from __future__ import annotations

import pytest
import tvm_ffi
from tvm import tirx

from vmkit.kernels.attention import AttentionShape, attention


@pytest.mark.parametrize(("lanes", "shuffles"), [(4, 8), (8, 24), (16, 64)])
def test_no_shuffle_of_a_square_stands_twice(lanes: int, shuffles: int) -> None:
    mask = (False, False, False, True)
    shape = AttentionShape(2 * lanes, 2 * lanes, 1, 1.0, mask, is_one_row=False, lanes=lanes)
    found: list[tirx.Shuffle] = []
    tvm_ffi.structural_walk(attention(shape).body, (tirx.Shuffle, found.append))
    assert len(found) == shuffles
