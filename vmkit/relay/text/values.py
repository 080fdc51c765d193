"""Parse what stands alone: scalars, and the names of variables, functions and operators."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.ir import GlobalVar

from ...errors import suggest
from ..ir import Constant, Constructor, Op, RelayExpr, Var
from ..op.registry import REGISTRY
from .attributes import AttributeParser
from .lexer import Token
from .metadata import MetaNodes
from .source import Source

__all__ = ["ValueParser"]


class ValueParser(AttributeParser):
    """Parses scalars and names."""

    def __init__(self, source: Source, init_meta: MetaNodes | None = None) -> None:
        super().__init__(source, init_meta)
        self.global_vars: dict[str, GlobalVar] = {}
        self.global_uses: dict[str, Token] = {}

    def named_value(self) -> Constructor | Op:
        """Parse the name of a constructor or of an operator."""
        token = self.next
        if token.value in self.constructors:
            return self.constructors[self.take().value]
        name = self.dotted_name()
        if name not in REGISTRY:
            what = "operator or constructor" if self.constructors else "operator"
            self.fail(token, f"there is no {what} '{name}'{suggest(name, [*REGISTRY, *self.constructors])}")
        return Op.get(name)

    def constant(self, token: Token, value: bool | int | float, dtype: str) -> Constant:
        """Return a scalar."""
        return Constant(tvm.runtime.tensor(np.array(value, dtype)), self.source.span(token.start, token.end))

    def local(self, token: Token) -> Var:
        """Return the local variable of a name."""
        found = self.scopes.local(token.value)
        if found is None:
            known = [*self.scopes.locals.known(), *self.scopes.free]
            self.note(token, f"variable %{token.value} is not bound here{suggest(token.value, known)}")
            # Parsing goes on to find what else is wrong; the error is raised at the end.
            found = self.scopes.free[token.value] = Var(token.value)
        return found

    def graph_variable(self, token: Token) -> RelayExpr:
        """Return the node that a number stands for."""
        found = self.scopes.graph.get(token.value)
        if found is None:
            self.fail(token, f"graph variable %{token.value} is not bound before it is used")
        return found

    def global_var(self, token: Token) -> GlobalVar:
        """Return the global variable of a name; it may be defined further on."""
        self.global_uses.setdefault(token.value, token)
        return self.global_vars.setdefault(token.value, GlobalVar(token.value))
