"""Build nested Lets and Ifs in the order in which one writes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from .._dataclasses import dataclass
from .analysis.infer_type import infer_expr
from .ir import Expr, If, Let, RelayExpr, Type, Var, var

__all__ = ["ScopeBuilder"]


@dataclass
class _Scope:
    bindings: list[tuple[Var, Any]] = field(default_factory=list)
    # The result, or the condition and true branch of an If that waits for its else.
    result: Any = None
    waiting: tuple[Any, Any] | None = None

    def close(self) -> RelayExpr:
        """Return the expression of the scope."""
        if self.waiting is not None:
            raise RuntimeError("Creating an If expression without else.")
        if self.result is None:
            raise RuntimeError("ret is not called in this scope")
        body = self.result
        for variable, value in reversed(self.bindings):
            body = Let(variable, value, body)
        return body


class ScopeBuilder:
    """Builds an expression of Lets and Ifs.

    Examples
    --------
    >>> from vmkit import relay
    >>> builder, x = relay.ScopeBuilder(), relay.var("x", "float32")
    >>> with builder.if_scope(x < relay.const(0.0)):
    ...     y = builder.let("y", -x)
    ...     builder.ret(y * y)
    >>> with builder.else_scope():
    ...     builder.ret(x)
    >>> type(builder.get()).__name__
    'If'
    """

    def __init__(self) -> None:
        self._scopes = [_Scope()]

    def let(self, var: Var | str | Sequence[Any], value: RelayExpr) -> Var:
        """Bind a value in the current scope, and return its variable.

        Parameters
        ----------
        var : Var, str, or (str, Type)
            The variable, its name, or its name and type.
        value : Expr
            The value.
        """
        variable = _variable(var)
        self._scopes[-1].bindings.append((variable, value))
        return variable

    @contextlib.contextmanager
    def if_scope(self, cond: Expr) -> Iterator[None]:
        """Enter the branch for a true condition; :meth:`else_scope` must follow."""
        self._scopes.append(_Scope())
        try:
            yield
        finally:
            scope = self._scopes.pop()
        outer = self._scopes[-1]
        if outer.result is not None or outer.waiting is not None:
            raise RuntimeError("result already returned before if scope")
        outer.waiting = (cond, scope.close())

    @contextlib.contextmanager
    def else_scope(self) -> Iterator[None]:
        """Enter the branch for a false condition."""
        self._scopes.append(_Scope())
        try:
            yield
        finally:
            scope = self._scopes.pop()
        outer = self._scopes[-1]
        if outer.waiting is None:
            raise RuntimeError("else scope must follow an if scope")
        false_branch = scope.close()
        outer.result, outer.waiting = If(*outer.waiting, false_branch), None

    def ret(self, value: RelayExpr) -> None:
        """Make a value the result of the current scope."""
        scope = self._scopes[-1]
        if scope.result is not None or scope.waiting is not None:
            raise RuntimeError("ret value is already set in this scope.")
        scope.result = value

    def get(self) -> RelayExpr:
        """Return the expression that was built."""
        if len(self._scopes) != 1:
            raise RuntimeError("can only call get at the outmost scope")
        return self._scopes[0].close()

    def type_of(self, expr: RelayExpr) -> Type | None:
        """Return the type of a value: as declared, as inferred, or None for a variable without one."""
        if isinstance(expr, Var):
            return expr.type_annotation
        return infer_expr(expr)


def _variable(given: Var | str | Sequence[Any]) -> Var:
    if isinstance(given, Var):
        return given
    if isinstance(given, str):
        return var(given)
    if len(given) > 2:
        raise ValueError("Expect var to be Tuple[str, relay.Type]")
    return var(*given)
