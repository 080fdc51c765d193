"""Attributes read as Python's values, however long their lists are."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from vmkit.frontend.onnx.attributes import Attributes
from vmkit.frontend.onnx.long_lists import LongList


def attribute(value: object) -> object:
    return Attributes(helper.make_node("Example", [], [], a=value))["a"]


@pytest.mark.parametrize("count", [3, 10_000])
def test_lists_of_numbers_read_the_same_at_any_length(count: int) -> None:
    whole = [(-1) ** k * k * (1 << 40) for k in range(count)]
    halves = [k / 2 for k in range(count)]
    for given in (whole, halves):
        got = attribute(given)
        assert isinstance(got, LongList) is (count > 3)
        assert list(got) == given and len(got) == count and bool(got)
        assert got[1] == given[1] and type(got[1]) is type(given[1]) and list(got[-2:]) == given[-2:]
        np.testing.assert_array_equal(np.asarray(got), given)
        np.testing.assert_array_equal(np.asarray(got, "float64"), np.array(given, "float64"))


def test_texts_are_str_and_equal_ones_are_one_object() -> None:
    got = attribute(["BRANCH_LEQ", "LEAF"] * 5000)
    assert got == ["BRANCH_LEQ", "LEAF"] * 5000
    assert len({id(text) for text in got}) == 2
    assert attribute("é") == "é"
