"""Strings: to a program a tensor of them holds digests; here are the texts that the digests stand for.

A digest is the first 64 bits of BLAKE2b of the text in UTF-8, and 0 for the empty text. The texts of a program's
constants are kept in its executable. Those of a call's inputs, and those that the program makes, are in a table that
lives as long as the call: :func:`open_call` is around it, and :func:`call_texts` gives it to functions in Python that
the program calls. Two texts of one digest in a table are an error, never a wrong answer.

>>> texts = Texts()
>>> digests = texts.store(np.array(["a", "", "b"], object))
>>> int(digests[1]), texts.read(digests).tolist()
(0, ['a', '', 'b'])
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm.runtime import Device, Tensor

from ..errors import VMError
from .host_memory import integer_tensor
from .kinds.value import Value

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

__all__ = [
    "StringTensor",
    "Texts",
    "as_texts",
    "call_texts",
    "digest",
    "digests",
    "open_call",
    "quick_text_tensor",
    "text_tensor",
]


def digest(text: str) -> int:
    """Return what stands for a text in a tensor, as a signed integer of 64 bits."""
    if not text:
        return 0
    return _digest_of_word(text) if len(text) <= _LONGEST_WORD else _digest(text)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


# Words come again in call after call: keys of maps, categories, tokens.
_LONGEST_WORD = 32
_digest_of_word = lru_cache(maxsize=1 << 13)(_digest)


def digests(array: np.ndarray) -> np.ndarray:
    """Return what stands for the texts of an array of str, of its shape."""
    made = np.empty(array.size, "int64")
    made[:] = [digest(text) for text in array.ravel().tolist()]
    return made.reshape(array.shape)


def as_texts(value: ArrayLike) -> np.ndarray:
    """Return strings as an array of objects that are all str, never the array that was given.

    Parameters
    ----------
    value
        An array of objects, of numpy's strings or bytes, or a list, nested or not, or one string. Bytes are UTF-8.

    Raises
    ------
    ValueError
        With the first element that is no string.
    """
    given = value if isinstance(value, np.ndarray) else np.array(value, dtype=object)
    if given.size and given.dtype.kind not in "OSUT":
        raise ValueError(f"elements of {given.dtype}, not strings")
    made, flat = np.empty(given.size, dtype=object), given.ravel().tolist()
    if set(map(type, flat)) <= {str} and "".join(flat).isascii():
        made[:] = flat
    else:
        made[:] = [_as_text(element, place) for place, element in enumerate(flat)]
    return made.reshape(given.shape)


def _as_text(element: Any, place: int) -> str:
    try:
        if isinstance(element, bytes):
            return element.decode()
        if isinstance(element, str):
            element.encode()  # half of a surrogate pair has no UTF-8
            return str(element)
    except UnicodeError as error:
        raise ValueError(f"element {place} is no text in UTF-8 ({error})") from None
    raise ValueError(f"element {place} is {element!r}, not a string")


class Texts:
    """The texts of digests.

    Parameters
    ----------
    below : Texts, optional
        Where texts are that this table need not hold: those of the program's constants.
    """

    __slots__ = ("_below", "_digests", "_texts", "_words")

    def __init__(self, below: Texts | None = None) -> None:
        self._texts: dict[int, str] = {0: ""}
        self._digests: dict[str, int] = {"": 0}
        self._below = below
        # So many texts there are here once this table has taken over short ones, so that later calls find them.
        self._words = 0

    @staticmethod
    def of(texts: Iterable[str], words: int = 0) -> Texts:
        """Return the table of some texts, which takes over so many short ones beside them."""
        made = Texts()
        for text in texts:
            made.add(text)
        made._words = len(made._digests) + words
        return made

    def __len__(self) -> int:
        """Return how many texts there are beside those below, the empty one not counted."""
        return len(self._texts) - 1

    def add(self, text: str) -> int:
        """Return the digest of a text, which can be read from now on; VMError if it is that of another one."""
        found = self._known(text)
        if found is not None:
            return found
        made = digest(text)
        other = self.text(made)
        if other is not None and other != text:
            raise _alike(text, other)
        self._texts[made] = text
        self._digests[text] = made
        return made

    def _known(self, text: str) -> int | None:
        found = self._digests.get(text)
        return found if found is not None or self._below is None else self._below._known(text)

    def text(self, value: int) -> str | None:
        """Return the text of a digest, or None."""
        found = self._texts.get(value)
        return found if found is not None or self._below is None else self._below.text(value)

    def known_digests(self, texts: list[Any]) -> list[int] | None:
        """Return the digests of values that are all texts which were in calls before; None if one is not."""
        # Most texts of a row of tokens have been there.
        known = self if self._below is None else self._below
        try:
            return [*map(known._digests.__getitem__, texts)]
        except (KeyError, TypeError):
            return None

    def digests_of(self, texts: list[str]) -> list[int]:
        """Return the digests of texts, which can be read from now on; UnicodeEncodeError if one has no UTF-8."""
        found = self.known_digests(texts)
        if found is None:
            for text in set(texts).difference(self._digests):
                self._digests[text] = self._entered(text)
            found = [*map(self._digests.__getitem__, texts)]
        return found

    def _entered(self, text: str) -> int:
        """Return the digest of a text, which is entered below where short texts are kept, and here else."""
        below = self._below
        if below is None:
            return self.add(text)
        made = below._digests.get(text)
        if made is None:
            is_kept = len(text) <= _LONGEST_WORD and len(below._digests) < below._words
            made = below.add(text) if is_kept else digest(text)
            if below._texts.get(made, text) != text:
                raise _alike(text, below._texts[made])
            if not is_kept:
                self._texts.setdefault(made, text)
        if self._texts.get(made, text) != text:
            raise _alike(text, self._texts[made])
        return made

    def store(self, array: np.ndarray) -> np.ndarray:
        """Return the digests of an array of str, whose texts can be read from now on."""
        return np.array(self.digests_of(array.ravel().tolist()), "int64").reshape(array.shape)

    def read(self, stored: np.ndarray) -> np.ndarray:
        """Return the texts of an array of digests, as an array of objects."""
        flat = stored.ravel().tolist()
        made = np.empty(len(flat), dtype=object)
        made[:] = self._read(flat)
        return made.reshape(stored.shape)

    def _read(self, digests: list[int]) -> list[str]:
        table: Texts | None = self
        while table is not None:
            # The tables of most calls are empty.
            if len(table._texts) > 1 or table._below is None:
                try:
                    return [*map(table._texts.__getitem__, digests)]
                except KeyError:
                    pass
            table = table._below
        known = {value: self._found(value) for value in set(digests)}
        return [*map(known.__getitem__, digests)]

    def _found(self, value: int) -> str:
        text = self.text(value)
        if text is None:
            raise VMError(
                f"no string has the digest {value}: strings go in as arrays of objects, and come out of the call "
                "that made them"
            )
        return text


def _alike(text: str, other: str) -> VMError:
    return VMError(f"the strings {text!r} and {other!r} have the same digest of 64 bits; one of them must change")


_current: ContextVar[Texts | None] = ContextVar("vmkit_texts", default=None)


def call_texts() -> Texts:
    """Return the table of the call that runs; VMError outside of one."""
    texts = _current.get()
    if texts is None:
        raise VMError("the program works on strings, whose texts are known in a call of vmkit.VirtualMachine alone")
    return texts


class open_call:
    """Makes the table of a call, over the texts of a program, the one that :func:`call_texts` gives inside of it."""

    __slots__ = ("_program", "_token")

    def __init__(self, program: Texts) -> None:
        self._program = program

    def __enter__(self) -> Texts:
        texts = Texts(self._program)
        self._token = _current.set(texts)
        return texts

    def __exit__(self, *error: object) -> None:
        _current.reset(self._token)


def text_tensor(array: np.ndarray, texts: Texts, device: Device) -> Tensor:
    """Return the tensor of the digests of an array of str, whose texts can be read from now on."""
    tensor = integer_tensor(texts.digests_of(array.ravel().tolist()), array.shape)
    return tensor if tensor.device == device else tensor.copyto(device)


def quick_text_tensor(value: object, texts: Texts) -> Tensor | None:
    """Return the tensor of the digests of an array of objects that are str; None where that has to be looked at."""
    if type(value) is not np.ndarray or value.dtype != object:
        return None
    flat = value.ravel().tolist()
    digests = texts.known_digests(flat)
    if digests is None and set(map(type, flat)) == {str}:
        try:
            digests = texts.digests_of(flat)
        except UnicodeEncodeError:
            return None  # half of a surrogate pair
    return None if digests is None else integer_tensor(digests, value.shape)


class StringTensor(Value):
    """A tensor of strings: what a program returned, or was given.

    Parameters
    ----------
    array
        The strings: what :func:`as_texts` takes.

    Examples
    --------
    >>> StringTensor(["a", b"b"]).numpy()
    array(['a', 'b'], dtype=object)
    """

    __slots__ = ("_array",)
    dtype = "string"

    def __init__(self, array: ArrayLike) -> None:
        self._array = as_texts(array)

    @classmethod
    def over(cls, texts: np.ndarray) -> StringTensor:
        """Return the tensor of an array of objects that are known to be texts, and belong to it from now on."""
        made = cls.__new__(cls)
        made._array = texts
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims."""
        return self._array.shape

    def numpy(self) -> np.ndarray:
        """Return the strings as an array of objects."""
        return self._array.copy()

    def to_runtime(self, device: Device, *, share: bool = True) -> Tensor:
        return text_tensor(self._array, call_texts(), device)

    def to_numpy(self) -> np.ndarray:
        return self.numpy()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"StringTensor({list(self.shape)})"
