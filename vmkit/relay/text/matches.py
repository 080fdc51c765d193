"""Parse matches and their patterns, and the operations of references.

A pattern is ``_``, a variable, a constructor with patterns for its fields, or a tuple of patterns.
"""

from __future__ import annotations

from ...errors import suggest
from ..ir import (
    Clause,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Var,
)
from .lexer import Token, describe_token
from .values import ValueParser

__all__ = ["MatchParser"]


class MatchParser(ValueParser):
    """Parses the expressions that begin with a word of data types or references."""

    def expression(self) -> RelayExpr:
        """Parse any expression."""
        raise NotImplementedError

    def projection(self) -> RelayExpr:
        """Parse an atom and the projections that follow it."""
        raise NotImplementedError

    def variable(self) -> Var:
        """Parse a variable where it is bound, with its type if it has one."""
        token = self.expect("local", "a local variable")
        span = self.span_from(token.start)
        return Var(token.value, self.annotation(), span)

    # -- matches

    def match(self) -> Match:
        """Parse ``match (value) { pattern => expression, ... }``; ``match?`` need not cover all values."""
        token = self.expect("match")
        value = self.projection()
        with self.nested():
            clauses = self.sequence("{", "}", self._clause)
        return Match(value, clauses, token.value != "?", self.span_from(token.start))

    def _clause(self) -> Clause:
        with self.scopes.locals.scope():
            pattern = self._pattern({})
            self.expect("=", "'=>'")
            self.expect(">", "'=>'")
            return Clause(pattern, self.expression())

    def _pattern(self, bound: dict[str, Token]) -> Pattern:
        with self.nested():
            token = self.next
            match token.kind:
                case "_":
                    self.take()
                    return PatternWildcard()
                case "local":
                    return self._pattern_variable(bound)
                case "ident":
                    return self._pattern_constructor(bound)
                case "(":
                    return PatternTuple(self.sequence("(", ")", lambda: self._pattern(bound)))
            self.fail(
                token, f"expected a pattern ('_', a variable, a constructor or a tuple), found {describe_token(token)}"
            )

    def _pattern_variable(self, bound: dict[str, Token]) -> PatternVar:
        token = self.next
        variable = self.variable()
        if token.value in bound:
            self.note(token, f"pattern variable %{token.value} is bound twice")
        bound[token.value] = token
        return PatternVar(self.scopes.locals.bind(token.value, variable))

    def _pattern_constructor(self, bound: dict[str, Token]) -> PatternConstructor:
        token = self.take()
        found = self.constructors.get(token.value)
        if found is None:
            hint = suggest(token.value, self.constructors) or f"; a variable is written %{token.value}"
            self.fail(token, f"there is no constructor '{token.value}' here{hint}")
        patterns = self.sequence("(", ")", lambda: self._pattern(bound)) if self.next.kind == "(" else []
        if len(patterns) != len(found.inputs):
            self.note(token, f"constructor {token.value} has {len(found.inputs)} fields, the pattern {len(patterns)}")
        return PatternConstructor(found, patterns)

    # -- references

    def reference_operation(self) -> RefCreate | RefRead | RefWrite:
        """Parse ``ref(value)``, ``ref_read(reference)`` or ``ref_write(reference, value)``."""
        token = self.take()
        self.expect("(")
        first = self.expression()
        if token.kind == "ref_write":
            self.expect(",")
            second = self.expression()
            self.expect(")")
            return RefWrite(first, second, self.span_from(token.start))
        self.expect(")")
        kind = RefCreate if token.kind == "ref" else RefRead
        return kind(first, self.span_from(token.start))
