"""Relay's nodes in TVM's JSON: one row a kind of node, for reading and for writing.

A row names the class and its fields as TVM 0.14 had them. A field's value goes to the class's parameter, and comes from
its attribute, of the same name, unless the row says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tvm
from tvm.ir import DictAttrs, SequentialSpan, SourceName, Span

from ...errors import ModelError
from ..ir import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    FuncType,
    GlobalTypeVar,
    GlobalVar,
    If,
    IncompleteType,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefType,
    RefWrite,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
    Var,
    define_type,
    type_definitions,
)
from ..op.attrs import Attrs
from ..op.registry import entry
from ..virtual_device import VirtualDevice
from .kinds import Kind, Node, fields_of
from .slots import BOOL, DTYPE, INT, STRING, TENSOR, MapOf, Ref, Slot, many
from .unknown_fields import refuse_unknown

if TYPE_CHECKING:
    from .reader import NodeReader
    from .writer import NodeWriter

__all__ = ["RECORDS", "Record"]

_EXPRESSION = Ref("an expression", (Expr, Function, GlobalVar, Op))
_TYPE = Ref("a type", (Type,))
_OPTIONAL_TYPE = Ref("a type", (Type,), optional=True)
_TYPE_VAR = Ref("a type variable", (TypeVar,))
_TYPE_NAME = Ref("the name of a data type", (GlobalTypeVar,))
_VAR = Ref("a variable", (Var,))
_PATTERN = Ref("a pattern", (Pattern,))
_CONSTRUCTOR = Ref("a constructor", (Constructor,))
_SIZES = Ref("a size", (int, tvm.ir.Expr), is_array=True)
_SPAN = Ref("a span", (Span, SequentialSpan), optional=True)

# What TVM 0.14 also wrote: for expressions, and for types and patterns.
_OF_EXPRESSIONS = {"virtual_device_": "0"}
_NO_SPAN = {"span": "0"}


@dataclass(frozen=True)
class Record:
    """A kind of node with named fields."""

    cls: type
    fields: Mapping[str, Slot]
    make_from: Callable[..., Any] | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    also_written: Mapping[str, str] = field(default_factory=dict)

    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        given = fields_of(node)
        return [given[name] for name, slot in self.fields.items() if name in given and slot.refers(given[name], reader)]

    def make(self, node: Node, reader: NodeReader) -> Any:
        given = fields_of(node)
        refuse_unknown(node["type_key"], given, self.fields, reader)
        values: dict[str, Any] = {}
        for name, slot in self.fields.items():
            # The null is what a field refers to that an older release did not have yet.
            if name not in given and not slot.optional:
                raise ModelError(f"has no field {name!r}")
            try:
                values[name] = slot.read(given.get(name, "0"), reader)
            except ModelError as error:
                raise ModelError(f"field {name!r} {error}") from None
        return (self.make_from or self.cls)(**values)

    def write(self, value: Any, writer: NodeWriter) -> dict[str, str]:
        """Return the fields of an object's node."""
        fields = {
            name: slot.write(getattr(value, self.attributes.get(name, name)), writer)
            for name, slot in self.fields.items()
        }
        if isinstance(value, Expr | Function):
            fields["_checked_type_"] = str(writer.index(value.checked_type_))
        return {**fields, **self.also_written}


class _IdSlot(Ref):
    """A variable's identity: a node of its own, which holds the name."""

    def write(self, value: Any, writer: NodeWriter) -> str:
        return writer.raw_index("relay.Id", {"name_hint": STRING.write(value, writer)})


class _Variable(Record):
    """Nodes of one identity are one variable, whatever else they say."""

    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        chosen = reader.variable(fields_of(node).get("vid"))
        return super().references(node, reader) if reader.node(chosen) is node else (chosen,)

    def make(self, node: Node, reader: NodeReader) -> Any:
        chosen = reader.variable(fields_of(node).get("vid"))
        return super().make(node, reader) if reader.node(chosen) is node else reader.made(chosen)


class _GlobalNameSlot(type(STRING)):  # type: ignore[misc]
    """The name of a global variable; those of one name are one variable."""

    def read(self, text: str, reader: NodeReader) -> Any:
        return reader.global_var(super().read(text, reader))


class _DictAttrsSlot(Ref):
    """Attributes of functions and modules; none are written as the null."""

    def write(self, value: Any, writer: NodeWriter) -> str:
        return super().write(value if value is not None and len(value) else None, writer)


_ATTRIBUTES = _DictAttrsSlot("attributes", (DictAttrs,), optional=True)


