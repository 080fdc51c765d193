"""Relay's text format v0.0.5: parse it and print it."""

from .parser import fromtext, parse, parse_expr
from .printer import astext, node_text

__all__ = ["astext", "fromtext", "node_text", "parse", "parse_expr"]
