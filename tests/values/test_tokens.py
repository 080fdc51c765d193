"""Texts taken apart into tokens, and hashed."""

from __future__ import annotations

import re

import pytest

from vmkit.values.tokens import murmur_hash, tokenizer


@pytest.mark.parametrize(
    ("expression", "separators", "least", "text", "tokens"),
    [
        ("[a-z]+", [], 1, "ab, c1d", ["ab", "c", "d"]),
        ("[a-z]+", [], 2, "ab, c1de", ["ab", "de"]),
        ("[a-z]+", [], 9, "short", []),
        # Of several matches at a place the longest counts, whatever stands first.
        ("a|ab|abc", [], 1, "abcab", ["abc", "ab"]),
        ("(a?)(ab)?", [], 1, "xab", ["ab"]),
        ("[a-z]*", [], 1, "1a2", ["a"]),
        ("", [], 1, "aé ", ["a", "é", " "]),
        ("", [" "], 1, "a  bc ", ["a", "bc"]),
        ("", [" ", "[,;]"], 2, "ab,cd e;fg,", ["ab", "cd", "fg"]),
        ("", ["-|--"], 1, "a--b", ["a", "b"]),
        # A separator that may be nothing stands before every character, which it takes with it.
        ("", ["x*"], 1, "axb", []),
    ],
)
def test_a_text_is_taken_apart(
    expression: str, separators: list[str], least: int, text: str, tokens: list[str]
) -> None:
    assert tokenizer(expression, tuple(separators), least, False)(text) == tokens


def test_a_simple_expression_finds_what_the_slow_way_finds() -> None:
    text = "the_quick  brown-fox 12"
    for simple in (r"[a-z_]+", r"(?a)\w+", r"[^-]"):
        grouped = f"(?:{simple})" if not simple.startswith("(?a)") else rf"(?a)(?:{simple[4:]})"
        assert tokenizer(simple, (), 1, False)(text) == tokenizer(grouped, (), 1, False)(text) != []
        assert tokenizer(simple, (), 1, False)(text) == re.findall(simple, text)


@pytest.mark.parametrize(
    "pattern", [" ", "ab", r"\.", "a+", "a[bc]", r"[ab][bc]+", r"(?a)\w b+", "(?i)aB", r"(?:\-c)", "é"]
)
@pytest.mark.parametrize("least", [1, 2, 3])
def test_characters_in_turn_are_found_as_the_slow_way_finds_them(pattern: str, least: int) -> None:
    flags = re.match(r"\(\?[a-z]+\)|", pattern)
    assert flags is not None
    slow = f"{flags[0]}(?:(?:{pattern[flags.end() :]}))"
    for text in ("", "ab", "a bb.abc  aaab-c-c", "aAbB a.b", "bcbccacab", "ééa", "....", "x"):
        assert tokenizer(pattern, (), least, False)(text) == tokenizer(slow, (), least, False)(text)
        assert tokenizer("", (pattern, " "), least, False)(text) == tokenizer("", (slow, "(?:[ ])"), least, False)(text)


def test_marks_stand_around_the_tokens() -> None:
    assert tokenizer("[a-z]+", (), 1, True)("a b") == ["\x02", "a", "b", "\x03"]
    assert tokenizer("[a-z]+", (), 1, True)("") == ["\x02", "\x03"]


@pytest.mark.parametrize(
    ("data", "seed", "hashed"),
    # From the tests of scikit-learn's murmurhash3_32 and of the reference implementation.
    [(b"", 0, 0), (b"", 1, 0x514E28B7), (b"foo", 0, 4138058784), (b"foo", 42, 2972666014), (b"hello", 0, 613153351)],
)
def test_murmur_hash(data: bytes, seed: int, hashed: int) -> None:
    assert murmur_hash(data, seed) == hashed
