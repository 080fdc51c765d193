"""The patterns of a Match as conditions on a value, and the parts of the value that they name."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from ..relay.ir import Pattern, PatternConstructor, PatternTuple, PatternVar, Var

__all__ = ["bindings", "condition"]


def condition(pattern: Pattern, value: ast.expr) -> ast.expr | None:
    """Return the condition under which a value matches a pattern; None if every value does."""
    tests = list(_tests(pattern, value))
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)


def bindings(pattern: Pattern, value: ast.expr) -> Iterator[tuple[Var, ast.expr]]:
    """Yield the variables that a pattern binds, each with the part of the value that it stands for."""
    if isinstance(pattern, PatternVar):
        yield pattern.var, copy.deepcopy(value)
    for part, path in _parts(pattern, value):
        yield from bindings(part, path)


def _tests(pattern: Pattern, value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(pattern, PatternConstructor):
        tag = ast.Attribute(copy.deepcopy(value), "tag", ast.Load())
        yield ast.Compare(tag, [ast.Eq()], [ast.Constant(pattern.constructor.tag)])
    for part, path in _parts(pattern, value):
        yield from _tests(part, path)


def _parts(pattern: Pattern, value: ast.expr) -> Iterator[tuple[Pattern, ast.expr]]:
    """Yield the patterns of the fields, with the fields; an ADT value and a tuple have theirs by index alike."""
    if isinstance(pattern, PatternConstructor | PatternTuple):
        for index, part in enumerate(pattern.patterns):
            yield part, ast.Subscript(copy.deepcopy(value), ast.Constant(index), ast.Load())
