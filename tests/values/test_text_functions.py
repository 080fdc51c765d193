"""Functions on arrays of texts that programs call."""

from __future__ import annotations

import numpy as np
import pytest

from vmkit.values.text_functions import normalize, split, tokenize


@pytest.mark.parametrize(
    ("case", "text", "expected"),
    [
        ("LOWER", "Ab C", "ab c"),
        ("LOWER", "\u0416\u00c4", "\u0436\u00e4"),
        ("LOWER", "\u0130x\u0130", "\u0130x\u0130"),  # becomes two characters each, and stays
        ("LOWER", "\u039f\u03a3", "\u03bf\u03c3"),  # no other letter at the end of a word
        ("UPPER", "stra\u00dfe", "STRA\u00dfE"),
        ("UPPER", "\u03bf\u03c2", "\u039f\u03a3"),
    ],
)
def test_every_character_stays_one(case: str, text: str, expected: str) -> None:
    options = {"case": case, "stopwords": [], "sensitive": True}
    assert normalize(options, np.array([text], object)).tolist() == [expected]


def test_rows_of_parts_are_filled_up() -> None:
    parts, counts = split({"delimiter": "", "maxsplit": -1}, np.array([["a b", ""], ["c", "d  e f"]], object))
    assert parts.tolist() == [[["a", "b", ""], ["", "", ""]], [["c", "", ""], ["d", "e", "f"]]]
    assert counts.tolist() == [[2, 0], [1, 3]] and counts.dtype == "int64"
    for none in (np.empty(0, object), np.array(["", ""], object)):
        parts, counts = split({"delimiter": "", "maxsplit": -1}, none)
        assert parts.shape == (none.size, 0) and counts.tolist() == [0] * none.size


@pytest.mark.parametrize(("marked", "width"), [(False, 2), (True, 4)])
def test_tokens_are_filled_up_and_none_of_marks_alone(marked: bool, width: int) -> None:
    options = {"expression": "[a-z]+", "separators": [], "least": 1, "marked": marked, "padding": "#"}
    tokens = tokenize(options, np.array(["a1b", "1", "c"], object))
    assert tokens.shape == (3, width)
    around = (["\x02"], ["\x03"]) if marked else ([], [])
    rows = [[*around[0], *found, *around[1]] for found in (["a", "b"], [], ["c"])]
    assert tokens.tolist() == [row + ["#"] * (width - len(row)) for row in rows]
    assert tokenize(options, np.array(["1", ""], object)).shape == (2, 0)
    assert tokenize(options, np.empty((0,), object)).shape == (0, 0)
