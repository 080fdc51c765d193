"""Relay text to tokens.

The rules are those of Relay's own tokenizer: operators are single characters that the parser puts together, a number
takes every digit, point, sign and exponent that follows it (``1-1`` is one bad number), a run of minus signs before a
number folds into its sign, a string knows no escapes, ``/`` may stand inside a name, and comments nest.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ...errors import suggest
from .numbers import parse_number
from .source import Source

__all__ = ["KEYWORDS", "Token", "describe_token", "tokenize"]


class Token(NamedTuple):
    """A piece of the text.

    `kind` is the text itself for keywords and punctuation, otherwise one of ``number``, ``bool``, ``string``,
    ``local`` (``%x``), ``graph`` (``%0``), ``global`` (``@f``), ``ident``, ``meta`` (``meta[key][0]``), ``version``,
    ``metadata`` and ``end``.
    """

    kind: str
    value: Any
    start: int
    end: int


KEYWORDS = frozenset(
    ["let", "fn", "def", "if", "else", "type", "match", "extern", "free_var", "ref", "ref_read", "ref_write"]
)

_NUMBER = re.compile(r"inff\b|[0-9][-+0-9.eE]*(?:[fi][-+0-9.eE]*)?")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_TOKEN = re.compile(
    r"""
    (?P<space>(?:[ \t\n]|\r\n)+)
  | (?P<number>inff\b|[0-9][-+0-9.eE]*(?:[fi][-+0-9.eE]*)?)
  | (?P<minus>-+)
  | (?P<meta>meta\[(?P<key>[^\]\[]*)\]\[\s*(?P<index>[0-9]+)\s*\])
  | (?P<partial>match\?)
  | (?P<ident>[A-Za-z_][A-Za-z0-9_/]*)
  | (?P<local>%[A-Za-z_][A-Za-z0-9_/]*)
  | (?P<graph>%[0-9]+)
  | (?P<global>@[A-Za-z_][A-Za-z0-9_/]*)
  | (?P<line>//[^\n]*)
  | (?P<comment>/\*)
  | (?P<string>"[^"]*")
  | (?P<section>\#\[(?P<name>[^\]]*)\])
  | (?P<punctuation>[+*/<>=!(){}\[\],;:.?])
    """,
    re.VERBOSE,
)

_NAMES = {
    "bool": "boolean",
    "end": "the end of the text",
    "global": "global variable",
    "graph": "graph variable",
    "ident": "identifier",
    "local": "local variable",
    "meta": "metadata reference",
    "metadata": "metadata section",
    "version": "version header",
}


def describe_token(token: Token) -> str:
    """Return what a token is, for messages."""
    if token.kind == "end":
        return _NAMES["end"]
    name = _NAMES.get(token.kind, token.kind)
    match token.kind:
        case "local":
            return f"{name} '%{token.value}'"
        case "graph":
            return f"{name} '%{token.value}'"
        case "global":
            return f"{name} '@{token.value}'"
        case "ident":
            return f"{name} '{token.value}'"
        case "string":
            return f'string "{token.value}"'
        case "number" | "bool" | "metadata" | "version" | "meta":
            return name
    return f"'{name}'"


def tokenize(source: Source) -> list[Token]:
    """Return the tokens of a text; the last one is of kind ``end``.

    Raises
    ------
    ParseError
        At the first character that begins no token.
    """
    text, at = source.text, 0
    tokens: list[Token] = []
    append, match = tokens.append, _TOKEN.match
    while at < len(text):
        found = match(text, at)
        if found is None:
            raise _unknown(source, at)
        kind, start, at = found.lastgroup, at, found.end()
        # lastgroup names the last group that closed, which for nested groups is the outer one.
        match kind:
            case "space" | "line":
                continue
            case "ident":
                append(_word(found.group(), start, at))
            case "local" | "global":
                append(Token(kind, text[start + 1 : at], start, at))
            case "punctuation":
                char = text[start]
                append(Token(char, char, start, at))
            case "number":
                append(Token(kind, parse_number(source, start, text[start:at]), start, at))
            case "minus":
                number = _NUMBER.match(text, at)
                if number is None:
                    tokens += [Token("-", "-", i, i + 1) for i in range(start, at)]
                    continue
                at = number.end()
                append(Token("number", parse_number(source, start, text[start:at]), start, at))
            case "graph":
                append(Token(kind, _graph_index(source, start, text[start + 1 : at]), start, at))
            case "comment":
                at = _comment_end(source, start)
            case "string":
                append(Token(kind, text[start + 1 : at - 1], start, at))
            case "meta":
                append(Token(kind, (found["key"], _graph_index(source, start, found["index"])), start, at))
            case "partial":
                append(Token("match", "?", start, at))
            case "section":
                token = _section(source, start, at, found["name"].strip())
                append(token)
                at = token.end
    append(Token("end", None, len(text), len(text)))
    return tokens


def _word(word: str, start: int, end: int) -> Token:
    if word in KEYWORDS:
        return Token(word, word, start, end)
    if word == "True" or word == "False":
        return Token("bool", word == "True", start, end)
    if word == "_":
        return Token("_", word, start, end)
    return Token("ident", word, start, end)


def _graph_index(source: Source, start: int, digits: str) -> int:
    # Longer digit strings are refused by int() itself.
    if len(digits) > 18:
        raise source.error(start, f"the number {digits[:18]}... is too large for an index")
    return int(digits)


def _comment_end(source: Source, start: int) -> int:
    depth, at = 1, start + 2
    while depth:
        edge = _COMMENT_EDGE.search(source.text, at)
        if edge is None:
            raise source.error(start, "this comment is never closed; expected '*/'")
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
    return at


def _section(source: Source, start: int, end: int, name: str) -> Token:
    """Return the token of ``#[version = ...]`` or of ``#[metadata]``, which reaches to the end of the text."""
    if name == "metadata":
        return Token("metadata", source.text[end:], start, len(source.text))
    if name.startswith("version"):
        return Token("version", name.removeprefix("version").strip().removeprefix("=").strip(), start, end)
    hint = suggest(name, ["version", "metadata"])
    raise source.error(start, f"unsupported section '#[{name}]'{hint}")


def _unknown(source: Source, at: int) -> Exception:
    text = source.text
    char = text[at]
    if char == '"':
        return source.error(at, "this string is never closed; expected '\"'")
    if char == "\r":
        return source.error(at, "a carriage return must be followed by a line feed")
    if char == "#":
        return source.error(at, "'#' begins a section and must be followed by '[...]'")
    if char == "%":
        return source.error(at, "'%' must be followed by the name or the number of a variable")
    if char == "@":
        return source.error(at, "'@' must be followed by the name of a global function")
    return source.error(at, f"unexpected character {char!r}")
