"""Texts taken apart into tokens, and hashed: what functions on texts share that is no matter of arrays.

Sources: onnxruntime/contrib_ops/cpu/tokenizer.cc; MurmurHash3 by Austin Appleby, which is in the public domain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

__all__ = ["murmur_hash", "tokenizer"]

_START, _END = "\x02", "\x03"
_FLAGS = r"(\(\?[aims]+\)|\(\?[aims]*:)?"
_CLASS = r"\[(\\.|[^\]\\])+\]|\\[dDsSwW]"
_LITERAL = r"\\[^\w\s]|[^\\.^$*+?{}\[\]|()]"
# One character of a class, once or more often: no match begins inside of another one and goes on behind it.
_SIMPLE = re.compile(rf"{_FLAGS}({_CLASS})\+?\)?")
# Characters one after the other, the last of them once or more often: the first match is the longest, and not empty.
_GREEDY = re.compile(rf"{_FLAGS}({_CLASS}|{_LITERAL})+\+?\)?")
_TEXT = re.compile(rf"(?:\(\?a\))?((?:{_LITERAL})+)")


@lru_cache(maxsize=64)
def tokenizer(expression: str, separators: tuple[str, ...], least: int, marked: bool) -> Callable[[str], list[str]]:
    """Return what takes a text apart.

    Parameters
    ----------
    expression
        What a token is, as Python's ``re`` takes it; of the matches at the first place that has one the longest.
        Each character is a token where both this and `separators` are empty.
    separators
        What stands between tokens: those of the first one are taken apart by the next.
    least
        How many characters a token has at least.
    marked
        Whether a token for the beginning and one for the end are put around those of a text.
    """
    parts = _parts(expression, separators, least)
    return (lambda text: [_START, *parts(text), _END]) if marked else parts


def _parts(expression: str, separators: tuple[str, ...], least: int) -> Callable[[str], list[str]]:
    """Return what takes a text apart, without the marks: one function of C where there is one."""
    if expression:
        token = re.compile(expression)
        if least <= 1 and _GREEDY.fullmatch(expression):
            return token.findall
        if _SIMPLE.fullmatch(expression):
            return lambda text: [found for found in token.findall(text) if len(found) >= least]
        return lambda text: list(_found(token, text, least)) if len(text) >= least else []
    if not separators:
        return list
    between = [_splitter(re.compile(pattern)) for pattern in separators]
    first, *others = between
    if least <= 1 and not others:
        return lambda text: [*filter(None, first(text))]

    def parts(text: str) -> list[str]:
        row = [text]
        for split in between:
            row = [part for each in row for part in split(each) if len(part) >= least]
        return row

    return parts


@lru_cache(maxsize=64)
def _is_greedy(pattern: re.Pattern[str]) -> bool:
    return _GREEDY.fullmatch(pattern.pattern) is not None


def _longest(pattern: re.Pattern[str], text: str, start: int) -> tuple[int, int] | None:
    """Return the first place where a pattern matches, and the end of the longest match there."""
    match = pattern.search(text, start)
    if match is None:
        return None
    begin, end = match.span()
    if _is_greedy(pattern):
        return begin, end
    ends = (e for e in range(len(text), end, -1) if pattern.fullmatch(text, begin, e))
    return begin, next(ends, end)


def _found(pattern: re.Pattern[str], text: str, least: int) -> Iterator[str]:
    start = 0
    while start <= len(text) and (place := _longest(pattern, text, start)) is not None:
        begin, end = place
        is_token = end > begin and end - begin >= least
        if is_token:
            yield text[begin:end]
        start = end if is_token else begin + 1


def _splitter(pattern: re.Pattern[str]) -> Callable[[str], Iterable[str]]:
    """Return what gives the parts of a text that lie between the longest matches of a pattern."""
    text = _TEXT.fullmatch(pattern.pattern)
    if text is not None:
        separator = re.sub(r"\\(.)", r"\1", text[1])
        return lambda whole: whole.split(separator)
    return pattern.split if _is_greedy(pattern) else lambda whole: _between(pattern, whole)


def _between(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    start = 0
    while start <= len(text) and (place := _longest(pattern, text, start)) is not None:
        begin, end = place
        yield text[start:begin]
        start = end if end > begin else begin + 1
    yield text[start:]


def murmur_hash(data: bytes, seed: int) -> int:
    """Return the hash of 32 bits of some bytes, without a sign: MurmurHash3_x86_32.

    >>> murmur_hash(b"hello", 0)
    613153351
    """
    hashed, whole = seed & _MASK, len(data) // 4 * 4
    for at in range(0, whole, 4):
        hashed = _rotated(hashed ^ _mixed(int.from_bytes(data[at : at + 4], "little")), 13) * 5 + 0xE6546B64 & _MASK
    if len(data) > whole:
        hashed ^= _mixed(int.from_bytes(data[whole:], "little"))
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


_MASK = 0xFFFFFFFF


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK


def _mixed(block: int) -> int:
    return _rotated(block * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
