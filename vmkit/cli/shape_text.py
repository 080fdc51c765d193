"""Shapes of inputs as people write them on a command line: ``x:[n,3,224,224] mask:[?,-1]``.

A size is a number, a name, or ``?`` (also ``-1``) for one that is not known. The name of a size may be given the least
and the largest that it may be: ``n:1..64``. A single shape may stand without brackets: ``x:n,3``.

>>> parse_shapes("x:[n,3] n:1..64")
{'x': ['n', 3], 'n': (1, 64)}
"""

from __future__ import annotations

import re
from typing import TypeAlias

from ..errors import OptionError

__all__ = ["Shapes", "parse_shapes"]

Shapes: TypeAlias = dict[str, list[int | str] | tuple[int, int]]
"""What :func:`vmkit.compile` takes as ``shapes``."""

_NUMBER = re.compile(r"[+-]?\d+")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_UNKNOWN = ("?", "-1")


def parse_shapes(text: str) -> Shapes:
    """Return the shapes in a text, by the names of the inputs.

    Raises
    ------
    OptionError
        With the text and a caret under what is wrong in it.
    """
    shapes: Shapes = {}
    at = _after_spaces(text, 0)
    if at == len(text):
        raise _wrong(text, 0, "expected NAME:[SIZES]")
    while at < len(text):
        start, (name, at) = at, _name(text, at)
        if name in shapes:
            raise _wrong(text, start, f"{name!r} is given twice", len(name))
        shapes[name], at = _value(text, at)
        at = _after_spaces(text, at)
    return shapes


def _name(text: str, at: int) -> tuple[str, int]:
    """Return the name that begins here and where its value begins; a name may have colons in it, as TensorFlow's do."""
    end = text.find(":[", at)
    word = re.compile(r"\S*").match(text, at)
    assert word is not None  # it matches nothing, too
    if end == -1 or end > word.end():
        end = text.rfind(":", at, word.end())
    if end <= at:
        raise _wrong(text, at, "expected NAME:[SIZES]", len(word.group()))
    return text[at:end], end + 1


def _value(text: str, at: int) -> tuple[list[int | str] | tuple[int, int], int]:
    bracketed = text.startswith("[", at)
    if bracketed:
        end = text.find("]", at)
        if end == -1:
            raise _wrong(text, at, "this bracket is never closed; expected ']'")
        after = end + 1
        if after < len(text) and text[after] not in " ,\t\n":
            raise _wrong(text, after, "expected a space before the next input")
        return _sizes(text, at + 1, end), after
    end = next((i for i in range(at, len(text)) if text[i].isspace()), len(text))
    if at == end:
        raise _wrong(text, at - 1, "expected [SIZES] after the colon")
    limits = _RANGE.fullmatch(text, at, end)
    if limits is None:
        return _sizes(text, at, end), end
    least, most = int(limits[1]), int(limits[2])
    if least > most:
        raise _wrong(text, at, f"{least} is more than {most}", end - at)
    return (least, most), end


def _sizes(text: str, start: int, end: int) -> list[int | str]:
    if not text[start:end].strip():
        return []
    sizes: list[int | str] = []
    at = start
    for word in text[start:end].split(","):
        sizes.append(_size(text, at + len(word) - len(word.lstrip()), word.strip()))
        at += len(word) + 1
    return sizes


def _size(text: str, at: int, word: str) -> int | str:
    if word in _UNKNOWN:
        return "?"
    if _NUMBER.fullmatch(word):
        if int(word) < 0:
            raise _wrong(text, at, "a size is not negative; -1 and ? are sizes that are not known", len(word))
        return int(word)
    if _NAME.fullmatch(word):
        return word
    raise _wrong(text, at, f"expected a size, a name or ?, got {word!r}", max(len(word), 1))


def _after_spaces(text: str, at: int) -> int:
    while at < len(text) and (text[at].isspace() or text[at] == ","):
        at += 1
    return at


def _wrong(text: str, at: int, why: str, width: int = 1) -> OptionError:
    return OptionError(f"{why}\n  {text}\n  {' ' * at}{'^' * max(width, 1)}")
