"""What programs do to strings by functions in Python, which take and give tensors of digests.

Each is registered with TVM, and this module is imported before a program that calls them by name is started. Options
come as the text of a JSON value. See :mod:`vmkit.values.texts` for the digests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, SupportsFloat, cast

import numpy as np
import tvm_ffi
from tvm.runtime import Device, Tensor

from ..errors import VMError
from .conversion import to_numpy
from .host_memory import to_tensor
from .texts import Texts, call_texts, text_tensor
from .tokens import murmur_hash, tokenizer

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["NAMES"]

NAMES: dict[str, str] = {}
"""The name that each function is registered under, by its own."""


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function of (options, *arrays): digests come and go as arrays of objects, numbers as such."""
    name = f"vmkit.text.{function.__name__}"
    NAMES[function.__name__] = name

    def call(options: str, strings: str, *tensors: Tensor) -> Tensor | tvm_ffi.Array:
        texts = call_texts()
        device = tensors[0].device
        arrays = [cast("np.ndarray", to_numpy(t)) for t in tensors]
        arrays = [texts.read(a) if s == "s" else a for a, s in zip(arrays, strings, strict=True)]
        made = function(_options(options), *arrays)
        if isinstance(made, tuple):
            return tvm_ffi.Array([_stored(field, texts, device) for field in made])
        return _stored(made, texts, device)

    tvm_ffi.register_global_func(name, call, override=True)
    return function


def _stored(array: np.ndarray, texts: Texts, device: Device) -> Tensor:
    return text_tensor(array, texts, device) if array.dtype == object else to_tensor(array, device)


@lru_cache(maxsize=256)
def _options(text: str) -> dict[str, Any] | str | None:
    return json.loads(text)


def _each(function: Callable[[Any], Any], array: np.ndarray, dtype: DTypeLike = object) -> np.ndarray:
    made = np.empty(array.size, dtype)
    made[:] = [function(text) for text in array.ravel().tolist()]
    return made.reshape(array.shape)


@_function
def concatenate(options: None, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the texts of two arrays of one shape put together."""
    made = np.empty(left.size, dtype=object)
    made[:] = [a + b for a, b in zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)]
    return made.reshape(left.shape)


@_function
def split(options: dict[str, Any], data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of every text along a new last axis, filled up with empty texts, and how many there are."""
    delimiter, most = options["delimiter"] or None, options["maxsplit"]
    parts = [text.split(delimiter, most) for text in data.ravel().tolist()]
    counts = [*map(len, parts)]
    return _filled_up(parts, max(counts, default=0), "", data.shape), np.array(counts, "int64").reshape(data.shape)


def _filled_up(rows: list[list[str]], width: int, filling: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return texts of as many rows as a shape has elements, which are filled up to a width."""
    flat: list[str] = []
    for row in rows:
        flat += row
        if len(row) < width:
            flat += [filling] * (width - len(row))
    made = np.empty(len(flat), dtype=object)
    made[:] = flat
    return made.reshape(*shape, width)


def _one_by_one(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return a change of case that keeps every character one, as C's functions do."""

    def changed(text: str) -> str:
        # None becomes fewer characters, so as many are the same ones; but a sigma depends on what is around it.
        whole = change(text)
        if len(whole) == len(text) and "\u03a3" not in text:
            return whole
        return "".join(new if len(new := change(old)) == 1 else old for old in text)

    return changed


_CASES: dict[str, Callable[[str], str]] = {
    "LOWER": _one_by_one(str.lower),
    "UPPER": _one_by_one(str.upper),
    "NONE": lambda text: text,
}


@_function
def normalize(options: dict[str, Any], data: np.ndarray) -> np.ndarray:
    """Return the texts of a vector, or of a matrix of one row, without stop words and in another case."""
    change = _CASES[options["case"]]
    kept = data.ravel().tolist()
    if options["stopwords"]:
        if options["sensitive"]:
            stopwords = set(options["stopwords"])
            kept = [text for text in kept if text not in stopwords]
        else:
            lower = _CASES["LOWER"]
            stopwords = {lower(text) for text in options["stopwords"]}
            kept = [text for text in kept if lower(text) not in stopwords]
    made = np.empty(max(len(kept), 1), dtype=object)
    made[:] = [change(text) for text in kept] or [""]
    return made.reshape((1, -1) if data.ndim == 2 else (-1,))


@_function
def tokenize(options: dict[str, Any], data: np.ndarray) -> np.ndarray:
    """Return the tokens of every text along a new last axis, filled up behind them."""
    parts = tokenizer(options["expression"], tuple(options["separators"]), options["least"], options["marked"])
    rows = [parts(text) for text in data.ravel().tolist()]
    width = max(map(len, rows), default=0)
    if options["marked"] and width == 2:  # no text has a token
        rows, width = [], 0
    return _filled_up(rows, width, options["padding"], data.shape)


@_function
def hashes(options: dict[str, Any], data: np.ndarray) -> np.ndarray:
    """Return the MurmurHash3 of each text in UTF-8, an integer of 32 bits."""
    seed = options["seed"]
    return _each(lambda text: murmur_hash(text.encode(), seed), data, "uint32").view(options["dtype"])


@_function
def full_match(options: str, data: np.ndarray) -> np.ndarray:
    """Return whether each text as a whole matches a regular expression in Python's form."""
    pattern = re.compile(options)
    return _each(lambda text: pattern.fullmatch(text) is not None, data, "bool")


@_function
def order(options: None, data: np.ndarray) -> np.ndarray:
    """Return integers that compare as the texts do, by their code points."""
    flat = data.ravel().tolist()
    places = {text: place for place, text in enumerate(sorted(set(flat)))}
    return _each(places.__getitem__, data, "int64")


@_function
def from_number(options: str | None, data: np.ndarray) -> np.ndarray:
    """Return numbers as texts: floats in a format, or with 8 digits at most, as onnxruntime writes them."""
    if data.dtype.kind == "b":
        return _each(lambda value: "1" if value else "0", data)
    if data.dtype.kind in "iu":
        return _each(str, data)
    return _each((lambda value: options % value) if options else _float_text, data)


def _float_text(value: SupportsFloat) -> str:
    number = float(value)
    if number != number:
        return "NaN"
    if number in (float("inf"), -float("inf")):
        return "INF" if number > 0 else "-INF"
    return f"{number:.8g}"


_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)\s*", re.ASCII | re.I)
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)


@_function
def to_number(options: str, data: np.ndarray) -> np.ndarray:
    """Return texts as numbers of a type; integers are cut off behind the point and wrap around."""
    dtype = np.dtype(options)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return _each(_float, data, "float64").astype(dtype)
    if dtype.kind == "b":
        return _each(lambda text: _integer(text) != 0, data, "bool")
    bits, least = 8 * dtype.itemsize, int(np.iinfo(dtype).min)
    return _each(lambda text: (_integer(text) - least) % (1 << bits) + least, data, dtype)


def _float(text: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise VMError(f"the string {text!r} is not a number")
    return float(text)


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is not None:
        return int(text)
    number = _float(text)
    if number - number != 0:
        raise VMError(f"the string {text!r} is not an integer")
    return int(number)
