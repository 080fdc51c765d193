"""Visitors of the patterns of a Match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ir import PatternConstructor, PatternTuple, PatternVar, PatternWildcard, Var

__all__ = ["PatternFunctor", "PatternMutator", "PatternVisitor", "renamed_pattern"]

_METHODS: dict[type, str] = {
    PatternConstructor: "visit_pattern_constructor",
    PatternTuple: "visit_pattern_tuple",
    PatternVar: "visit_pattern_var",
    PatternWildcard: "visit_pattern_wildcard",
}


class PatternFunctor:
    """A function over patterns: one method for each kind of them."""

    def visit(self, pattern: Any) -> Any:
        """Return the result of a pattern."""
        if type(pattern) not in _METHODS:
            raise TypeError(f"{type(pattern).__name__} is not a pattern")
        return getattr(self, _METHODS[type(pattern)])(pattern)

    def visit_pattern_constructor(self, pattern: Any) -> Any:
        raise NotImplementedError

    def visit_pattern_tuple(self, pattern: Any) -> Any:
        raise NotImplementedError

    def visit_pattern_var(self, pattern: Any) -> Any:
        raise NotImplementedError

    def visit_pattern_wildcard(self, pattern: Any) -> Any:
        raise NotImplementedError


class PatternVisitor(PatternFunctor):
    """Visits every pattern below one, from left to right."""

    def visit_pattern_constructor(self, pattern: PatternConstructor) -> Any:
        for part in pattern.patterns:
            self.visit(part)

    def visit_pattern_tuple(self, pattern: PatternTuple) -> Any:
        for part in pattern.patterns:
            self.visit(part)

    def visit_pattern_var(self, pattern: PatternVar) -> Any:
        pass

    def visit_pattern_wildcard(self, pattern: PatternWildcard) -> Any:
        pass


class PatternMutator(PatternFunctor):
    """Builds a pattern anew; override the methods of what shall become something else."""

    def visit_pattern_constructor(self, pattern: PatternConstructor) -> Any:
        return PatternConstructor(pattern.constructor, [self.visit(part) for part in pattern.patterns])

    def visit_pattern_tuple(self, pattern: PatternTuple) -> Any:
        return PatternTuple([self.visit(part) for part in pattern.patterns])

    def visit_pattern_var(self, pattern: PatternVar) -> Any:
        return pattern

    def visit_pattern_wildcard(self, pattern: PatternWildcard) -> Any:
        return pattern


class _Renaming(PatternMutator):
    def __init__(self, rename: Callable[[Var], Any]) -> None:
        self.rename = rename

    def visit_pattern_var(self, pattern: PatternVar) -> Any:
        renamed = self.rename(pattern.var)
        return PatternVar(renamed) if isinstance(renamed, Var) else pattern


def renamed_pattern(pattern: Any, rename: Callable[[Var], Any]) -> Any:
    """Return a pattern that binds what `rename` makes of its variables, where that is a variable."""
    return _Renaming(rename).visit(pattern)
