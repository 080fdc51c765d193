"""Text that is cut, mixed or damaged ends in a module or in an error that points at a place; never in anything else."""

from __future__ import annotations

import random
import re
import signal
import zipfile
from typing import Any

import pytest

from tests.golden import PROGRAMS
from tests.relay.text.mutations import HEADER, MUTATIONS
from tests.relay.text.texts import SELECTION, records
from vmkit import relay
from vmkit.errors import ParseError, TypeCheckError

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
_PLACE = re.compile(r"from_string:\d+:\d+")


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