def _call(op: Any, args: list[Any], attrs: Any, type_args: list[Any], span: Any) -> Call:
    if isinstance(op, Op):
        expected = entry(op).attrs
        if attrs is None and expected is not None:
            # An older release had no attributes for it.
            attrs = expected()
        if attrs is not None and (expected is None or type(attrs) is not expected):
            wanted = "none" if expected is None else expected.type_key
            raise ModelError(f"calls {op.name} with {type(attrs).__name__}, expected {wanted}")
    return Call(op, args, attrs, type_args, span)


class _TypeArgsSlot(Ref):
    """A call's type arguments; null are those that nobody had inferred yet."""

    def read(self, text: str, reader: NodeReader) -> Any:
        value = reader.made(text)
        return [] if isinstance(value, list) and None in value else super().read(text, reader)


def _func_type(arg_types: list[Any], ret_type: Any, type_params: list[Any], type_constraints: list[Any]) -> FuncType:
    if type_constraints:
        raise ModelError("has type relations, which only the types of operators have")
    return FuncType(arg_types, ret_type, type_params)


class _AttrsSlot(Ref):
    """An operator's attributes, which the call itself writes."""

    def write(self, value: Any, writer: NodeWriter) -> str:
        return super().write(None if isinstance(value, Attrs) else value, writer)


class _CallRecord(Record):
    def write(self, value: Any, writer: NodeWriter) -> dict[str, str]:
        fields = super().write(value, writer)
        if isinstance(value.attrs, Attrs):
            fields["attrs"] = str(writer.attrs_index(value.attrs, value.args))
        return fields


class _NoneWritten(Ref):
    def write(self, value: Any, writer: NodeWriter) -> str:
        return str(writer.index([]))


class _ModuleRecord(Record):
    def write(self, value: Any, writer: NodeWriter) -> dict[str, str]:
        functions = dict(value.functions.items())
        writer.global_types = {v.name_hint: getattr(f, "checked_type_", None) for v, f in functions.items()}
        types = {data.header: data for data in type_definitions(value).values()}
        return {
            "attrs": _ATTRIBUTES.write(value.attrs, writer),
            "functions": str(writer.index(functions)),
            "global_type_var_map_": str(writer.index({name.name_hint: name for name in types})),
            "global_var_map_": str(writer.index({variable.name_hint: variable for variable in functions})),
            "source_map": writer.raw_index("SourceMap", {"source_map": str(writer.index({}))}),
            "type_definitions": str(writer.index(types)),
        }


class _GlobalVarRecord(Record):
    def write(self, value: Any, writer: NodeWriter) -> dict[str, str]:
        checked = str(writer.index(writer.global_types.get(value.name_hint)))
        return {**super().write(value, writer), "_checked_type_": checked, "span": "0", "virtual_device_": "0"}


def _module(functions: dict[GlobalVar, Any], type_definitions: dict[Any, TypeData], attrs: Any) -> tvm.IRModule:
    made = tvm.IRModule(functions, attrs=attrs)
    if type_definitions:
        define_type(made, *type_definitions.values())
    return made


