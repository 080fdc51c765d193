"""What programs do to strings by functions in Python, which take and give tensors of numbers that stand for texts.

Each is registered with TVM, and this module is imported before a program that calls them by name is started. Options
come as the text of a JSON value. See :mod:`vmkit.values.text_tables` for the numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from operator import add
from typing import Any, NamedTuple

import numpy as np
import tvm_ffi
from tvm.runtime import Device, Tensor

from .conversion import to_numpy
from .host_memory import to_tensor
from .text_numbers import float_texts, floats_of, integers_of
from .texts import Texts, call_texts, text_tensor
from .tokens import murmur_hash, tokenizer

__all__ = ["NAMES", "TextArray"]

NAMES: dict[str, str] = {}
"""The name that each function is registered under, by its own."""


class TextArray(NamedTuple):
    """An array of texts.

    Attributes
    ----------
    texts : list of str
        In row-major order; nobody may change a list that is an argument.
    shape : tuple of int
        The dims.
    """

    texts: list[str]
    shape: tuple[int, ...]


_Change = Callable[..., "TextArray | np.ndarray | tuple[TextArray | np.ndarray, ...]"]
"""A function of arrays of texts and numbers."""


def _function(prepare: Callable[[Any], _Change]) -> Callable[[Any], _Change]:
    """Register what gives the function for some options, which is made once for each of them."""
    name = f"vmkit.text.{prepare.__name__}"
    NAMES[prepare.__name__] = name

    @lru_cache(maxsize=64)
    def prepared(options: str) -> _Change:
        return prepare(json.loads(options))

    def call(options: str, strings: str, *tensors: Tensor) -> Tensor | tvm_ffi.Array:
        texts = call_texts()
        arrays = [_array(t, kind, texts) for t, kind in zip(tensors, strings, strict=True)]
        made = prepared(options)(*arrays)
        device = tensors[0].device
        if isinstance(made, TextArray | np.ndarray):
            return _stored(made, device)
        return tvm_ffi.Array([_stored(field, device) for field in made])

    tvm_ffi.register_global_func(name, call, override=True)
    return prepare


def _array(tensor: Tensor, kind: str, texts: Texts) -> TextArray | np.ndarray:
    if kind == "s":
        return TextArray(texts.listed(tensor), tuple(tensor.shape))
    made = to_numpy(tensor)
    assert isinstance(made, np.ndarray)
    return made


def _stored(array: TextArray | np.ndarray, device: Device) -> Tensor:
    return to_tensor(array, device) if isinstance(array, np.ndarray) else text_tensor(*array, device)


@_function
def concatenate(options: None) -> _Change:
    """The texts of two arrays of one shape put together."""
    return lambda left, right: TextArray([*map(add, left.texts, right.texts)], left.shape)


@_function
def split(options: dict[str, Any]) -> _Change:
    """The parts of every text along a new last axis, filled up with empty texts, and how many there are."""
    delimiter, most = options["delimiter"] or None, options["maxsplit"]

    def parts(data: TextArray) -> tuple[TextArray, np.ndarray]:
        rows = [text.split(delimiter, most) for text in data.texts]
        counts = [*map(len, rows)]
        return _filled_up(rows, max(counts, default=0), "", data.shape), np.array(counts, "int64").reshape(data.shape)

    return parts


def _filled_up(rows: list[list[str]], width: int, filling: str, shape: tuple[int, ...]) -> TextArray:
    """Return texts of as many rows as a shape has elements, which are filled up to a width."""
    flat: list[str] = []
    whole = [filling] * width
    for row in rows:
        flat += row
        flat += whole[len(row) :]
    return TextArray(flat, (*shape, width))


def _one_by_one(change: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    """Return a change of case of texts that keeps every character one, as C's functions do."""

    def changed(text: str) -> str:
        # None becomes fewer characters, so as many are the same ones; but a sigma depends on what is around it.
        whole = change(text)
        if len(whole) == len(text) and "\u03a3" not in text:
            return whole
        return "".join(new if len(new := change(old)) == 1 else old for old in text)

    def all_changed(texts: list[str]) -> list[str]:
        return [*map(change if "".join(texts).isascii() else changed, texts)]

    return all_changed


_CASES: dict[str, Callable[[list[str]], list[str]]] = {
    "LOWER": _one_by_one(str.lower),
    "UPPER": _one_by_one(str.upper),
    "NONE": lambda texts: texts,
}


@_function
def normalize(options: dict[str, Any]) -> _Change:
    """The texts of a vector, or of a matrix of one row, without stop words and in another case."""
    change, lower = _CASES[options["case"]], _CASES["NONE" if options["sensitive"] else "LOWER"]
    stopwords = set(lower(options["stopwords"]))

    def kept(data: TextArray) -> TextArray:
        texts = data.texts
        if stopwords:
            pairs = zip(texts, lower(texts), strict=True)
            texts = [text for text, compared in pairs if compared not in stopwords]
        texts = change(texts) or [""]
        return TextArray(texts, (1, len(texts)) if len(data.shape) == 2 else (len(texts),))

    return kept


@_function
def tokenize(options: dict[str, Any]) -> _Change:
    """The tokens of every text along a new last axis, filled up behind them."""
    marked, padding = options["marked"], options["padding"]
    parts = tokenizer(options["expression"], tuple(options["separators"]), options["least"], marked)

    def tokens(data: TextArray) -> TextArray:
        rows = [*map(parts, data.texts)]
        width = max(map(len, rows), default=0)
        if marked and width == 2:  # no text has a token
            rows, width = [], 0
        return _filled_up(rows, width, padding, data.shape)

    return tokens


@_function
def hashes(options: dict[str, Any]) -> _Change:
    """The MurmurHash3 of each text in UTF-8, an integer of 32 bits."""
    seed, dtype = options["seed"], options["dtype"]

    def hashed(data: TextArray) -> np.ndarray:
        made = np.array([murmur_hash(text.encode(), seed) for text in data.texts], "uint32")
        return made.view(dtype).reshape(data.shape)

    return hashed


@_function
def full_match(options: str) -> _Change:
    """Whether each text as a whole matches a regular expression in Python's form."""
    match = re.compile(options).fullmatch

    def matches(data: TextArray) -> np.ndarray:
        return np.fromiter(map(bool, map(match, data.texts)), "bool", len(data.texts)).reshape(data.shape)

    return matches


@_function
def order(options: None) -> _Change:
    """Integers that compare as the texts do, by their code points."""

    def places(data: TextArray) -> np.ndarray:
        of = {text: place for place, text in enumerate(sorted(set(data.texts)))}
        return np.array([*map(of.__getitem__, data.texts)], "int64").reshape(data.shape)

    return places


@_function
def from_number(options: str | None) -> _Change:
    """Numbers as texts: floats in a format, or with 8 digits at most, as onnxruntime writes them."""

    def texts(data: np.ndarray) -> TextArray:
        numbers = data.ravel()
        if data.dtype.kind == "b":
            made = [*map(["0", "1"].__getitem__, numbers.tolist())]
        elif data.dtype.kind in "iu":
            made = [*map(repr, numbers.tolist())]
        elif options:
            made = [*map(options.__mod__, numbers.tolist())]
        else:
            made = float_texts(numbers)
        return TextArray(made, data.shape)

    return texts


@_function
def to_number(options: str) -> _Change:
    """Texts as numbers of a type; integers are cut off behind the point and wrap around."""
    dtype = np.dtype(options)

    def numbers(data: TextArray) -> np.ndarray:
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                return floats_of(data.texts).astype(dtype).reshape(data.shape)
        return integers_of(data.texts, dtype).reshape(data.shape)

    return numbers
