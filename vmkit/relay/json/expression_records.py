"""Expressions and patterns in TVM's JSON: one row a kind of node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from tvm.ir import DictAttrs, Span

from ...errors import ModelError
from ..ir import (
    Call,
    Clause,
    Constant,
    Constructor,
    Function,
    GlobalVar,
    If,
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
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    Type,
    Var,
)
from ..op.attrs import Attrs
from ..op.registry import entry
from .kinds import Node
from .record import (
    ATTRIBUTES,
    CONSTRUCTOR,
    EXPRESSION,
    OPTIONAL_TYPE,
    SPAN,
    TYPE,
    TYPE_NAME,
    TYPE_VAR,
    Record,
)
from .slots import BOOL, INT, STRING, TENSOR, Item, Ref, String, many

if TYPE_CHECKING:
    from .reader import NodeReader
    from .writer import NodeWriter

__all__ = ["EXPRESSION_RECORDS"]

_VAR = Ref("a variable", (Var,))
_PATTERN = Ref("a pattern", (Pattern,))
# What TVM 0.14 also wrote.
_OF_EXPRESSIONS = {"virtual_device_": "0"}
_OF_PATTERNS = {"span": "0"}


class _IdSlot(Ref):
    """A variable's identity: a node of its own, which holds the name."""

    def write(self, value: Item, writer: NodeWriter) -> str:
        return writer.raw_index("relay.Id", {"name_hint": STRING.write(value, writer)})


class _Variable(Record[Var]):
    """Several nodes may be one variable; see ``same_variables``."""

    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        chosen = reader.variable()
        return super().references(node, reader) if chosen == reader.current else (chosen,)

    def make(self, node: Node, reader: NodeReader) -> Var:
        chosen = reader.variable()
        return super().make(node, reader) if chosen == reader.current else cast("Var", reader.made(str(chosen)))


class _GlobalNameSlot(String):
    """The name of a global variable; those of one name are one variable."""

    def read(self, text: str, reader: NodeReader) -> Item:
        return reader.global_var(str(super().read(text, reader)))


def _call(
    op: RelayExpr, args: list[RelayExpr], attrs: Attrs | DictAttrs | None, type_args: list[Type], span: Span | None
) -> Call:
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

    def read(self, text: str, reader: NodeReader) -> Item:
        value = reader.made(text)
        return [] if isinstance(value, list) and None in value else super().read(text, reader)


class _AttrsSlot(Ref):
    """Attributes; those of operators are written by the call, as some repeat its arguments."""

    def write(self, value: Item, writer: NodeWriter) -> str:
        return "0" if isinstance(value, Attrs) else super().write(value, writer)


class _CallRecord(Record[Call]):
    def write(self, value: Call, writer: NodeWriter) -> dict[str, str]:
        fields = super().write(value, writer)
        if isinstance(value.attrs, Attrs):
            fields["attrs"] = str(writer.attrs_index(value))
        return fields


class _GlobalVarRecord(Record[GlobalVar]):
    def write(self, value: GlobalVar, writer: NodeWriter) -> dict[str, str]:
        checked = str(writer.index(writer.global_types.get(value.name_hint)))
        return {**super().write(value, writer), "_checked_type_": checked, "span": "0", "virtual_device_": "0"}


EXPRESSION_RECORDS: dict[str, Record[Any]] = {
    "relay.Var": _Variable(
        Var,
        {"vid": _IdSlot("a variable's identity", (str,)), "type_annotation": OPTIONAL_TYPE, "span": SPAN},
        make_from=lambda vid, type_annotation, span: Var(vid, type_annotation, span),
        attributes={"vid": "name_hint"},
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Id": Record(str, {"name_hint": STRING}, make_from=lambda name_hint: name_hint),
    "GlobalVar": _GlobalVarRecord(GlobalVar, {"name_hint": _GlobalNameSlot()}, make_from=lambda name_hint: name_hint),
    "relay.Constant": Record(Constant, {"data": TENSOR, "span": SPAN}, also_written=_OF_EXPRESSIONS),
    "relay.Call": _CallRecord(
        Call,
        {
            "op": EXPRESSION,
            "args": many(EXPRESSION),
            "attrs": _AttrsSlot("attributes", (Attrs, DictAttrs), optional=True),
            "type_args": _TypeArgsSlot("a type", (Type,), optional=True, is_array=True),
            "span": SPAN,
        },
        make_from=_call,
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Function": Record(
        Function,
        {
            "params": many(_VAR),
            "body": EXPRESSION,
            "ret_type": OPTIONAL_TYPE,
            "type_params": many(TYPE_VAR),
            "attrs": ATTRIBUTES,
            "span": SPAN,
        },
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Let": Record(
        Let,
        {"var": _VAR, "value": EXPRESSION, "body": EXPRESSION, "span": SPAN},
        make_from=lambda var, value, body, span: Let(var, value, body, span),
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.If": Record(
        If,
        {"cond": EXPRESSION, "true_branch": EXPRESSION, "false_branch": EXPRESSION, "span": SPAN},
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Tuple": Record(Tuple, {"fields": many(EXPRESSION), "span": SPAN}, also_written=_OF_EXPRESSIONS),
    "relay.TupleGetItem": Record(
        TupleGetItem, {"tuple_value": EXPRESSION, "index": INT, "span": SPAN}, also_written=_OF_EXPRESSIONS
    ),
    "relay.RefCreate": Record(RefCreate, {"value": EXPRESSION, "span": SPAN}, also_written=_OF_EXPRESSIONS),
    "relay.RefRead": Record(RefRead, {"ref": EXPRESSION, "span": SPAN}, also_written=_OF_EXPRESSIONS),
    "relay.RefWrite": Record(
        RefWrite, {"ref": EXPRESSION, "value": EXPRESSION, "span": SPAN}, also_written=_OF_EXPRESSIONS
    ),
    "relay.Match": Record(
        Match,
        {"data": EXPRESSION, "clauses": many(Ref("a clause", (Clause,))), "complete": BOOL, "span": SPAN},
        also_written=_OF_EXPRESSIONS,
    ),
    "relay.Clause": Record(Clause, {"lhs": _PATTERN, "rhs": EXPRESSION}),
    "relay.PatternWildcard": Record(PatternWildcard, {}, also_written=_OF_PATTERNS),
    "relay.PatternVar": Record(PatternVar, {"var": _VAR}, also_written=_OF_PATTERNS),
    "relay.PatternConstructor": Record(
        PatternConstructor, {"constructor": CONSTRUCTOR, "patterns": many(_PATTERN)}, also_written=_OF_PATTERNS
    ),
    "relay.PatternTuple": Record(PatternTuple, {"patterns": many(_PATTERN)}, also_written=_OF_PATTERNS),
    "relay.Constructor": Record(
        Constructor,
        {"name_hint": STRING, "inputs": many(TYPE), "belong_to": TYPE_NAME, "tag": INT, "span": SPAN},
    ),
}
