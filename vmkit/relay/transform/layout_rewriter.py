"""Calls take other layouts, and what follows them goes on in these as far as operators can.

A layout pass is a :class:`LayoutRewriter` that says which calls take other layouts; everything else follows from what
operators say of themselves (:mod:`.layout_rules`), or what scripts attached to them. Where layouts do not fit, a
``layout_transform`` is put in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm import te, tirx
from tvm.s_tir import slayout

from ...errors import ModelError, TypeCheckError
from ..ir import Any as UnknownDim
from ..ir import Call, Dim, Function, Op, RelayExpr, TensorType, Tuple, TupleGetItem, TupleType, Type, dims, rewrite
from ..op.attached import INFER_CORRECT_LAYOUT, attached
from ..op.attrs import Attrs
from ..op.nn.layout import Layout
from ..op.registry import entry
from .canonicalize_ops import canonical
from .converted_layout import Converted, Layouts, LayoutValue, Several, fields_of
from .inferred_layout import InferCorrectLayoutOutput, KnownLayouts, LayoutQuestion
from .known_type import type_of, with_type_of
from .layout_rules import rule_of

__all__ = ["LayoutRewriter", "placeholders"]


class LayoutRewriter(ABC):
    """Rewrites functions; a subclass says which calls are altered."""

    def __init__(self) -> None:
        self.layouts = Layouts()
        # What the program knows as an expression, by its value in another layout.
        self.values: dict[RelayExpr, LayoutValue] = {}

    @abstractmethod
    def altered(self, call: Call, args: list[RelayExpr], known: Call) -> Call | None:
        """Return the call that takes the place of one, on as many arguments, or None where it stays.

        Parameters
        ----------
        call : Call
            The call, with the attributes that it has in the program.
        args : list of RelayExpr
            Its arguments in the layouts that they have now.
        known : Call
            The call on arguments as the program knows them, typed.
        """

    def rewritten(self, function: Function) -> Function:
        """Return a typed function with layouts changed."""
        return rewrite(function, {}, self.replaced)

    def replaced(self, node: RelayExpr, original: RelayExpr) -> RelayExpr:
        """Return a node as the program knows it, and note its value; unused restorations come to nothing."""
        if getattr(original, "checked_type_", None) is not None:
            with_type_of(node, original)
        value = self.value(node)
        if value is None:
            return node
        result = self.layouts.restored(value)
        type_of(result)
        self.values[result] = value
        return result

    def value(self, node: RelayExpr) -> LayoutValue | None:
        if isinstance(node, Tuple):
            fields = [self.values.get(f, f) for f in node.fields]
            return Several(fields, node) if any(isinstance(f, Converted) for f in fields) else None
        if isinstance(node, TupleGetItem):
            whole = self.values.get(node.tuple_value)
            return whole.fields[node.index] if isinstance(whole, Several) else None
        if not (isinstance(node, Call) and isinstance(node.op, Op)):
            return None
        return self.called(node, [self.seen(a) for a in node.args])

    def seen(self, arg: RelayExpr) -> LayoutValue:
        """Return an argument as its value in the layout that it has now."""
        if arg in self.values:
            return self.values[arg]
        ty = getattr(arg, "checked_type_", None)
        return fields_of(arg, len(ty.fields)) if isinstance(ty, TupleType) else arg

    def called(self, call: Call, values: Sequence[LayoutValue]) -> LayoutValue | None:
        """Return the value of a call on values, or None where it takes its arguments as the program knows them."""
        short = canonical(call)
        if isinstance(short, Call) and short is not call and isinstance(values[0], Converted) and values[0].is_moved:
            call = _typed(short, call)
            values = [values[0], call.args[1]]
        flat = [f for v in values for f in (v.fields if isinstance(v, Several) else [v])]
        types = [type_of(a) for a in call.args]
        first = self.asked(call, [f.old if isinstance(f, Converted) else None for f in flat], values, types)
        if first is None:
            return self.without_layouts(call)
        # A tensor whose layout is called otherwise here than where it was made is taken as the program has it.
        given = [
            f if not isinstance(f, Converted) or f.old.text == layout.text else self.layouts.restored(f)
            for f, layout in zip(flat, first.input_layouts, strict=True)
        ]
        raw = [f.expr if isinstance(f, Converted) else f for f in given]
        is_moved = any(isinstance(f, Converted) and f.is_moved for f in given)
        args = _regrouped(raw, values)
        other = self.altered(call, args, call)
        if other is None and not is_moved:
            return _value(call, call, first, first)
        made = _with_attrs(call, first.new_attrs) if other is None else other
        if not isinstance(made.op, Op):
            return None
        if other is not None:
            args = list(other.args)
        if len(_fields(args)) != len(raw):
            raise ModelError(f"{call.op.name}: what takes its place must have {len(raw)} arguments, as it has")
        now = [f.new if isinstance(f, Converted) else old for f, old in zip(given, first.input_layouts, strict=True)]
        second = self.asked(made, first.input_layouts, values, types, now, other is not None, type_of(call))
        if second is None or len(second.output_layouts) != len(first.output_layouts):
            return None
        return self.inserted(call, made, args, now, first, second)

    def without_layouts(self, call: Call) -> LayoutValue | None:
        """Return the value of a call of which no layouts are known; it may be altered all the same."""
        if attached(call.op, INFER_CORRECT_LAYOUT) is not None or rule_of(call) is not None:
            return None
        return self.altered(call, list(call.args), call)

    def asked(
        self,
        call: Call,
        old: Sequence[Layout | None],
        values: Sequence[LayoutValue],
        types: Sequence[Type],
        new: Sequence[Layout] | None = None,
        is_altered: bool = False,
        result_type: Type | None = None,
    ) -> KnownLayouts | None:
        """Return which layouts a call takes and gives, or None where it cannot say.

        The types are those of the arguments, and of the result, as the program knows them.
        """
        hook, rule = attached(call.op, INFER_CORRECT_LAYOUT), rule_of(call)
        if hook is not None:
            result = hook(call.attrs, _for_script(new), _for_script(old), list(types))
            if not isinstance(result, InferCorrectLayoutOutput):
                raise ModelError(f"{call.op.name}: FInferCorrectLayout must return an InferCorrectLayoutOutput")
        elif rule is None:
            return None
        else:
            first = values[0] if values else None
            ty = type_of(call) if result_type is None else result_type
            result = rule(
                LayoutQuestion(
                    call.attrs,
                    [t for each in types for t in _flat(each)],
                    old,
                    new,
                    entry(call.op).inputs,
                    len(first.fields) if isinstance(first, Several) else 1,
                    len(ty.fields) if isinstance(ty, TupleType) else 1,
                    is_altered,
                )
            )
        return None if result is None else result.known()

    def inserted(
        self,
        call: Call,
        made: Call,
        given: Sequence[RelayExpr],
        now: Sequence[Layout],
        first: KnownLayouts,
        second: KnownLayouts,
    ) -> LayoutValue | None:
        """Return the value of a call, `made` of the arguments given, which get the layouts that it takes."""
        wanted = iter(zip(now, second.input_layouts, strict=True))
        args = [self.fitted(arg, wanted) for arg in given]
        result: RelayExpr = Call(made.op, args, second.new_attrs, span=call.span)
        if made.op.name == "layout_transform" and second.input_layouts == second.output_layouts:
            result = args[0]
        try:
            type_of(result)
        except TypeCheckError:
            if made.op.same_as(call.op) and made.attrs is not second.new_attrs:
                return None  # the operator knows no such layout, and takes what the program has
            raise
        return _value(call, result, first, second)

    def fitted(self, arg: RelayExpr, wanted: Iterator[tuple[Layout, Layout]]) -> RelayExpr:
        """Return an argument whose tensors have the layouts that are wanted of them, each after the one that it has."""
        if isinstance(arg, Tuple):
            return Tuple([self.fitted(field, wanted) for field in arg.fields])
        have, takes = next(wanted)
        return self.layouts.transformed(arg, have, takes)


def _value(call: Call, result: RelayExpr, first: KnownLayouts, second: KnownLayouts) -> LayoutValue:
    """Return the value of a call that is `result` now."""
    outs = list(zip(first.output_layouts, second.output_layouts, strict=True))
    ty = type_of(call)
    if not isinstance(ty, TupleType):
        return Converted(result, *outs[0])
    fields = []
    for i, (old, new) in enumerate(outs):
        field = TupleGetItem(result, i)
        field.checked_type_ = type_of(result).fields[i]
        fields.append(Converted(field, old, new))
    return Several(fields, result)


def _with_attrs(call: Call, attrs: Attrs | None) -> Call:
    """Return a call with attributes, which mostly are its own."""
    own = call.attrs
    is_own = own is None if attrs is None else own is not None and own.same_as(attrs)
    return call if is_own else Call(call.op, list(call.args), attrs, span=call.span)


def _typed(expr: Call, original: Call) -> Call:
    for arg in expr.args:
        type_of(arg)
    expr.checked_type_ = type_of(original)
    return expr


def _flat(ty: Type) -> list[Type]:
    return list(ty.fields) if isinstance(ty, TupleType) else [ty]


def _fields(args: Sequence[RelayExpr]) -> list[RelayExpr]:
    """Return arguments with the fields of tuples in their places."""
    return [field for arg in args for field in (arg.fields if isinstance(arg, Tuple) else [arg])]


def _regrouped(flat: Sequence[RelayExpr], values: Sequence[LayoutValue]) -> list[RelayExpr]:
    """Return arguments from a list in which the fields of tuples stand one by one."""
    rest, args = iter(flat), []
    for value in values:
        args.append(Tuple([next(rest) for _ in value.fields]) if isinstance(value, Several) else next(rest))
    return args


def _for_script(layouts: Sequence[Layout | None] | None) -> list[Any] | None:
    """Return layouts as scripts know them."""
    return None if layouts is None else [None if each is None else slayout(each.text) for each in layouts]


def placeholders(call: Call) -> list[te.Tensor]:
    """Return a TE placeholder for each tensor that a typed call takes; unknown dimensions are symbols."""
    types = [t for arg in call.args for t in _flat(type_of(arg))]
    tensors = [ty for ty in types if isinstance(ty, TensorType)]
    return [te.placeholder([_size(d) for d in ty.shape], ty.dtype) for ty in tensors]


def _size(dim: Dim) -> tvm.ir.Expr:
    return tirx.Var("any_dim", "int64") if isinstance(dim, UnknownDim) else dims.as_expr(dim)
