"""Functions on arrays of texts that programs call."""

from __future__ import annotations

import numpy as np
import pytest

from vmkit.values.text_functions import normalize


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
