"""The values that no clause of a Match covers.

L. Maranget, "Warnings for pattern matching", 2007, says more of the matter than is needed here: a candidate, at first
the pattern of all values, is split wherever a clause asks for more than it says, until every clause takes all or
nothing of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import tvm

from ...errors import ModelError
from ..ir import Constructor, Match, PatternConstructor, PatternTuple, PatternVar, PatternWildcard, find_type

__all__ = ["unmatched_cases"]


class _Fit(Enum):
    ALL = "the pattern takes every value of the candidate"
    NONE = "it takes none"
    SOME = "it takes some"


def unmatched_cases(match: Match, mod: tvm.IRModule | None = None) -> list[Any]:
    """Return patterns of the values that a Match does not catch; none when it catches all.

    Parameters
    ----------
    match : Match
        The match.
    mod : tvm.IRModule, optional
        The module that defines the data types whose constructors stand in the patterns.
    """
    waiting: list[Any] = [PatternWildcard()]
    unmatched = []
    while waiting:
        candidate = waiting.pop()
        for clause in match.clauses:
            fit = _fit(clause.lhs, candidate)
            if fit is _Fit.SOME:
                waiting += reversed(list(_split(clause.lhs, candidate, mod)))
            if fit is not _Fit.NONE:
                break
        else:
            unmatched.append(candidate)
    return unmatched


def _fit(pattern: Any, candidate: Any) -> _Fit:
    if _takes_all(pattern):
        return _Fit.ALL
    if isinstance(candidate, PatternWildcard):
        return _Fit.SOME
    if isinstance(pattern, PatternConstructor) and not _is_same(pattern.constructor, candidate.constructor):
        return _Fit.NONE
    fits = [_fit(p, c) for p, c in zip(pattern.patterns, candidate.patterns, strict=False)]
    for fit in (_Fit.NONE, _Fit.SOME):
        if fit in fits:
            return fit
    return _Fit.ALL


def _takes_all(pattern: Any) -> bool:
    return isinstance(pattern, PatternWildcard | PatternVar)


def _is_same(a: Constructor, b: Constructor) -> bool:
    return a.name_hint == b.name_hint and a.belong_to.name_hint == b.belong_to.name_hint


def _split(pattern: Any, candidate: Any, mod: tvm.IRModule | None) -> Iterator[Any]:
    """Yield candidates that together are the given one, where a pattern asks for more than it says."""
    if isinstance(candidate, PatternWildcard):
        yield from _shapes(pattern, mod)
        return
    for position, (part, inner) in enumerate(zip(pattern.patterns, candidate.patterns, strict=True)):
        if _fit(part, inner) is _Fit.SOME:
            for chosen in _split(part, inner, mod):
                parts = list(candidate.patterns)
                parts[position] = chosen
                yield _with_parts(candidate, parts)
            return


def _with_parts(pattern: Any, parts: Sequence[Any]) -> Any:
    return PatternTuple(parts) if isinstance(pattern, PatternTuple) else PatternConstructor(pattern.constructor, parts)


def _shapes(pattern: Any, mod: tvm.IRModule | None) -> Iterator[Any]:
    if isinstance(pattern, PatternTuple):
        yield PatternTuple([PatternWildcard() for _ in pattern.patterns])
        return
    if mod is None:
        raise ModelError(f"the constructors of {pattern.constructor.belong_to} are needed; pass the module")
    for constructor in find_type(mod, pattern.constructor.belong_to).constructors:
        yield PatternConstructor(constructor, [PatternWildcard() for _ in constructor.inputs])
