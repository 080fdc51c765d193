"""Text that is cut, mixed or damaged ends in a module or in an error that points at a place; never in anything else."""

from __future__ import annotations

import random
import re
import signal
import zipfile
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.golden import PROGRAMS
from tests.relay.text.texts import SELECTION, records
from vmkit import relay
from vmkit.errors import ParseError, TypeCheckError
from vmkit.relay.text.lexer import tokenize
from vmkit.relay.text.source import Source

HEADER = '#[version = "0.0.5"]\n'
LONGEST = 15_000
SECONDS = 5


def _sources() -> list[str]:
    texts = [r["before_text"] if r["kind"] == "types" else r["source"] for r in records(SELECTION)]
    with zipfile.ZipFile(PROGRAMS) as programs:
        texts += [programs.read(name).decode() for name in programs.namelist() if name.endswith(".relay")]
    return [t if HEADER.strip() in t else HEADER + t for t in texts if len(t) < LONGEST]


# What the texts of Relay 0.14 do not have, or seldom.
WRITTEN = [
    HEADER + "def @main(%x: Tensor[(n, 4), float32], %y: Tensor[(n * 2 + 1, ?), float32]) {\n"
    "  %0 = add(%x, 1f);\n  let %z = reshape(%0, newshape=[n, 2, -1]) * 0.5f;\n"
    "  let %f = fn [A](%a: A, Primitive=1) -> A { %a };\n"
    "  (if (True) { %z } else { (let %q = %z; %q) }, %f(%y).0, (%0,), 3i64 < 4i64, -1f16 != 2f64) /* end */\n}\n",
    HEADER + "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}\n\nextern type Handle\n\ntype Pair[A, B] { Pair(A, B) }\n"
    "def @main[A](%xs: List[(A, A)], %r: ref(List[A]), %h: Handle) -> List[A] {\n"
    "  let %f = fn (%p: Pair[A, List[A]]) { match (%p) { Pair(%x, Nil) => %x, Pair(_, Cons(%x, _)) => %x } };\n"
    "  ref_write(%r, Nil);\n  %0 = match? ((%xs, ref_read(%r))) {\n"
    "    (Cons((%a, _), _), Nil) => Cons(%f(Pair(%a, Nil())), Nil),\n    _ => @main(Nil, ref(Nil), %h),\n"
    "  };\n  %0\n}\n",
]
SOURCES = [*_sources(), *WRITTEN * 20]
_WORDS = """( ) { } [ ] , ; : . = - > < + * / ! ? % @ # /* */ // -> => %0 %x %1 @main let fn def if else free_var match
    match? type extern ref ref_read ref_write True _ None add nn.relu n é meta[relay.Constant][0] meta[ #[metadata]
    Tensor[( int32 float32 List Cons Nil Cons(_,_) reshape newshape= axis=1 1 -1 1f 1e9 99999999999999999999 inff 1i8
    dtype="int" " """
PIECES = [*_WORDS.split(), "\n", "\r"]
_PLACE = re.compile(r"from_string:\d+:\d+")

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


def _with_number(rng: random.Random, text: str) -> str:
    numbers = list(re.finditer(r"\d+", text[len(HEADER) :]))
    if not numbers:
        return _with_piece(rng, text)
    found = rng.choice(numbers)
    start, end = found.start() + len(HEADER), found.end() + len(HEADER)
    return text[:start] + rng.choice(["0", "1", "2", "7", "-1", "100000", "4294967296", "?"]) + text[end:]


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
    *[_with_tokens(_swap_same_kind)] * 6,
    *[_with_number] * 3,
]


def _mutant(rng: random.Random) -> str:
    text = rng.choice(SOURCES)
    for _ in range(rng.randint(1, 3)):
        text = rng.choice(MUTATIONS)(rng, text) or " "
    return text


def _check(seed: int) -> None:
    text = _mutant(random.Random(seed))
    signal.alarm(SECONDS)
    try:
        relay.parse(text)
    except (ParseError, TypeCheckError) as error:
        assert _PLACE.search(str(error)) or "in @" in str(error), (seed, str(error))
    except Exception as error:
        raise AssertionError(f"mutant {seed} ended in {type(error).__name__}: {error}\n{text}") from error
    finally:
        signal.alarm(0)


@pytest.fixture(autouse=True)
def _alarm() -> Any:
    """Make a text that takes too long an error."""

    def too_long(*_: Any) -> None:
        raise TimeoutError(f"a text is read for more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, too_long)
    yield
    signal.signal(signal.SIGALRM, before)


def test_mutated_text_is_read_or_refused_with_a_place() -> None:
    for seed in range(300):
        _check(seed)


@pytest.mark.nightly
def test_much_mutated_text_is_read_or_refused_with_a_place() -> None:
    for seed in range(300, 12_300):
        _check(seed)


@pytest.mark.parametrize("text", WRITTEN, ids=["operators", "data-types"])
def test_function_cut_anywhere_is_refused_with_a_place(text: str) -> None:
    text = text.rstrip()
    for end in range(text.index("def") + 1, len(text)):
        with pytest.raises(ParseError, match=_PLACE.pattern):
            relay.parse(text[:end])
