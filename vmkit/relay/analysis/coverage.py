"""Which values the clauses of a Match leave out.

The clauses are rows of a matrix of patterns. A column is taken apart by the constructors of its type, each of which
leaves the rows that may match it; a constructor for which no row is left is not covered (L. Maranget, "Warnings for
pattern matching", JFP 17(3), 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..ir import (
    Constructor,
    GlobalTypeVar,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)

__all__ = ["pattern_text", "unmatched_cases"]

Row = tuple[Any, ...]


def unmatched_cases(match: Match, find_type: Callable[[GlobalTypeVar], TypeData]) -> Iterator[Pattern]:
    """Yield patterns of values that no clause of a Match covers, one for each kind of value.

    Parameters
    ----------
    match : Match
        The Match; its patterns are well-typed.
    find_type : callable
        Returns the definition of a data type.
    """
    rows = [(clause.lhs,) for clause in match.clauses]
    for (case,) in _uncovered(rows, 1, find_type):
        yield case


def _uncovered(rows: Sequence[Row], width: int, find_type: Callable[[GlobalTypeVar], TypeData]) -> Iterator[Row]:
    if width == 0:
        if not rows:
            yield ()
        return
    if not rows:
        yield tuple(PatternWildcard() for _ in range(width))
        return
    heads = [row[0] for row in rows if not isinstance(row[0], PatternWildcard | PatternVar)]
    if not heads:
        for rest in _uncovered([row[1:] for row in rows], width - 1, find_type):
            yield (PatternWildcard(), *rest)
        return
    for make, arity, matches in _shapes(heads[0], find_type):
        below = [(*_fields(row[0], arity), *row[1:]) for row in rows if matches(row[0])]
        for case in _uncovered(below, arity + width - 1, find_type):
            yield (make(case[:arity]), *case[arity:])


def _shapes(head: Pattern, find_type: Callable[[GlobalTypeVar], TypeData]) -> Iterator[tuple[Any, int, Any]]:
    """Yield the ways in which a value of the type of a pattern can be made: how, of how many fields, what matches."""
    if isinstance(head, PatternTuple):
        yield PatternTuple, len(head.patterns), lambda pattern: True
        return
    assert isinstance(head, PatternConstructor)  # what matches everything has no shape
    for constructor in find_type(head.constructor.belong_to).constructors:

        def make(fields: Row, made: Constructor = constructor) -> PatternConstructor:
            return PatternConstructor(made, fields)

        def matches(pattern: Pattern, name: str = constructor.name_hint) -> bool:
            return not isinstance(pattern, PatternConstructor) or pattern.constructor.name_hint == name

        yield make, len(constructor.inputs), matches


def _fields(pattern: Pattern, arity: int) -> Row:
    if isinstance(pattern, PatternConstructor | PatternTuple) and len(pattern.patterns) == arity:
        return tuple(pattern.patterns)
    return tuple(PatternWildcard() for _ in range(arity))


def pattern_text(pattern: Pattern) -> str:
    """Return a pattern as Relay's text format writes it, without types."""
    match pattern:
        case PatternVar():
            return f"%{pattern.var.name_hint}"
        case PatternConstructor() if len(pattern.patterns) == 0:
            return pattern.constructor.name_hint
        case PatternConstructor():
            return f"{pattern.constructor.name_hint}({', '.join(map(pattern_text, pattern.patterns))})"
        case PatternTuple():
            return f"({', '.join(map(pattern_text, pattern.patterns))})"
    return "_"
