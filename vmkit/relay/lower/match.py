"""Lower Match: the clauses are tried in order, each by the tags of the constructors in its pattern.

A nested pattern is tested by branches inside branches, since a field is there only where the tag says so; the right
side of a clause is lowered once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

from tvm import relax

from ..analysis.coverage import pattern_text, unmatched_cases
from ..ir import RelayExpr, Var
from ..ir.adt import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, TypeData
from ..ir.type_solver import replace
from ..ir.types import GlobalTypeVar, TupleType, Type
from .context import LowerContext, Value, relax_type
from .data import read_field, read_tag

__all__ = ["lower_match"]


class ScopedLowering(Protocol):
    """What lowering a Match needs of the lowering of the function that it stands in."""

    context: LowerContext

    def definition(self, header: GlobalTypeVar) -> TypeData:
        """Return the definition of a data type."""

    def block(self, lower: Callable[[], Value]) -> relax.SeqExpr:
        """Return what is lowered in a scope of its own."""

    def chosen(self, condition: relax.Expr, true_branch: relax.SeqExpr, false_branch: relax.SeqExpr) -> relax.Var:
        """Bind the result of one of two blocks and return its variable."""

    def bind(self, variable: Var, value: Value) -> None:
        """Give a variable its value in the current scope."""

    def visit(self, expr: RelayExpr) -> Value:
        """Return the value of an expression."""


def lower_match(lowering: ScopedLowering, match: Match) -> Value:
    """Return the value of a Match; the value that it takes apart is lowered already."""
    return _MatchLowering(lowering, match).from_clause(0)


class _MatchLowering:
    def __init__(self, lowering: ScopedLowering, match: Match) -> None:
        self.lowering = lowering
        self.context = lowering.context
        self.match = match
        self.data = lowering.visit(match.data)
        self.type = match.data.checked_type
        has_tag = any(isinstance(clause.lhs, PatternConstructor) for clause in match.clauses)
        self.tag = read_tag(self.context, self.data) if has_tag else None

    def from_clause(self, index: int) -> Value:
        """Return the value that the clauses from one on give."""
        if index == len(self.match.clauses):
            return self.fail()
        clause = self.match.clauses[index]
        is_certain = self.match.complete and index == len(self.match.clauses) - 1
        tests = [] if is_certain else self.tests(clause.lhs, self.data, self.type, self.tag)
        if not tests:
            return self.enter(clause)
        condition = self.all(tests)
        then = self.lowering.block(lambda: self.enter(clause))
        otherwise = self.lowering.block(lambda: self.from_clause(index + 1))
        return self.lowering.chosen(condition, then, otherwise)

    def enter(self, clause: Clause) -> Value:
        """Return the right side of a clause, the variables of its pattern bound."""
        self.bind(clause.lhs, self.data, self.type)
        return self.lowering.visit(clause.rhs)

    def bind(self, pattern: Pattern, value: Value, ty: Type) -> None:
        if isinstance(pattern, PatternVar):
            self.lowering.bind(pattern.var, value)
        elif isinstance(pattern, PatternTuple | PatternConstructor):
            for index, below, field_type in self.parts(pattern, ty):
                if _binds(below):
                    self.bind(below, self.field(value, index, field_type), field_type)

    def tests(
        self, pattern: Pattern, value: Value, ty: Type, tag: relax.Expr | None = None
    ) -> list[Callable[[], relax.Expr]]:
        """Return what has to hold, in order, for a pattern to match; each is emitted where it is called."""
        if not isinstance(pattern, PatternTuple | PatternConstructor):
            return []
        tests: list[Callable[[], relax.Expr]] = []
        if isinstance(pattern, PatternConstructor) and self.has_alternatives(pattern):
            wanted = pattern.constructor.tag
            tests.append(lambda: (read_tag(self.context, value) if tag is None else tag) == wanted)
        for index, below, field_type in self.parts(pattern, ty):
            if self.is_refutable(below):

                def test(index: int = index, below: Pattern = below, field_type: Type = field_type) -> relax.Expr:
                    return self.all(self.tests(below, self.field(value, index, field_type), field_type))

                tests.append(test)
        return tests

    def all(self, tests: Sequence[Callable[[], relax.Expr]]) -> relax.Expr:
        """Return whether all tests hold, each emitted only where those before it do."""
        first = self.context.emit(tests[0]())
        if len(tests) == 1:
            return first
        rest = self.lowering.block(lambda: self.all(tests[1:]))
        no = self.lowering.block(lambda: self.context.emit(relax.prim_value(False)))
        return self.lowering.chosen(first, rest, no)

    def has_alternatives(self, pattern: Pattern) -> bool:
        """Say whether a value may be of another constructor than a pattern's."""
        if not isinstance(pattern, PatternConstructor):
            return False
        return len(self.lowering.definition(pattern.constructor.belong_to).constructors) > 1

    def is_refutable(self, pattern: Pattern) -> bool:
        if not isinstance(pattern, PatternTuple | PatternConstructor):
            return False
        return self.has_alternatives(pattern) or any(self.is_refutable(p) for p in pattern.patterns)

    def parts(self, pattern: PatternTuple | PatternConstructor, ty: Type) -> list[tuple[int, Pattern, Type]]:
        """Return the position, the pattern and the type of each field."""
        below = list(pattern.patterns)
        if isinstance(ty, TupleType):
            return list(zip(range(len(below)), below, ty.fields, strict=True))
        assert isinstance(pattern, PatternConstructor)
        data = self.lowering.definition(pattern.constructor.belong_to)
        made = next(c for c in data.constructors if c.name_hint == pattern.constructor.name_hint)
        mapping = dict(zip(data.type_vars, ty.args, strict=True))
        types = [replace(t, mapping) for t in made.inputs]
        return list(zip(range(len(below)), below, types, strict=True))

    def field(self, value: Value, index: int, ty: Type) -> Value:
        if isinstance(value, tuple):
            return value[index]
        return self.context.pin_as(read_field(self.context, value, index), ty)

    def fail(self) -> Value:
        """Return no value: raise that no clause covers the one at hand."""
        cases = itertools.islice(unmatched_cases(self.match, self.lowering.definition), 3)
        left_out = ", ".join(pattern_text(p) for p in cases)
        self.context.fail(f"no clause of the match covers the value; the clauses leave out {left_out}")
        ty = relax_type(self.match.checked_type)
        # Never reached; a branch must have a value of the type of the others.
        operand = self.context.materialize(self.data)
        return self.context.emit(relax.op.call_pure_packed("vm.builtin.copy", operand, ty_args=[ty]))


def _binds(pattern: Pattern) -> bool:
    if isinstance(pattern, PatternTuple | PatternConstructor):
        return any(_binds(p) for p in pattern.patterns)
    return isinstance(pattern, PatternVar)
