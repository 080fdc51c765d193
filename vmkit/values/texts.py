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
from .host_memory import to_tensor
from .kinds.value import Value

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

__all__ = ["StringTensor", "Texts", "as_texts", "call_texts", "digest", "digests", "open_call"]


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
    words : int
        How many short texts this table takes over from those above it, so that calls find them which come later.
    """

    __slots__ = ("_below", "_digests", "_texts", "_words")

    def __init__(self, below: Texts | None = None, words: int = 0) -> None:
        self._texts: dict[int, str] = {0: ""}
        self._digests: dict[str, int] = {"": 0}
        self._below = below
        self._words = words

    @staticmethod
    def of(texts: Iterable[str]) -> Texts:
        """Return the table of some texts."""
        made = Texts()
        for text in texts:
            made.add(text)
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
            raise VMError(
                f"the strings {text!r} and {other!r} have the same digest of 64 bits; one of them must change"
            )
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

    def store(self, array: np.ndarray) -> np.ndarray:
        """Return the digests of an array of str, whose texts can be read from now on."""
        flat = array.ravel().tolist()
        known = self._digests if self._below is None else self._below._digests
        if not known.keys() >= (different := set(flat)):
            # Most texts of a row of tokens have been there, so each is looked for once.
            known = self._digests
            for text in different:
                if text not in known:
                    known[text] = self._entered(text)
        return np.fromiter(map(known.__getitem__, flat), "int64", len(flat)).reshape(array.shape)

    def _entered(self, text: str) -> int:
        """Return the digest of a text, which is entered below where short texts are kept, and here else."""
        below = self._below
        if below is None or len(text) > _LONGEST_WORD or len(below._digests) >= below._words:
            return self.add(text)
        made = below.add(text)
        below._digests[text], below._texts[made] = made, text
        return made

    def read(self, stored: np.ndarray) -> np.ndarray:
        """Return the texts of an array of digests, as an array of objects."""
        flat = stored.ravel().tolist()
        different = set(flat)
        table: Texts | None = self
        while table is not None and not table._texts.keys() >= different:
            table = table._below
        known = {value: self._found(value) for value in different} if table is None else table._texts
        made = np.empty(len(flat), dtype=object)
        made[:] = list(map(known.__getitem__, flat))
        return made.reshape(stored.shape)

    def _found(self, value: int) -> str:
        text = self.text(value)
        if text is None:
            raise VMError(
                f"no string has the digest {value}: strings go in as arrays of objects, and come out of the call "
                "that made them"
            )
        return text


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

    def stored(self) -> np.ndarray:
        """Return the digests, whose texts are known in the call that runs."""
        return call_texts().store(self._array)

    def to_runtime(self, device: Device, *, share: bool = True) -> Tensor:
        return to_tensor(self.stored(), device)

    def to_numpy(self) -> np.ndarray:
        return self.numpy()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"StringTensor({list(self.shape)})"
