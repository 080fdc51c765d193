"""The tables of texts: which number stands for a text in a tensor of a call, and which text for a number.

What a number may be is told by what the program does with it, its *numbering*:

- *digests*: the digest of the text, whatever the text is.
- *interned*: a digest for texts of the program's constants, any number for another text, the same one wherever it is.
- *placed*: any number for each element of each tensor, for programs that only move elements and read their texts.
- *known*: one number for all texts that are no constants, for programs that only ask which constant a text is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count, islice, repeat
from threading import Lock
from typing import Any

import numpy as np
from tvm.runtime import Tensor

from ..errors import VMError
from .digests import LONGEST_WORD, digest
from .host_memory import as_array, integer_tensor

__all__ = ["NUMBERINGS", "KnownTexts", "PlacedTexts", "ProgramTexts", "Texts"]

_NUMBERS = 1 << 48
"""How many numbers there are for the texts of a program that are no constants."""


class ProgramTexts:
    """The texts of a program's constants, and the short ones of its calls, so that later calls find them.

    Parameters
    ----------
    texts
        Those of the constants.
    words
        How many short texts of calls are kept beside them.
    numbering
        One of :data:`NUMBERINGS`.
    """

    def __init__(self, texts: Iterable[str], words: int = 0, numbering: str = "digests") -> None:
        self.digests: dict[str, int] = {"": 0}
        self.texts: dict[int, str] = {0: ""}
        for text in texts:
            made = digest(text)
            other = self.texts.setdefault(made, text)
            if other != text:
                raise alike(text, other)
            self.digests[text] = made
        self.room = len(self.digests) + words
        self.open: Callable[[ProgramTexts], Texts] = NUMBERINGS[numbering]
        # Numbers that are the digest of no constant.
        taken = {value // _NUMBERS for value in self.texts}
        first = next(block for block in count(1) if block not in taken) * _NUMBERS
        self.has_digests_alone = numbering == "digests"
        self.unknown = self._next = first
        # The tensors of one text each, by its number and their rank, for calls that only ask which constant it is.
        self.singles: dict[tuple[int, int], Tensor] = {}
        self._lock = Lock()

    def take(self, count: int) -> range:
        """Return so many numbers that stand for no text yet, in this call or another."""
        with self._lock:
            first = self._next
            self._next += count
        return range(first, first + count)

    def __len__(self) -> int:
        """Return how many texts there are, the empty one not counted."""
        return len(self.texts) - 1


class Texts:
    """The texts of a call whose numbers are digests, or are the same for equal texts.

    Parameters
    ----------
    program : ProgramTexts
        The texts that are there in every call.
    """

    __slots__ = ("_digests", "_made", "_program", "_texts")

    def __init__(self, program: ProgramTexts) -> None:
        self._program = program
        self._texts: dict[int, str] = {}
        self._digests: dict[str, int] = {}
        # The lists of texts that tensors were made of, by the address of these, which are kept so that it stays theirs.
        self._made: dict[int, tuple[Tensor, list[str]]] = {}

    def __len__(self) -> int:
        """Return how many texts there are beside the program's."""
        return len(self._texts)

    def tensor(self, texts: list[str], shape: tuple[int, ...]) -> Tensor:
        """Return the tensor of the numbers of texts, on the CPU. The list belongs to the table from now on."""
        return self._remembered(integer_tensor(self.numbers_of(texts), shape), texts)

    def quick_tensor(self, values: list[Any], shape: tuple[int, ...]) -> Tensor | None:
        """Return the tensor of values that are all plain str; None if one may be something else, or has no UTF-8."""
        numbers = self._known(values)
        if numbers is None:
            return self.tensor(values, shape) if are_texts(values) else None
        return self._remembered(integer_tensor(numbers, shape), values)

    def _remembered(self, tensor: Tensor, texts: list[str]) -> Tensor:
        if texts:
            self._made[tensor.data_ptr()] = tensor, texts
        return tensor

    def numbers_of(self, texts: list[str]) -> list[int]:
        """Return the numbers of texts, which can be read from now on."""
        found = self._known(texts)
        if found is None:
            self._enter(set(texts).difference(self._digests))
            found = [*map(self._digests.__getitem__, texts)]
        return found

    def _known(self, texts: list[Any]) -> list[int] | None:
        """Return the numbers of values that are all texts which were there before; None if one is not."""
        # Most texts of a row of tokens have been there. What this call has numbered by itself keeps its number.
        known = self._digests or self._program.digests
        try:
            return [*map(known.__getitem__, texts)]
        except (KeyError, TypeError):
            return None

    def _enter(self, texts: set[str]) -> None:
        """Number texts that the call's own table does not have yet."""
        program = self._program
        new = texts.difference(program.digests)
        known = texts.difference(new) if len(new) < len(texts) else ()
        self._digests.update(zip(known, map(program.digests.__getitem__, known), strict=True))
        if program.has_digests_alone:
            for text in new:
                self._digests[text] = self._digested(text)
            return
        room = program.room - len(program.digests)
        if room > 0:
            words = [*islice((text for text in new if len(text) <= LONGEST_WORD), room)]
            new.difference_update(words)
            for text, number in zip(words, program.take(len(words)), strict=True):
                # Other threads may enter the same word: all take the number that came first.
                program.texts[number] = text
                self._digests[text] = program.digests.setdefault(text, number)
        numbers = program.take(len(new))
        self._digests.update(zip(new, numbers, strict=True))
        self._texts.update(zip(numbers, new, strict=True))

    def _digested(self, text: str) -> int:
        """Return the digest of a text, which is kept by the program if it is short, and here else."""
        program, made = self._program, digest(text)
        is_kept = len(text) <= LONGEST_WORD and len(program.digests) < program.room
        other = program.texts.setdefault(made, text) if is_kept else program.texts.get(made, text)
        other = other if other != text else self._texts.get(made, text)
        if other != text:
            raise alike(text, other)
        if is_kept:
            program.digests[text] = made
        else:
            self._texts[made] = text
        return made

    def listed(self, tensor: Tensor) -> list[str]:
        """Return the texts of a tensor's elements one after the other; nobody may change the list."""
        made = self._made.get(tensor.data_ptr())
        # A part of a tensor may begin where that does.
        if made is not None and len(made[1]) == tensor.numel():
            return made[1]
        return self.read(as_array(tensor).ravel().tolist())

    def read(self, numbers: list[int]) -> list[str]:
        """Return the texts of numbers."""
        for table in (self._program.texts, self._own()):
            try:
                return [*map(table.__getitem__, numbers)]
            except KeyError:
                pass
        known = {value: self._found(value) for value in set(numbers)}
        return [*map(known.__getitem__, numbers)]

    def _own(self) -> dict[int, str]:
        """Return the texts of the call by their numbers."""
        return self._texts

    def _found(self, value: int) -> str:
        text = self._program.texts.get(value)
        text = self._own().get(value) if text is None else text
        if text is None:
            raise VMError(
                f"no string has the digest {value}: strings go in as arrays of objects, and come out of the call "
                "that made them"
            )
        return text


