"""Parse the attributes of calls and functions: ``axis=1, layout="NCHW", newshape=[0, n * 4]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any as AnyValue
from typing import NamedTuple

from ...errors import TypeCheckError, suggest
from ..ir import Any, Constant, Expr
from ..ir.dim_text import DIM_OPERATORS
from ..ir.dtype import as_dtype
from ..op.attrs import Attrs
from ..op.registry import OpEntry, attrs_classes
from .data_types import DataTypeParser
from .lexer import Token, describe_token

__all__ = ["AttributeParser", "Given"]

_TYPE_KEY = "attrs_type_key"


class Given(NamedTuple):
    """An attribute as the text gives it."""

    value: AnyValue
    key: Token
    value_at: Token


class AttributeParser(DataTypeParser):
    """Parses attributes, and makes the attributes node of a call from them."""

    def at_attribute(self) -> bool:
        """Say whether an attribute comes next: a name with points in it, then ``=``."""
        at = 0
        while self.ahead(at).kind == "ident" and self.ahead(at + 1).kind == ".":
            at += 2
        return self.ahead(at).kind == "ident" and self.ahead(at + 1).kind == "=" and self.ahead(at + 2).kind != "="

    def attributes(self) -> dict[str, Given]:
        """Parse attributes separated by commas; a last comma is allowed."""
        given: dict[str, Given] = {}
        while self.at_attribute():
            key = self.next
            name = self.dotted_name()
            self.expect("=")
            value_at = self.next
            value = self.attribute_value()
            if name in given:
                self.fail(key, f"attribute '{name}' is given twice")
            given[name] = Given(value, key, value_at)
            if not self.accept(","):
                break
        return given

    def dotted_name(self) -> str:
        """Parse ``nn.conv2d``."""
        parts = [self.expect("ident").value]
        while self.next.kind == "." and self.ahead(1).kind == "ident":
            self.take()
            parts.append(self.take().value)
        return ".".join(parts)

    def attribute_value(self) -> AnyValue:
        """Parse one value: a number, a boolean, a string, a list, ``None``, a dimension, or metadata."""
        with self.nested():
            token = self.next
            match token.kind:
                case "bool" | "string":
                    return self.take().value
                case "meta":
                    return self._meta_value(self.take())
                case "[":
                    return self.sequence("[", "]", self.attribute_value)
                case "(":
                    return self._bracketed_value()
                case "{":
                    return self._map()
                case "ident" if token.value in ("None", "nullptr"):
                    self.take()
                    return None
                case "number" if not isinstance(token.value.value, int):
                    return self.take().value.value
                case "number" | "?":
                    return self.dim()
                case "ident" if self.ahead(1).kind == "(" or token.value in self.scopes.dims:
                    return self.dim()
                case "ident":
                    hint = suggest(token.value, ["None", "True", "False", *self.scopes.dims])
                    self.fail(token, f"no dimension is named '{token.value}' here{hint}; strings stand in quotes")
            self.fail(token, f"expected the value of an attribute, found {describe_token(token)}")

    def _map(self) -> dict[AnyValue, AnyValue]:
        """Parse ``{"key"=value, "other"=[1, 2]}``."""
        self.expect("{")
        entries: dict[AnyValue, AnyValue] = {}
        while self.next.kind != "}":
            start = self.next
            key = self.attribute_value()
            if key in entries:
                self.fail(start, f"the map has {key!r} twice")
            self.expect("=")
            entries[key] = self.attribute_value()
            if not self.accept(","):
                break
        self.expect("}")
        return entries

    def _meta_value(self, token: Token) -> AnyValue:
        value = self.meta.read(token)
        return self.dim_operators(value, 0) if self.next.kind in DIM_OPERATORS else value

    def _bracketed_value(self) -> AnyValue:
        self.expect("(")
        value = self.attribute_value()
        self.expect(")")
        return self.dim_operators(value, 0) if self.next.kind in DIM_OPERATORS else value

    # -- attribute nodes

    def operator_attrs(self, made: OpEntry, given: Mapping[str, Given], start: int) -> Attrs | None:
        """Return the attributes node of an operator's call, with defaults for what the text does not give."""
        if made.attrs is None:
            for entry in given.values():
                self.fail(entry.key, f"operator {made.name} takes no attributes, got '{entry.key.value}'")
            return None
        return self._node(made.attrs, made.name, given, start)

    def keyed_attrs(self, given: dict[str, Given], start: int) -> Attrs | None:
        """Return the attributes of a call of something else than an operator: ``attrs_type_key`` names their class."""
        if not given:
            return None
        key = given.pop(_TYPE_KEY, None)
        if key is None:
            first = next(iter(given.values()))
            self.fail(first.key, f'only an operator has attributes by itself; add {_TYPE_KEY}="..." to this call')
        classes = attrs_classes()
        if key.value not in classes:
            self.fail(key.value_at, f"there are no attributes {key.value!r}{suggest(str(key.value), classes)}")
        return self._node(classes[key.value], key.value, given, start)

    def _node(self, cls: type[Attrs], name: str, given: Mapping[str, Given], start: int) -> Attrs:
        fields = {field.name: field for field in cls.declared}
        for key, entry in given.items():
            if key not in fields:
                hint = suggest(key, fields) or f"; attributes: {', '.join(fields) or 'none'}"
                self.fail(entry.key, f"{name} has no attribute '{key}'{hint}")
            if fields[key].kind == "DType" and entry.value and as_dtype(str(entry.value)) is None:
                self.fail(entry.value_at, f"{key} of {name} must be a data type, not {entry.value!r}")
        try:
            return cls(**{key: entry.value for key, entry in given.items()})
        except (TypeCheckError, TypeError, ValueError, OverflowError) as error:
            message = str(error)
            culprit = next((e.value_at.start for k, e in given.items() if repr(k) in message), start)
            self.fail(culprit, message)

    def function_attrs(self, given: Mapping[str, Given]) -> dict[str, AnyValue]:
        """Return the attributes of a function."""
        for entry in given.values():
            if isinstance(entry.value, Any | Expr) and not isinstance(entry.value, Constant):
                self.fail(entry.value_at, "expected a number, a string, a list or metadata as a function's attribute")
        return {key: entry.value for key, entry in given.items()}
