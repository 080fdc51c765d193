"""What a printed text shows once: shared expressions, each bound in the scope that its uses have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tvm.ir import GlobalVar, Op, Span

from ...errors import ModelError
from ..ir import Call, Constant, Constructor, Function, Let, RelayExpr, Tuple, TupleGetItem, Type, Var, children
from ..ir.types import type_text
from .metadata import MetaSection
from .printed_layout import indented
from .printed_names import PrintedNames
from .printed_scopes import ScopePlan

__all__ = ["Annotate", "BindingPrinter"]

Annotate: TypeAlias = Callable[[RelayExpr], str]
"""Gives what a text says about an expression, in place of its type."""

_ALWAYS_INLINE = frozenset([GlobalVar, Constant, Constructor, Op, Var])
_DATAFLOW = frozenset([Call, Tuple, TupleGetItem])
_WITH_TYPE = frozenset([Constant, Call, Var, Function, Tuple, TupleGetItem])


class BindingPrinter:
    """The base of the printer: names, scopes, and where an expression is bound.

    `visitors` print one kind of node each; a class that derives from this one gives them.
    """

    def __init__(self, show_spans: bool, annotate: Annotate | None = None) -> None:
        self.show_spans = show_spans
        self.annotate = annotate
        self.meta = MetaSection()
        self.names = PrintedNames()
        self.plan = ScopePlan(Tuple([]))
        self.temporaries = 0
        self.texts: dict[Any, str] = {}
        self.declared: dict[Any, str] = {}
        self.hoisted: set[Any] = set()
        # The finished lines of each open scope, innermost last.
        self.scopes: list[list[str]] = []
        self.visitors: dict[type, Callable[[Any], str]] = {}

    def start(self, node: RelayExpr) -> None:
        """Begin a global function or a lone expression."""
        self.plan = ScopePlan(node)
        self.texts, self.declared, self.hoisted = {}, {}, set()
        self.names.start_function()

    # -- scopes and sharing

    def scope(self, node: RelayExpr) -> str:
        """Return an expression with the bindings it needs before it."""
        self.scopes.append([])
        text = self.print(node, at_end=True)
        return "\n".join([*self.scopes.pop(), text])

    def text_at_home(self, node: RelayExpr) -> str:
        """Return the text of a node, with what it needs bound in the scope that the node itself is bound in."""
        depth = self.plan.depths[node]
        inner = self.scopes[depth:]
        del self.scopes[depth:]
        text = self.visitor(node)(node)
        self.scopes += inner
        return text

    def body(self, node: RelayExpr) -> str:
        return indented("{", self.scope(node), "}")

    def print(self, node: RelayExpr, at_end: bool = False) -> str:
        """Return what stands for an expression at a place: its text, its name or its number.

        `at_end` says that the place is the end of a scope, where an expression used once is written out.
        """
        if node in self.hoisted:
            return self.texts[node]
        kind = type(node)
        if kind is Var:
            text = self.visit(node)
            if node in self.declared:
                # No binder came before the first use: the variable is free.
                self.scopes[-1].append(f"free_var {self.declared.pop(node)};")
            return text
        is_inline = kind in _ALWAYS_INLINE or (at_end and self.plan.uses[node] <= 1)
        text = self.visit(node)
        if kind is Let and not is_inline:
            text = indented("(", text, ")")
        text += self.info(node)
        if is_inline:
            return text
        name = f"%{self.temporaries}"
        self.temporaries += 1
        self.scopes[self.plan.depths[node] - 1].append(f"{name} = {text};")
        self.hoisted.add(node)
        self.texts[node] = name
        return name

    def visit(self, node: RelayExpr) -> str:
        """Return the text of an expression; the calls, tuples and projections below it are visited in a loop."""
        texts = self.texts
        if node in texts:
            return texts[node]
        stack = [(node, False)]
        while stack:
            current, is_expanded = stack.pop()
            if current in texts:
                continue
            below = () if is_expanded else _dataflow(current)
            if below:
                stack.append((current, True))
                stack += [(child, False) for child in below if child not in texts]
            else:
                texts[current] = self.text_at_home(current)
        return texts[node]

    def visitor(self, node: RelayExpr) -> Callable[[Any], str]:
        found = self.visitors.get(type(node))
        if found is None:
            raise ModelError(f"a {type(node).__name__} is not a Relay expression and has no text")
        return found

    def info(self, node: RelayExpr) -> str:
        """Return the comment that tells the type of a node, and its place in the source; or what the caller says."""
        if self.annotate is not None:
            return self.annotate(node)
        if type(node) not in _WITH_TYPE:
            return ""
        parts = []
        if node.checked_type_ is not None:
            parts.append(f" ty={self.type(node.checked_type_)}")
        if self.show_spans and isinstance(node.span, Span) and node.span.source_name is not None:
            parts.append(f" span={node.span.source_name.name}:{node.span.line}:{node.span.column}")
        return f" /*{''.join(parts)} */" if parts else ""

    def type(self, ty: Type) -> str:
        return type_text(ty, self.names.symbol)

    # -- variables

    def declare(self, variable: Var) -> str:
        """Give a variable its name, and keep how it is declared until that is printed."""
        name = self.names.local(variable.name_hint)
        annotation = f": {self.type(variable.type_annotation)}" if variable.type_annotation is not None else ""
        self.declared[variable] = f"{name}{annotation}{self.info(variable)}"
        return name

    def binder(self, variable: Var) -> str:
        """Return a variable as it stands where it is bound."""
        self.texts[variable] = self.declare(variable)
        return self.declared.pop(variable)


def _dataflow(node: RelayExpr) -> list[RelayExpr]:
    """Return what is visited before a node, last first: the callee comes before the arguments."""
    return children(node)[::-1] if type(node) in _DATAFLOW else []
