"""Visitors of the patterns of a Match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .ir import Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard, RelayExpr, Var

__all__ = ["PatternFunctor", "PatternMutator", "PatternVisitor", "renamed_pattern"]

R = TypeVar("R")

_METHODS: dict[type, str] = {
    PatternConstructor: "visit_pattern_constructor",
    PatternTuple: "visit_pattern_tuple",
    PatternVar: "visit_pattern_var",
    PatternWildcard: "visit_pattern_wildcard",
}


class PatternFunctor(Generic[R]):
    """A function over patterns: one method for each kind of them."""

    def visit(self, pattern: Pattern) -> R:
        """Return the result of a pattern."""
        if type(pattern) not in _METHODS:
            raise TypeError(f"{type(pattern).__name__} is not a pattern")
        result: R = getattr(self, _METHODS[type(pattern)])(pattern)
        return result

    def visit_pattern_constructor(self, pattern: PatternConstructor) -> R:
        raise NotImplementedError

    def visit_pattern_tuple(self, pattern: PatternTuple) -> R:
        raise NotImplementedError

    def visit_pattern_var(self, pattern: PatternVar) -> R:
        raise NotImplementedError

    def visit_pattern_wildcard(self, pattern: PatternWildcard) -> R:
        raise NotImplementedError


class PatternVisitor(PatternFunctor[None]):
    """Visits every pattern below one, from left to right."""

    def visit_pattern_constructor(self, pattern: PatternConstructor) -> None:
        for part in pattern.patterns:
            self.visit(part)

    def visit_pattern_tuple(self, pattern: PatternTuple) -> None:
        for part in pattern.patterns:
            self.visit(part)

    def visit_pattern_var(self, pattern: PatternVar) -> None:
        pass

    def visit_pattern_wildcard(self, pattern: PatternWildcard) -> None:
        pass


class PatternMutator(PatternFunctor[Pattern]):
    """Builds a pattern anew; override the methods of what shall become something else."""

    def visit_pattern_constructor(self, pattern: PatternConstructor) -> Pattern:
        return PatternConstructor(pattern.constructor, [self.visit(part) for part in pattern.patterns])

    def visit_pattern_tuple(self, pattern: PatternTuple) -> Pattern:
        return PatternTuple([self.visit(part) for part in pattern.patterns])

    def visit_pattern_var(self, pattern: PatternVar) -> Pattern:
        return pattern

    def visit_pattern_wildcard(self, pattern: PatternWildcard) -> Pattern:
        return pattern


class _Renaming(PatternMutator):
    def __init__(self, rename: Callable[[Var], RelayExpr]) -> None:
        self.rename = rename

    def visit_pattern_var(self, pattern: PatternVar) -> Pattern:
        renamed = self.rename(pattern.var)
        return PatternVar(renamed) if isinstance(renamed, Var) else pattern


def renamed_pattern(pattern: Pattern, rename: Callable[[Var], RelayExpr]) -> Pattern:
    """Return a pattern that binds what `rename` makes of its variables, where that is a variable."""
    return _Renaming(rename).visit(pattern)
