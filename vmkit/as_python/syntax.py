"""Short forms of the nodes of Python's syntax that programs consist of."""

from __future__ import annotations

import ast

__all__ = ["assigned", "call", "name", "text"]


def name(own: str) -> ast.Name:
    """Return a variable."""
    return ast.Name(own, ast.Load())


def assigned(own: str, value: ast.expr) -> ast.stmt:
    """Return the statement that gives a variable a value."""
    return ast.Assign([ast.Name(own, ast.Store())], value)


def call(function: str, *args: ast.expr) -> ast.expr:
    """Return a call of a function by its name."""
    return ast.Call(name(function), list(args), [])


def text(value: str | None) -> ast.expr:
    """Return a text, or None, as a constant."""
    return ast.Constant(value)
