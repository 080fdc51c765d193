"""Parse modules: the header, definitions, and the metadata at the end."""

from __future__ import annotations

from typing import Any, NoReturn

import tvm

from ...errors import suggest
from ...stack import on_deep_stack
from ..transform.infer_type import infer_module
from .expressions import ExpressionParser
from .lexer import Token, describe_token
from .source import Source

__all__ = ["VERSION", "fromtext", "parse", "parse_expr"]

VERSION = "0.0.5"


class ModuleParser(ExpressionParser):
    """Parses a whole text."""

    def module(self) -> tvm.IRModule:
        """Parse a module; its types are not inferred."""
        self._header(required=True)
        functions: dict[Any, Any] = {}
        while self.next.kind not in ("end", "metadata"):
            token = self.next
            match token.kind:
                case "def":
                    self._definition(functions)
                case "type" | "extern":
                    self.type_definition(token)
                case _:
                    self.fail(token, f"expected 'def', found {describe_token(token)}")
        self._finish()
        defined = {gvar.name_hint for gvar in functions}
        for name, token in self.global_uses.items():
            if name not in defined:
                self.note(token, f"there is no global function @{name}{suggest(name, defined)}")
        self.raise_noted()
        return tvm.IRModule(functions)

    def single_expression(self) -> Any:
        """Parse one expression; the header may be missing."""
        self._header(required=False)
        found = self.expression()
        self._finish()
        self.raise_noted()
        return found

    def type_definition(self, token: Token) -> NoReturn:
        """Parse ``type Name[A] { Constructor(A), ... }`` or ``extern type Name``."""
        self.fail(token, "a type definition is not supported yet")

    def _header(self, *, required: bool) -> None:
        token = self.next
        if token.kind == "version":
            self.take()
            if token.value != f'"{VERSION}"':
                self.fail(token, f'invalid semantic version {token.value or "(none)"}; expected "{VERSION}"')
        elif required:
            self.fail(
                token,
                f"expected text format semantic version, found {describe_token(token)}; "
                f'begin the text with #[version = "{VERSION}"]',
            )

    def _definition(self, functions: dict[Any, Any]) -> None:
        start = self.expect("def").start
        token = self.expect("global", "a global variable")
        gvar = self.global_vars.setdefault(token.value, tvm.ir.GlobalVar(token.value))
        if gvar in functions:
            self.note(token, f"global function @{token.value} is defined twice")
        self.scopes.start_function()
        functions[gvar] = self.function(start)

    def _finish(self) -> None:
        self.accept("metadata")
        self.expect("end", "the end of the text")


def _run(text: str, source_name: str, parse_what: str) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"a text to parse is a str, not {type(text).__name__}")
    source = Source(text, source_name)

    def run() -> Any:
        try:
            return getattr(ModuleParser(source), parse_what)()
        except RecursionError:
            raise source.error(0, "the text is nested too deeply") from None

    return on_deep_stack(run)


def parse(text: str, source_name: str = "from_string") -> tvm.IRModule:
    """Return the module that a text in Relay's format v0.0.5 means, with types inferred.

    Parameters
    ----------
    text : str
        The text.
    source_name : str
        What errors and spans call it.

    Raises
    ------
    ParseError
        Where the text does not follow the format; the message shows the place.
    TypeCheckError
        When the program is ill-typed.

    Examples
    --------
    >>> from vmkit import relay
    >>> mod = relay.parse('#[version = "0.0.5"] def @main(%x: int32) { %x + 1 }')
    >>> str(mod["main"].ret_type)
    'int32'
    """
    return infer_module(_run(text, source_name, "module"))


def parse_expr(text: str) -> Any:
    """Return the expression that a text means; the header may be missing, and types are not inferred.

    Raises
    ------
    ParseError
        Where the text does not follow the format.
    """
    return _run(text, "string", "single_expression")


def fromtext(text: str, source_name: str | None = None) -> tvm.IRModule:
    """Return the module of a text; see :func:`parse`."""
    return parse(text, source_name or "from_string")