class PlacedTexts(Texts):
    """The texts of a call in which every element of every tensor has a number of its own."""

    __slots__ = ("_blocks", "_next")

    def __init__(self, program: ProgramTexts) -> None:
        super().__init__(program)
        self._next = program.unknown
        # Texts that were numbered and not asked for by their numbers yet: the first of these, and the texts.
        self._blocks: list[tuple[int, list[str]]] = []

    def tensor(self, texts: list[str], shape: tuple[int, ...]) -> Tensor:
        first = self._next
        self._next = first + len(texts)
        self._blocks.append((first, texts))
        return self._remembered(integer_tensor(np.arange(first, self._next), shape), texts)

    def quick_tensor(self, values: list[Any], shape: tuple[int, ...]) -> Tensor | None:
        return self.tensor(values, shape) if are_texts(values) else None

    def _own(self) -> dict[int, str]:
        while self._blocks:
            first, texts = self._blocks.pop()
            self._texts.update(enumerate(texts, first))
        return self._texts


class KnownTexts(Texts):
    """The texts of a call of which only those of constants have numbers; they are not read again."""

    __slots__ = ()

    def tensor(self, texts: list[str], shape: tuple[int, ...]) -> Tensor:
        found = map(self._program.digests.get, texts, repeat(self._program.unknown))
        return integer_tensor(np.fromiter(found, "int64", len(texts)), shape)

    def quick_tensor(self, values: list[Any], shape: tuple[int, ...]) -> Tensor | None:
        if len(values) == 1:
            return self._single(values[0], len(shape))
        # What is derived from str is found as texts are.
        return self.tensor(values, shape) if _have_utf8(values) else None

    def _single(self, value: object, rank: int) -> Tensor | None:
        """Return the tensor of one value, made once: a table's row has one in each column, and nobody writes to it."""
        program = self._program
        number = program.digests.get(value) if isinstance(value, str) else None
        if number is None:
            if not _have_utf8([value]):
                return None
            number = program.unknown
        made = program.singles.get((number, rank))
        if made is None:
            made = program.singles[number, rank] = integer_tensor([number], (1,) * rank)
        return made


NUMBERINGS: dict[str, type[Texts]] = {
    "digests": Texts,
    "interned": Texts,
    "placed": PlacedTexts,
    "known": KnownTexts,
}
"""The tables of calls by their numbering; see the head of this module."""


def are_texts(values: list[Any]) -> bool:
    """Tell whether values are all plain str, and texts in UTF-8: half of a surrogate pair is none."""
    return set(map(type, values)) <= {str} and _have_utf8(values)


def _have_utf8(values: list[Any]) -> bool:
    """Tell whether values are all of str, or of classes derived from it, and texts in UTF-8."""
    try:
        joined = "".join(values)
        return joined.isascii() or bool(joined.encode())
    except (TypeError, UnicodeEncodeError):
        return False


def alike(text: str, other: str) -> VMError:
    """Return the error of two texts that have one digest."""
    return VMError(f"the strings {text!r} and {other!r} have the same digest of 64 bits; one of them must change")
