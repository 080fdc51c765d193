"""Text that is cut, mixed or damaged ends in a module or in an error that points at a place; never in anything else."""

from __future__ import annotations

import random
import re

import pytest
from relay_texts import SELECTION, records

from vmkit import relay
from vmkit.errors import ParseError, TypeCheckError

HEADER = '#[version = "0.0.5"]\n'
SOURCES = [
    *(r["before_text"] for r in records(SELECTION) if r["kind"] == "types" and len(r["before_text"]) < 3000),
    HEADER + "def @main(%x: Tensor[(n, 4), float32], %y: Tensor[(n * 2 + 1, ?), float32]) {\n"
    "  %0 = add(%x, 1f);\n  let %z = reshape(%0, newshape=[n, 2, -1]) * 0.5f;\n"
    "  let %f = fn [A](%a: A, Primitive=1) -> A { %a };\n"
    "  (if (True) { %z } else { (let %q = %z; %q) }, %f(%y).0, (%0,), 3i64 < 4i64, -1f16 != 2f64) /* end */\n}\n",
]
_TOKENS = """( ) { } [ ] , ; : . = - > < + * / ! ? % @ # /* */ // -> %0 %x %1 @main let fn def if else free_var match
    type ref True _ None add nn.relu n é meta[relay.Constant][0] meta[ #[metadata] Tensor[( int32 float32 reshape
    newshape= axis=1 1 -1 1f 1e9 99999999999999999999 inff 1i8 dtype="int" " """
PIECES = [*_TOKENS.split(), "\n", "\r"]
_PLACE = re.compile(r"from_string:\d+:\d+")


def _mutant(rng: random.Random) -> str:
    text = rng.choice(SOURCES)
    for _ in range(rng.randint(1, 4)):
        at, other = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)
        start, end = min(at, other), max(at, other)
        match rng.randrange(6):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + rng.choice(PIECES) + text[at:]
            case 2:
                text = text[:at] + text[at + rng.randint(1, 8) :]
            case 3:
                text = text[:start] + text[start : start + 40] + text[start:]
            case 4:
                text = text[:start] + text[end : end + 30] + text[start + 30 :]
            case 5:
                text = text[:at] + chr(rng.choice([*range(1, 128), 0xE9, 0x1F600])) + text[at + 1 :]
        text = text or " "
    return text


def _check(seed: int) -> None:
    text = _mutant(random.Random(seed))
    try:
        relay.parse(text)
    except (ParseError, TypeCheckError) as error:
        assert _PLACE.search(str(error)) or "in @" in str(error), (seed, str(error))
    except Exception as error:
        raise AssertionError(f"mutant {seed} ended in {type(error).__name__}: {error}\n{text}") from error


def test_mutated_text_is_read_or_refused_with_a_place() -> None:
    for seed in range(300):
        _check(seed)


@pytest.mark.nightly
def test_much_mutated_text_is_read_or_refused_with_a_place() -> None:
    for seed in range(300, 10_300):
        _check(seed)


def test_text_cut_anywhere_is_refused_with_a_place() -> None:
    text = SOURCES[-1].rstrip()
    for end in range(len(HEADER) + 1, len(text)):
        with pytest.raises(ParseError, match=_PLACE.pattern):
            relay.parse(text[:end])
