"""Functions on arrays of texts that programs call."""

from __future__ import annotations

import pytest

from vmkit.values.text_functions import TextArray, normalize, split, tokenize


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
    assert normalize(options)(TextArray([text], (1,))).texts == [expected]


def test_rows_of_parts_are_filled_up() -> None:
    made = split({"delimiter": "", "maxsplit": -1})
    parts, counts = made(TextArray(["a b", "", "c", "d  e f"], (2, 2)))
    assert parts == (["a", "b", "", "", "", "", "c", "", "", "d", "e", "f"], (2, 2, 3))
    assert counts.tolist() == [[2, 0], [1, 3]] and counts.dtype == "int64"
    for none in ([], ["", ""]):
        parts, counts = made(TextArray(none, (len(none),)))
        assert parts == ([], (len(none), 0)) and counts.tolist() == [0] * len(none)


@pytest.mark.parametrize(("marked", "width"), [(False, 2), (True, 4)])
def test_tokens_are_filled_up_and_none_of_marks_alone(marked: bool, width: int) -> None:
    options = {"expression": "[a-z]+", "separators": [], "least": 1, "marked": marked, "padding": "#"}
    made = tokenize(options)
    around = (["\x02"], ["\x03"]) if marked else ([], [])
    rows = [[*around[0], *found, *around[1]] for found in (["a", "b"], [], ["c"])]
    expected = [text for row in rows for text in row + ["#"] * (width - len(row))]
    assert made(TextArray(["a1b", "1", "c"], (3,))) == (expected, (3, width))
    assert made(TextArray(["1", ""], (2,))) == ([], (2, 0))
    assert made(TextArray([], (0,))) == ([], (0, 0))
