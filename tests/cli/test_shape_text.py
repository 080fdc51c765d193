"""Shapes as people write them: what is read, and where the caret stands under what is not."""

from __future__ import annotations

from typing import Any

import pytest

from vmkit.cli.shape_text import parse_shapes
from vmkit.errors import OptionError


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x:[n,3,224,224] mask:[?,-1]", {"x": ["n", 3, 224, 224], "mask": ["?", "?"]}),
        ("x:n,3", {"x": ["n", 3]}),
        ("a/b:0:[1,2] c:0:[3]", {"a/b:0": [1, 2], "c:0": [3]}),
        ("x:[]", {"x": []}),
        ("x:[1, 2], y:[3]", {"x": [1, 2], "y": [3]}),
        ("n:1..64 x:[n]", {"n": (1, 64), "x": ["n"]}),
    ],
)
def test_shapes_are_read(text: str, shapes: dict[str, Any]) -> None:
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x:[1,2", "this bracket is never closed; expected ']'\n  x:[1,2\n    ^"),
        ("x:[3x]", "expected a size, a name or ?, got '3x'\n  x:[3x]\n     ^^"),
        ("x:[1,,2]", "expected a size, a name or ?, got ''\n  x:[1,,2]\n       ^"),
        ("x:[1][2]", "expected a space before the next input\n  x:[1][2]\n       ^"),
        ("x", "expected NAME:[SIZES]\n  x\n  ^"),
        ("", "expected NAME:[SIZES]\n  \n  ^"),
        (":[1]", "expected NAME:[SIZES]\n  :[1]\n  ^^^^"),
        ("x: [1]", "expected [SIZES] after the colon\n  x: [1]\n   ^"),
        ("x:[1] x:[2]", "'x' is given twice\n  x:[1] x:[2]\n        ^"),
        ("x:[-2]", "a size is not negative; -1 and ? are sizes that are not known\n  x:[-2]\n     ^^"),
        ("n:9..1", "9 is more than 1\n  n:9..1\n    ^^^^"),
    ],
)
def test_what_is_wrong_has_a_caret_under_it(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_shapes(text)
    assert str(caught.value) == message
