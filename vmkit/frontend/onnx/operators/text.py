"""Operators on strings."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ....errors import UnsupportedOperatorError
from ....relay.ir import Expr
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..regular_expression import python_pattern

# Where the case of a letter is another one than elsewhere.
_OWN_CASES = ("az", "lt", "tr")


@converter("StringConcat", since=20)
def string_concat(ctx: Context, x: Expr, y: Expr) -> Expr:
    return build("contrib_string_concatenate", x, y)


@converter("StringSplit", since=20)
def string_split(ctx: Context, x: Expr, *, delimiter: str = "", maxsplit: int | None = None) -> list[Expr]:
    return list(build("contrib_string_split", x, delimiter, -1 if maxsplit is None else maxsplit))


@converter("RegexFullMatch", since=20)
def regex_full_match(ctx: Context, x: Expr, *, pattern: str = "") -> Expr:
    return build("contrib_full_match", x, python_pattern(pattern))


@converter("StringNormalizer", since=10)
def string_normalizer(
    ctx: Context,
    x: Expr,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "en_US",
    stopwords: Sequence[str] = (),
) -> Expr:
    folds = case_change_action != "NONE" or (stopwords and not is_case_sensitive)
    if folds and locale[:2].lower() in _OWN_CASES:
        raise UnsupportedOperatorError(f"letters of the locale {locale!r} have cases of their own")
    words = json.dumps(list(stopwords))
    return build("contrib_string_normalize", x, case_change_action, words, bool(is_case_sensitive))
