"""Numbers that stand for texts in a call: which are equal, which are read again, and which are no constant's."""

from __future__ import annotations

import numpy as np
import pytest

from vmkit.errors import VMError
from vmkit.values import text_tables
from vmkit.values.digests import digest
from vmkit.values.text_tables import NUMBERINGS, ProgramTexts

_LONG = "a text that is longer than most words are"
_READ = sorted(set(NUMBERINGS) - {"known"})


@pytest.mark.parametrize("numbering", _READ)
@pytest.mark.parametrize("words", [0, 1, 100])
def test_numbers_are_read_again_in_any_order(numbering: str, words: int) -> None:
    program = ProgramTexts(["red", "é"], words, numbering)
    for given in (["red", "b", _LONG, "", "b"], ["b", "é", "c"], ["red"], []):
        table = program.open(program)
        tensor = table.tensor(list(given), (len(given), 1))
        assert tensor.shape == (len(given), 1) and table.listed(tensor) == given
        others = table.tensor(["b", "other"], (2,))
        numbers = tensor.numpy().ravel().tolist()
        assert table.read(numbers[::-1]) == given[::-1]
        assert table.read([*others.numpy().tolist(), digest("é"), 0]) == ["b", "other", "é", ""]
        assert table.read(numbers[1:] + numbers[:1]) == given[1:] + given[:1]


@pytest.mark.parametrize("numbering", ["digests", "interned"])
@pytest.mark.parametrize("words", [0, 1, 100])
def test_equal_texts_have_equal_numbers_in_a_call(numbering: str, words: int) -> None:
    program = ProgramTexts(["red"], words, numbering)
    for _ in range(2):
        table = program.open(program)
        first = table.numbers_of(["red", "b", _LONG, "c", ""])
        again = table.numbers_of(["", "c", _LONG, "b", "red"])
        assert again == first[::-1] and len(set(first)) == 5
        assert first[0] == digest("red") and first[-1] == 0


def test_a_text_keeps_its_number_when_another_call_keeps_it_for_later() -> None:
    program = ProgramTexts(["red"], 0, "interned")
    table, other = program.open(program), program.open(program)
    (own,) = table.numbers_of(["b"])
    program.room += 1
    (kept,) = other.numbers_of(["b"])
    assert kept != own and program.digests["b"] == kept
    assert table.numbers_of(["red", "b"]) == [digest("red"), own]
    assert table.read([own, kept]) == ["b", "b"]


def test_only_constants_are_known_by_their_numbers() -> None:
    program = ProgramTexts(["red", "é"], 100, "known")
    table = program.open(program)
    red, unknown, long, nothing, again = table.tensor(["red", "b", _LONG, "", "é"], (5,)).numpy().tolist()
    assert (red, nothing, again) == (digest("red"), 0, digest("é"))
    assert unknown == long and unknown not in {digest("b"), red, nothing, again}
    tensor = table.quick_tensor([np.str_("red"), "c"], (2,))
    assert tensor is not None and tensor.numpy().tolist() == [red, unknown]
    for values in (["red", None], ["red", b"red"], ["red", ["a"]], ["\ud800"]):
        assert table.quick_tensor(values, (len(values),)) is None


def test_one_known_text_has_one_tensor_in_all_calls() -> None:
    program = ProgramTexts(["red", "é"], 100, "known")
    made = {}
    for text, number in [("red", digest("red")), ("é", digest("é")), ("", 0), ("new", program.unknown)]:
        for shape in [(), (1,), (1, 1)]:
            tensor = program.open(program).quick_tensor([text], shape)
            assert tensor is not None and tensor.shape == shape and tensor.numpy().ravel().tolist() == [number]
            made[text, shape] = tensor
            # Other new words have the same number, and texts of other classes are found as well.
            for same in (np.str_(text), "other" if text == "new" else text):
                again = program.open(program).quick_tensor([same], shape)
                assert again is not None and again.data_ptr() == tensor.data_ptr()
    assert len({tensor.data_ptr() for tensor in made.values()}) == len(made) == len(program.singles)
    for value in (None, b"red", 0, ["a"], "\ud800"):
        assert program.open(program).quick_tensor([value], (1,)) is None


@pytest.mark.parametrize("numbering", _READ)
def test_values_that_are_no_plain_texts_are_left_to_others(numbering: str) -> None:
    program = ProgramTexts(["red"], 100, numbering)
    for values in (["a", None], ["a", b"red"], [["a"]], ["\ud800"], [np.str_("new")]):
        assert program.open(program).quick_tensor(values, (len(values),)) is None
    tensor = program.open(program).quick_tensor(["red", "new"], (2,))
    assert tensor is not None and tensor.shape == (2,)


def test_numbers_are_the_digest_of_no_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {"red": (1 << 48) + 5, "blue": 2 << 48}
    monkeypatch.setattr(text_tables, "digest", lambda text: taken.get(text, 7))
    for numbering in ("interned", "placed", "known"):
        program = ProgramTexts(taken, 100, numbering)
        numbers = program.open(program).tensor([f"word {k}" for k in range(20)], (20,)).numpy()
        assert not set(numbers.tolist()) & set(taken.values()) and (numbers >= 3 << 48).all()


@pytest.mark.parametrize("numbering", _READ)
def test_a_number_of_no_text_is_refused(numbering: str) -> None:
    program = ProgramTexts(["red"], 100, numbering)
    table = program.open(program)
    table.tensor(["a"], (1,))
    with pytest.raises(VMError, match="no string has the digest 5"):
        table.read([5])
