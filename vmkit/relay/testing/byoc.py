"""A marking of regions by hand, for tests of code generators."""

from __future__ import annotations

from ..ir import Function, RelayExpr, is_call, rewrite
from ..op.annotation import compiler_begin, compiler_end
from ..op.registry import build

__all__ = ["CcompilerAnnotator"]


class CcompilerAnnotator:
    """Makes a region for ``ccompiler`` of each ``multiply(subtract(add(a, b), c), d)``.

    Examples
    --------
    >>> from vmkit import relay
    >>> x = relay.var("x", shape=(2,))
    >>> CcompilerAnnotator().visit((x + x - x) * x).attrs.compiler
    'ccompiler'
    """

    def visit(self, expr: RelayExpr) -> RelayExpr:
        """Return an expression or a function with its regions annotated."""
        return rewrite(expr, {}, _annotated)

    def visit_function(self, function: Function) -> RelayExpr:
        """Return a function with its regions annotated."""
        return self.visit(function)


def _annotated(node: RelayExpr, original: RelayExpr) -> RelayExpr:
    if not is_call(node, "multiply"):
        return node
    difference, d = node.args
    if not is_call(difference, "subtract") or not is_call(difference.args[0], "add"):
        return node
    total, c = difference.args
    entered = [compiler_begin(value, "ccompiler") for value in (*total.args, c, d)]
    value = build("subtract", build("add", entered[0], entered[1]), entered[2])
    return compiler_end(build("multiply", value, entered[3]), "ccompiler")
