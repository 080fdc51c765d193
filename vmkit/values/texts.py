"""Strings: to a program a tensor of them holds numbers; here is what gives and takes the texts that they stand for.

The texts of a program's constants are kept in its executable, which has their digests in its code. Those of a call's
inputs, and those that the program makes, are in a table that lives as long as the call: :func:`open_call` is around
it, and :func:`call_texts` gives it to functions in Python that the program calls. See
:mod:`vmkit.values.text_tables` for the numbers.

>>> with open_call(ProgramTexts(["a"])) as texts:
...     tensor = texts.tensor(["b", "", "a"], (3,))
...     [int(number) == digest("a") for number in tensor.numpy()], texts.listed(tensor)
([False, False, True], ['b', '', 'a'])
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm.runtime import Device, Tensor

from ..errors import VMError
from .digests import digest, digests
from .kinds.value import Value
from .text_tables import ProgramTexts, Texts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

__all__ = [
    "ProgramTexts",
    "StringTensor",
    "Texts",
    "as_texts",
    "call_texts",
    "current_texts",
    "digest",
    "digests",
    "open_call",
    "quick_text_tensor",
    "text_tensor",
]


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


_OBJECT = np.dtype(object)
current_texts: ContextVar[Texts | None] = ContextVar("vmkit_texts", default=None)
"""The table of the call that runs; :class:`open_call` sets it, and the calls of machines do so without a context."""


def call_texts() -> Texts:
    """Return the table of the call that runs; VMError outside of one."""
    texts = current_texts.get()
    if texts is None:
        raise VMError("the program works on strings, whose texts are known in a call of vmkit.VirtualMachine alone")
    return texts


class open_call:
    """Makes the table of a call, over the texts of a program, the one that :func:`call_texts` gives inside of it."""

    __slots__ = ("_program", "_token")

    def __init__(self, program: ProgramTexts) -> None:
        self._program = program

    def __enter__(self) -> Texts:
        texts = self._program.open(self._program)
        self._token = current_texts.set(texts)
        return texts

    def __exit__(self, *error: object) -> None:
        current_texts.reset(self._token)


def text_tensor(texts: list[str], shape: tuple[int, ...], device: Device) -> Tensor:
    """Return the tensor of the numbers of texts, which can be read while the call runs; the list belongs to it."""
    tensor = call_texts().tensor(texts, shape)
    return tensor if tensor.device == device else tensor.copyto(device)


def quick_text_tensor(value: object, texts: Texts) -> Tensor | None:
    """Return the tensor of the numbers of an array of objects that are str; None where that has to be looked at."""
    if type(value) is not np.ndarray or value.dtype != _OBJECT:
        return None
    return texts.quick_tensor(value.ravel().tolist(), value.shape)


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

    __slots__ = ("_shape", "_texts")
    dtype = "string"

    def __init__(self, array: ArrayLike) -> None:
        texts = as_texts(array)
        self._texts: list[str] = texts.ravel().tolist()
        self._shape = texts.shape

    @classmethod
    def over(cls, texts: list[str], shape: tuple[int, ...]) -> StringTensor:
        """Return the tensor of values that are known to be texts; nobody may change the list from now on."""
        made = cls.__new__(cls)
        made._texts, made._shape = texts, shape
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims."""
        return self._shape

    def numpy(self) -> np.ndarray:
        """Return the strings as an array of objects."""
        made = np.fromiter(self._texts, _OBJECT, len(self._texts))
        return made if len(self._shape) == 1 else made.reshape(self._shape)

    def to_runtime(self, device: Device, *, share: bool = True) -> Tensor:
        return text_tensor(self._texts, self._shape, device)

    def to_numpy(self) -> np.ndarray:
        return self.numpy()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of unsized object")
        return self._shape[0]

    def __repr__(self) -> str:
        return f"StringTensor({list(self.shape)})"
