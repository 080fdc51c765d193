"""Ways in which the text of a program is damaged."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from vmkit.errors import ParseError
from vmkit.relay.text.lexer import tokenize
from vmkit.relay.text.source import Source

__all__ = ["HEADER", "MUTATIONS", "with_word_of_a_kind"]

HEADER = '#[version = "0.0.5"]\n'
_WORDS = """( ) { } [ ] , ; : . = - > < + * / ! ? % @ # /* */ // -> => %0 %x %1 @main let fn def if else free_var match
    match? type extern ref ref_read ref_write True _ None add nn.relu n é meta[relay.Constant][0] meta[ #[metadata]
    Tensor[( int32 float32 List Cons Nil Cons(_,_) reshape newshape= axis=1 1 -1 1f 1e9 99999999999999999999 inff 1i8
    dtype="int" " """
PIECES = [*_WORDS.split(), "\n", "\r"]

Mutation = Callable[[random.Random, str], str]


def _cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text))]


def _with_bytes_flipped(rng: random.Random, text: str) -> str:
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data.decode("utf-8", "replace")


def _with_piece(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(PIECES) + text[at:]


def _with_character(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + chr(rng.choice([*range(128), 0xE9, 0x1F600])) + text[at + 1 :]


def _with_part_moved(rng: random.Random, text: str) -> str:
    at, source = rng.randrange(len(text)), rng.randrange(len(text))
    return text[:at] + text[source : source + rng.randint(1, 40)] + text[at + rng.randint(0, 40) :]


def _with_tokens(change: Callable[[random.Random, list[str]], Any]) -> Mutation:
    def mutation(rng: random.Random, text: str) -> str:
        try:
            tokens = tokenize(Source(text, "mutant"))
        except ParseError:
            return _with_piece(rng, text)
        # Each piece is a token with the space before it; the comments among them are part of the space.
        edges = [0, *(t.end for t in tokens)]
        pieces = [text[a:b] for a, b in pairwise(edges)]
        change(rng, pieces)
        return "".join(pieces)

    return mutation


def _swap(rng: random.Random, pieces: list[str]) -> None:
    a, b = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    pieces[a], pieces[b] = pieces[b], pieces[a]


def _swap_same_kind(rng: random.Random, pieces: list[str]) -> None:
    """Put another word or number of the text in the place of one: what comes of it mostly parses."""
    at = rng.randrange(len(pieces))
    last = pieces[at].strip()[-1:]
    alike = [
        p for p in pieces if p.strip()[-1:].isdigit() == last.isdigit() and p.strip()[:1] == pieces[at].strip()[:1]
    ]
    pieces[at] = rng.choice([*alike, pieces[at]])


def with_number(rng: random.Random, text: str) -> str:
    numbers = list(re.finditer(r"\d+", text[len(HEADER) :]))
    if not numbers:
        return _with_piece(rng, text)
    found = rng.choice(numbers)
    start, end = found.start() + len(HEADER), found.end() + len(HEADER)
    return text[:start] + rng.choice(["0", "1", "2", "7", "-1", "100000", "4294967296", "?"]) + text[end:]


with_word_of_a_kind = _with_tokens(_swap_same_kind)
MUTATIONS: list[Mutation] = [
    _cut,
    _with_bytes_flipped,
    _with_piece,
    _with_character,
    _with_part_moved,
    _with_tokens(lambda rng, pieces: pieces.pop(rng.randrange(len(pieces)))),
    _with_tokens(lambda rng, pieces: pieces.insert(rng.randrange(len(pieces)), rng.choice(pieces))),
    _with_tokens(lambda rng, pieces: pieces.insert((at := rng.randrange(len(pieces))), pieces[at])),
    _with_tokens(_swap),
    *[with_word_of_a_kind] * 6,
    *[with_number] * 3,
]
