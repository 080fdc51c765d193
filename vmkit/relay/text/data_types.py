"""Parse the definitions of data types and their uses: ``type List[A] { Cons(A, List[A]), Nil }``, ``List[int32]``.

A type may be used before it is defined, so uses are checked when the whole text is read. A constructor must be defined
before it is used, as in Relay: until then its name is that of an operator.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import suggest
from ..ir import Constructor, GlobalTypeVar, Type, TypeCall, TypeData
from ..ir import TypeVar as RelayTypeVar
from ..ir.dtype import COMMON_DTYPES, as_dtype
from .lexer import Token
from .metadata import MetaNodes
from .source import Source
from .types import TypeParser

__all__ = ["DataTypeParser"]


class DataTypeParser(TypeParser):
    """Parses data types, and knows the types and constructors that there are."""

    def __init__(self, source: Source, init_meta: MetaNodes | None = None) -> None:
        super().__init__(source, init_meta)
        self.constructors: dict[str, Constructor] = {}
        self._type_params: dict[str, int] = {}
        self._type_uses: list[tuple[Token, int]] = []

    def know_types(self, definitions: Iterable[TypeData]) -> None:
        """Make known the types, with their constructors, of a module that the text adds to."""
        for data in definitions:
            self._type_params[data.header.name_hint] = len(data.type_vars)
            self.constructors.update((c.name_hint, c) for c in data.constructors)

    def data_type(self, token: Token) -> Type:
        """Parse what follows the name of a data type: its type arguments, if it has any."""
        args = self.sequence("[", "]", self.type) if self.next.kind == "[" else []
        self._type_uses.append((token, len(args)))
        return TypeCall(GlobalTypeVar(token.value), args)

    def check_type_uses(self) -> None:
        """Note each use of a type that is not defined, or that has another number of type arguments."""
        for token, given in self._type_uses:
            expected = self._type_params.get(token.value)
            if expected is None:
                hint = suggest(token.value, ["Tensor", *COMMON_DTYPES, *self._type_params])
                self.note(token, f"there is no type '{token.value}' here{hint}")
            elif given != expected:
                self.note(token, f"type {token.value} takes {_counted(expected, 'type argument')}, got {given}")

    def type_definition(self) -> TypeData:
        """Parse ``type Name[A] { Constructor(A), ... }``, or ``extern type Name``, which has no constructors."""
        is_extern = self.accept("extern")
        self.expect("type")
        token = self.expect("ident", "the name of a type")
        if token.value == "Tensor" or as_dtype(token.value) is not None:
            self.fail(token, f"{token.value} is a type already; give this one another name")
        header = GlobalTypeVar(token.value)
        known_problems = len(self.problems)
        with self.scopes.types.scope():
            type_vars = self._type_variables()
            constructors = self._constructors(header, is_extern)
        # A type that is defined twice mostly has its constructors twice, which has been told then.
        if token.value in self._type_params and len(self.problems) == known_problems:
            self.note(token, f"type {token.value} is defined twice")
        self._type_params[token.value] = len(type_vars)
        return TypeData(header, type_vars, constructors)

    def _type_variables(self) -> list[RelayTypeVar]:
        tokens: dict[str, Token] = {}

        def variable() -> RelayTypeVar:
            token = self.next
            found = self.type_param()
            if token.value in tokens:
                self.note(token, f"type variable {token.value} is declared twice")
            tokens[token.value] = token
            return found

        return self.sequence("[", "]", variable) if self.next.kind == "[" else []

    def _constructors(self, header: GlobalTypeVar, is_extern: bool) -> list[Constructor]:
        if self.next.kind != "{":
            return []
        if is_extern and self.ahead(1).kind != "}":
            self.fail(self.ahead(1), f"external type {header.name_hint} must not have constructors")
        return self.sequence("{", "}", lambda: self._constructor(header))

    def _constructor(self, header: GlobalTypeVar) -> Constructor:
        token = self.expect("ident", "the name of a constructor")
        inputs = self.sequence("(", ")", self.type) if self.next.kind == "(" else []
        made = Constructor(token.value, inputs, header, span=self.span_from(token.start))
        if token.value in self.constructors:
            owner = self.constructors[token.value].belong_to.name_hint
            self.note(token, f"constructor {token.value} is defined twice; type {owner} has it already")
        self.constructors[token.value] = made
        return made


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
