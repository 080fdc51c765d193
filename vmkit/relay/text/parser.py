"""Parse modules: the header, definitions, and the metadata at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tvm

from ...errors import suggest
from ...stack import on_deep_stack
from ..analysis.infer_type import infer_module, inferred
from ..diagnostics import reported
from ..ir import Function, GlobalVar, RelayExpr, TypeData, define_type, type_definitions, with_functions
from .expressions import ExpressionParser
from .lexer import describe_token
from .metadata import MetaNodes
from .source import Source

__all__ = ["VERSION", "fromtext", "parse", "parse_expr", "read_module"]

T = TypeVar("T")

VERSION = "0.0.5"


class ModuleParser(ExpressionParser):
    """Parses a whole text."""

    def module(self, init: tvm.IRModule) -> tvm.IRModule:
        """Parse a module, which has the definitions of `init` too; its types are not inferred."""
        self.know_types(type_definitions(init).values())
        self.global_vars.update((gvar.name_hint, gvar) for gvar in init.functions)
        self._header(required=True)
        functions: dict[Any, Any] = {}
        types: list[TypeData] = []
        while self.next.kind not in ("end", "metadata"):
            token = self.next
            match token.kind:
                case "def":
                    self._definition(functions)
                case "type" | "extern":
                    types.append(self.type_definition())
                case _:
                    self.fail(token, f"expected 'def' or 'type', found {describe_token(token)}")
        self._finish()
        functions = {**dict(init.functions.items()), **functions}
        defined = {gvar.name_hint for gvar in functions}
        for name, token in self.global_uses.items():
            if name not in defined:
                self.note(token, f"there is no global function @{name}{suggest(name, defined)}")
        self.check_type_uses()
        self.raise_noted()
        mod = with_functions(init, functions)
        if types:
            define_type(mod, *types)
        return mod

    def single_expression(self) -> RelayExpr:
        """Parse one expression; the header may be missing."""
        self._header(required=False)
        found = self.expression()
        self._finish()
        self.check_type_uses()
        self.raise_noted()
        return found

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

    def _definition(self, functions: dict[GlobalVar, Function]) -> None:
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


def _run(source: Source, parse_it: Callable[[], T]) -> T:
    def run() -> T:
        try:
            return parse_it()
        except RecursionError:
            raise source.error(0, "the text is nested too deeply") from None

    return on_deep_stack(run)


def _source(text: str, name: str) -> Source:
    if not isinstance(text, str):
        raise TypeError(f"a text to parse is a str, not {type(text).__name__}")
    return Source(text, name)


def read_module(
    text: str,
    source_name: str = "from_string",
    init_module: tvm.IRModule | None = None,
    init_meta_table: MetaNodes | None = None,
) -> tvm.IRModule:
    """Return the module that a text means as :func:`parse` does, with no types inferred."""
    source = _source(text, source_name)
    init = tvm.IRModule({}) if init_module is None else init_module
    return _run(source, lambda: ModuleParser(source, init_meta_table).module(init))


def parse(
    text: str,
    source_name: str = "from_string",
    init_module: tvm.IRModule | None = None,
    init_meta_table: MetaNodes | None = None,
) -> tvm.IRModule:
    """Return the module that a text in Relay's format v0.0.5 means, with types inferred.

    Parameters
    ----------
    text : str
        The text.
    source_name : str
        What errors and spans call it.
    init_module : tvm.IRModule, optional
        A module whose functions and data types the text may use. The result has them too; a function that the text
        defines stands in the place of the one of its name. The module itself does not change.
    init_meta_table : mapping of str to sequence, optional
        Nodes that ``meta[key][index]`` may refer to; they are counted after those of the text's own metadata.

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
    is_own = init_module is None and not init_meta_table
    with reported(init_module):
        mod = read_module(text, source_name, init_module, init_meta_table)
        return infer_module(mod) if is_own else inferred(mod)


def parse_expr(text: str) -> RelayExpr:
    """Return the expression that a text means; the header may be missing, and types are not inferred.

    Raises
    ------
    ParseError
        Where the text does not follow the format.
    """
    source = _source(text, "string")
    with reported():
        return _run(source, lambda: ModuleParser(source).single_expression())


def fromtext(text: str, source_name: str | None = None) -> tvm.IRModule:
    """Return the module of a text; see :func:`parse`."""
    return parse(text, source_name or "from_string")
