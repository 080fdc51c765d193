"""onnxruntime's operators on strings, which the text pipelines of skl2onnx are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

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
    if ctx.dtype(x) != "string":
        raise UnsupportedOperatorError(f"hashes of {ctx.dtype(x)} are not supported, only those of strings")
    return build("contrib_string_hash", x, "uint32" if positive else "int32", seed)
