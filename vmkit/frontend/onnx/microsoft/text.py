"""onnxruntime's operators on strings, which the text pipelines of skl2onnx are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np

from .... import relay
from ....errors import UnsupportedOperatorError
from ....relay.ir import Expr
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..regular_expression import python_pattern

_MICROSOFT = "com.microsoft"
# What holds or not by what is around it, outside of a set of characters.
_ASSERTION = re.compile(r"(?:\\[bBAzZ]|(?<!\\)[$]|(?<![\\\[])\^)")


@converter("Tokenizer", domain=_MICROSOFT)
def tokenizer(
    ctx: Context,
    x: Expr,
    *,
    mark: int,
    mincharnum: int,
    pad_value: str,
    separators: Sequence[str] | None = None,
    tokenexp: str = "",
) -> Expr:
    """Tokens match an expression, or lie between separators; of several matches at a place the longest counts."""
    if ctx.dtype(x) != "string" or ctx.rank(x) not in (1, 2):
        ctx.fail(f"the input must be a vector or a matrix of strings, not {ctx.type(x)}")
    if separators is None and not tokenexp:
        ctx.fail("it needs either separators or tokenexp")
    if separators is not None and not separators:
        ctx.fail("separators must not be empty")
    if mincharnum < 1:
        ctx.fail(f"mincharnum is {mincharnum}; a token has at least 1 character")
    by_character = list(separators) == [""] if separators is not None else tokenexp == "."
    if by_character and mincharnum > 1:
        ctx.fail(f"mincharnum is {mincharnum}, but each character is a token")
    between = [] if by_character or separators is None else [_expression(each) for each in separators]
    expression = "" if by_character or separators is not None else _expression(tokenexp)
    return build("contrib_string_tokenize", x, expression, json.dumps(between), mincharnum, bool(mark), pad_value)


def _expression(pattern: str) -> str:
    if _ASSERTION.search(pattern):
        raise UnsupportedOperatorError(
            f"the expression {pattern!r} asks for what is around a token; only expressions of the token itself are "
            "supported"
        )
    return python_pattern(pattern)


@converter("MurmurHash3", domain=_MICROSOFT)
def murmur_hash(ctx: Context, x: Expr, *, positive: int = 1, seed: int = 0) -> Expr:
    """The hash of each text, or of the bytes of each number, of which the lowest comes first."""
    dtype, made = ctx.dtype(x), "uint32" if positive else "int32"
    if dtype == "string":
        return build("contrib_string_hash", x, made, seed)
    if dtype not in _HASHED:
        raise UnsupportedOperatorError(f"hashes are of strings, {', '.join(_HASHED)}, not of {dtype}")
    return relay.reinterpret(_hash(_words(x, _HASHED[dtype]), seed % 2**32), made)


_HASHED = {"int32": 32, "uint32": 32, "float32": 32, "int64": 64, "uint64": 64, "float64": 64}
"""The numbers that are hashed, and of how many bits they are."""


def _words(x: Expr, bits: int) -> list[Expr]:
    whole = relay.reinterpret(x, f"uint{bits}")
    if bits == 32:
        return [whole]
    return [relay.cast(part, "uint32") for part in (whole, relay.right_shift(whole, _number(32, "uint64")))]


def _hash(words: Sequence[Expr], seed: int) -> Expr:
    """Return MurmurHash3_x86_32 of some words, as in :func:`vmkit.values.tokens.murmur_hash`."""
    made: Expr = _number(seed)
    for word in words:
        mixed = relay.multiply(_rotated(relay.multiply(word, _number(0xCC9E2D51)), 15), _number(0x1B873593))
        turned = _rotated(relay.bitwise_xor(mixed, made), 13)
        made = relay.add(relay.multiply(turned, _number(5)), _number(0xE6546B64))
    made = relay.bitwise_xor(made, _number(4 * len(words)))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        made = relay.multiply(_folded(made, shift), _number(factor))
    return _folded(made, 16)


def _rotated(x: Expr, count: int) -> Expr:
    return relay.bitwise_or(relay.left_shift(x, _number(count)), relay.right_shift(x, _number(32 - count)))


def _folded(x: Expr, count: int) -> Expr:
    return relay.bitwise_xor(x, relay.right_shift(x, _number(count)))


def _number(value: int, dtype: str = "uint32") -> Expr:
    return relay.const(np.array(value, dtype))
