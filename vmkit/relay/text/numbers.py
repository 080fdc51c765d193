"""Number literals: the value and width that a literal means, and the literal that means a value.

An integer is an int32 unless it does not fit (then an int64) or says otherwise: ``1i16``, ``1i64``. A float always has
a suffix: ``1f``, ``1f16``, ``1f64``, ``inff``.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np
import tvm

from .source import Source

__all__ = ["Number", "float_text", "parse_number", "scalar_text"]

_INTEGER = re.compile(r"[0-9]+\Z")
_FLOAT = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?\Z")
_WIDTHS = {"i": (8, 16, 32, 64), "f": (16, 32, 64)}
_LARGEST = {16: 65504.0, 32: float(np.finfo("float32").max), 64: math.inf}
_SUFFIXES = {"int16": "i16", "int32": "", "int64": "i64", "float16": "f16", "float32": "f", "float64": "f64"}


class Number(NamedTuple):
    """A number of a text: an int or a float, and its data type."""

    value: int | float
    dtype: str


def parse_number(source: Source, start: int, text: str) -> Number:
    """Return the number that a literal means.

    Raises
    ------
    ParseError
        When the characters are no number or the value does not fit the width.
    """
    digits = text.lstrip("-")
    sign = -1 if (len(text) - len(digits)) % 2 else 1
    if digits == "inff":
        return Number(sign * math.inf, "float32")
    family = "f" if "f" in digits else "i"
    literal, _, suffix = digits.partition(family)
    if suffix and not (suffix.isdigit() and len(suffix) < 4 and int(suffix) in _WIDTHS[family]):
        known = ", ".join(f"{family}{w}" for w in _WIDTHS[family])
        raise source.error(start, f"invalid numeric suffix '{family}{suffix}'; expected one of {known}")
    width = int(suffix) if suffix else 32
    if family == "f":
        return _float(source, start, literal, sign, width)
    return _integer(source, start, literal, sign, width, bool(suffix))


def _float(source: Source, start: int, literal: str, sign: int, width: int) -> Number:
    if not _FLOAT.match(literal):
        raise source.error(start, f"invalid floating point number '{literal}'")
    value = sign * float(literal)
    if abs(value) > _LARGEST[width] or math.isinf(value):
        raise source.error(start, f"floating point number '{literal}' is unrepresentable in width {width}")
    return Number(value, f"float{width}")


def _integer(source: Source, start: int, literal: str, sign: int, width: int, has_suffix: bool) -> Number:
    if not _INTEGER.match(literal):
        hint = "; a float ends in 'f'" if _FLOAT.match(literal) else "; write spaces around '+' and '-'"
        raise source.error(start, f"invalid integer number '{literal}'{hint}")
    value = sign * int(literal) if len(literal) < 40 else 1 << 64
    if not has_suffix and not _fits(value, 32):
        width = 64
    if not _fits(value, width):
        raise source.error(start, f"integer number '{literal}' is unrepresentable in width {width}")
    return Number(value, f"int{width}")


def _fits(value: int, width: int) -> bool:
    return -(1 << (width - 1)) <= value < 1 << (width - 1)


def float_text(value: float, dtype: str = "float64") -> str:
    """Return a float in six digits, as Relay printed it, or in as many as are needed to read the same value back."""
    short = f"{value:.6g}"
    if dtype == "float64":
        return short if float(short) == value else repr(float(value))
    as_dtype = np.dtype(dtype).type
    text = short if as_dtype(short) == as_dtype(value) else str(as_dtype(value))
    # The shortest digits of the largest float32 lie above it, where no literal may be.
    exceeds = abs(float(text)) > abs(float(value)) == float(np.finfo(as_dtype).max)
    return repr(float(value)) if exceeds else text


def scalar_text(data: tvm.runtime.Tensor) -> str | None:
    """Return the literal for a tensor of rank 0; None when no literal means exactly that tensor."""
    dtype = str(data.dtype)
    if len(data.shape) or dtype not in (*_SUFFIXES, "bool"):
        return None
    value = data.numpy().item()
    if dtype == "bool":
        return str(value)
    if isinstance(value, int):
        # Without a suffix a literal is an int32.
        return f"{value}{_SUFFIXES[dtype]}"
    if math.isfinite(value):
        return float_text(value, dtype) + _SUFFIXES[dtype]
    if dtype == "float32" and math.isinf(value):
        return "inff" if value > 0 else "-inff"
    return None