RECORDS: dict[str, Kind] = {
    "relay.Var": _Variable(
        Var,
        {"vid": _IdSlot("a variable's identity", (str,)), "type_annotation": _OPTIONAL_TYPE, "span": _SPAN},
        make_from=lambda vid, type_annotation, span: Var(vid, type_annotation, span),
        attributes={"vid": "name_hint"},
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Id": Record(str, {"name_hint": STRING}, make_from=lambda name_hint: name_hint),
    "tir.StringImm": Record(str, {"value": STRING}, make_from=lambda value: value),
    "GlobalVar": _GlobalVarRecord(GlobalVar, {"name_hint": _GlobalNameSlot()}, make_from=lambda name_hint: name_hint),
    "relay.Constant": Record(Constant, {"data": TENSOR, "span": _SPAN}, also_written=_OF_EXPRESSIONS),
    "relay.Call": _CallRecord(
        Call,
        {
            "op": _EXPRESSION,
            "args": many(_EXPRESSION),
            "attrs": _AttrsSlot("an operator's attributes", (Attrs,), optional=True),
            "type_args": _TypeArgsSlot("a type", (Type,), optional=True, is_array=True),
            "span": _SPAN,
        },
        make_from=_call,
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Function": Record(
        Function,
        {
            "params": many(_VAR),
            "body": _EXPRESSION,
            "ret_type": _OPTIONAL_TYPE,
            "type_params": many(_TYPE_VAR),
            "attrs": _ATTRIBUTES,
            "span": _SPAN,
        },
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Let": Record(
        Let,
        {"var": _VAR, "value": _EXPRESSION, "body": _EXPRESSION, "span": _SPAN},
        make_from=lambda var, value, body, span: Let(var, value, body, span),
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.If": Record(
        If,
        {"cond": _EXPRESSION, "true_branch": _EXPRESSION, "false_branch": _EXPRESSION, "span": _SPAN},
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Tuple": Record(Tuple, {"fields": many(_EXPRESSION), "span": _SPAN}, also_written=_OF_EXPRESSIONS),
    "relay.TupleGetItem": Record(
        TupleGetItem, {"tuple_value": _EXPRESSION, "index": INT, "span": _SPAN}, also_written=_OF_EXPRESSIONS
    ),
    "relay.RefCreate": Record(RefCreate, {"value": _EXPRESSION, "span": _SPAN}, also_written=_OF_EXPRESSIONS),
    "relay.RefRead": Record(RefRead, {"ref": _EXPRESSION, "span": _SPAN}, also_written=_OF_EXPRESSIONS),
    "relay.RefWrite": Record(
        RefWrite, {"ref": _EXPRESSION, "value": _EXPRESSION, "span": _SPAN}, also_written=_OF_EXPRESSIONS
    ),
    "relay.Match": Record(
        Match,
        {"data": _EXPRESSION, "clauses": many(Ref("a clause", (Clause,))), "complete": BOOL, "span": _SPAN},
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Clause": Record(Clause, {"lhs": _PATTERN, "rhs": _EXPRESSION}),
    "relay.PatternWildcard": Record(PatternWildcard, {}, also_written=_NO_SPAN),
    "relay.PatternVar": Record(PatternVar, {"var": _VAR}, also_written=_NO_SPAN),
    "relay.PatternConstructor": Record(
        PatternConstructor, {"constructor": _CONSTRUCTOR, "patterns": many(_PATTERN)}, also_written=_NO_SPAN
    ),
    "relay.PatternTuple": Record(PatternTuple, {"patterns": many(_PATTERN)}, also_written=_NO_SPAN),
    "relay.Constructor": Record(
        Constructor,
        {"name_hint": STRING, "inputs": many(_TYPE), "belong_to": _TYPE_NAME, "tag": INT, "span": _SPAN},
    ),
    "relay.TypeData": Record(
        TypeData,
        {"header": _TYPE_NAME, "type_vars": many(_TYPE_VAR), "constructors": many(_CONSTRUCTOR)},
        also_written=_NO_SPAN,
    ),
    "relay.TensorType": Record(TensorType, {"shape": _SIZES, "dtype": DTYPE}, also_written=_NO_SPAN),
    "TupleType": Record(TupleType, {"fields": many(_TYPE)}, also_written=_NO_SPAN),
    "FuncType": Record(
        FuncType,
        {
            "arg_types": many(_TYPE),
            "ret_type": _TYPE,
            "type_params": many(_TYPE_VAR),
            "type_constraints": _NoneWritten("a relation", (object,), optional=True, is_array=True),
        },
        make_from=_func_type,
        attributes={"type_constraints": "type_params"},
        also_written=_NO_SPAN,
    ),
    "TypeVar": Record(TypeVar, {"name_hint": STRING, "kind": INT}, also_written=_NO_SPAN),
    "GlobalTypeVar": Record(GlobalTypeVar, {"name_hint": STRING, "kind": INT}),
    "TypeCall": Record(TypeCall, {"func": _TYPE, "args": many(_TYPE)}, also_written=_NO_SPAN),
    "relay.RefType": Record(RefType, {"value": _TYPE}, also_written=_NO_SPAN),
    "IncompleteType": Record(IncompleteType, {"kind": INT}, also_written=_NO_SPAN),
    "IRModule": _ModuleRecord(
        tvm.IRModule,
        {
            "functions": MapOf("global variables to functions", GlobalVar, Function),
            "type_definitions": MapOf("names to data types", GlobalTypeVar, TypeData, optional=True),
            "attrs": _ATTRIBUTES,
        },
        make_from=_module,
    ),
    "VirtualDevice": Record(
        VirtualDevice,
        {"device_type_int": INT, "virtual_device_id": INT, "memory_scope": STRING},
        make_from=lambda device_type_int, virtual_device_id, memory_scope: VirtualDevice(
            device_type_int, virtual_device_id, memory_scope
        ),
        attributes={"device_type_int": "device_type", "virtual_device_id": "device_id"},
    ),
    "Span": Record(
        Span,
        {
            "source_name": Ref("the name of a source", (SourceName,)),
            "line": INT,
            "end_line": INT,
            "column": INT,
            "end_column": INT,
        },
    ),
    "SequentialSpan": Record(SequentialSpan, {"spans": many(Ref("a span", (Span, SequentialSpan)))}),
}
