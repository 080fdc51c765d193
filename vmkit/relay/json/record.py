"""Nodes with named fields: how a row of a table reads and writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tvm.ir import DictAttrs, SequentialSpan, Span

from ..._dataclasses import dataclass
from ...errors import ModelError
from ..ir import Constructor, Expr, Function, GlobalTypeVar, GlobalVar, Op, Type
from ..ir import TypeVar as RelayTypeVar
from .kinds import Node, fields_of
from .slots import Item, Ref, Slot
from .unknown_fields import refuse_unknown

if TYPE_CHECKING:
    from .reader import NodeReader
    from .writer import NodeWriter

__all__ = [
    "ATTRIBUTES",
    "CONSTRUCTOR",
    "EXPRESSION",
    "OPTIONAL_TYPE",
    "SPAN",
    "TYPE",
    "TYPE_NAME",
    "TYPE_VAR",
    "Record",
]

T = TypeVar("T")

EXPRESSION = Ref("an expression", (Expr, Function, GlobalVar, Op))
TYPE = Ref("a type", (Type,))
OPTIONAL_TYPE = Ref("a type", (Type,), optional=True)
TYPE_VAR = Ref("a type variable", (RelayTypeVar,))
TYPE_NAME = Ref("the name of a data type", (GlobalTypeVar,))
CONSTRUCTOR = Ref("a constructor", (Constructor,))
SPAN = Ref("a span", (Span, SequentialSpan), optional=True)


@dataclass(frozen=True)
class Record(Generic[T]):
    """A kind of node with named fields."""

    cls: type[T]
    fields: Mapping[str, Slot]
    make_from: Callable[..., T] | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    also_written: Mapping[str, str] = field(default_factory=dict)

    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        given = fields_of(node)
        return [given[name] for name, slot in self.fields.items() if name in given and slot.refers(given[name], reader)]

    def make(self, node: Node, reader: NodeReader) -> T:
        given = fields_of(node)
        refuse_unknown(node["type_key"], given, self.fields, reader)
        values: dict[str, Item] = {}
        for name, slot in self.fields.items():
            # The null is what a field refers to that an older release did not have yet.
            if name not in given and not slot.optional:
                raise ModelError(f"has no field {name!r}")
            try:
                values[name] = slot.read(given.get(name, "0"), reader)
            except ModelError as error:
                raise ModelError(f"field {name!r} {error}") from None
        make: Callable[..., T] = self.make_from or self.cls
        return make(**values)

    def write(self, value: T, writer: NodeWriter) -> dict[str, str]:
        """Return the fields of an object's node."""
        fields = {
            name: slot.write(getattr(value, self.attributes.get(name, name)), writer)
            for name, slot in self.fields.items()
        }
        if isinstance(value, Expr | Function):
            fields["_checked_type_"] = str(writer.index(value.checked_type_))
        return {**fields, **self.also_written}


class _DictAttrsSlot(Ref):
    """Attributes of functions and modules; none are written as the null."""

    def write(self, value: Item, writer: NodeWriter) -> str:
        attrs = cast("DictAttrs | None", value)
        return super().write(attrs if attrs is not None and len(attrs) else None, writer)


ATTRIBUTES = _DictAttrsSlot("attributes", (DictAttrs,), optional=True)
