"""Which nodes of a model a kernel is for: the places in the spans of calls, kept through TVM's passes.

Lowering gives calls of kernels the places of what they were made of, where that is asked for
(:mod:`vmkit.relay.ir.places`). TVM's passes keep spans except where they make other calls: of operators that become
kernels, and of kernels that become one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import tvm
from tvm import ir, relax

from ..relay.ir.places import joined, place_text, places_in
from .rewrite import bindings_of, nested_bindings, on_bindings, on_functions, retyped_call, with_branches

__all__ = ["keeping_places", "nodes_of_kernels"]

Places: TypeAlias = "ir.Span | ir.SequentialSpan | None"


def keeping_places(change: tvm.transform.Pass) -> tvm.transform.Pass:
    """Return a pass that does what another does, and gives the calls that it makes the places of those before.

    A call has that of the call which the same variable was bound to. A call of a group of operators has those of all
    calls that it stands for; groups that are alike are one function, so this is told by what is computed.
    """

    def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        before = {gvar.name_hint: function for gvar, function in mod.functions.items() if _is_outside(function)}
        made = change(mod)
        groups = {gvar: function for gvar, function in made.functions.items() if _is_group(function)}

        def with_places(gvar: ir.GlobalVar, function: relax.Function) -> relax.SeqExpr | None:
            old = before.get(gvar.name_hint)
            if old is None or gvar in groups:
                return None
            found = _of_groups(old, function, groups) if groups.keys() - set(mod.get_global_vars()) else {}
            found |= {binding.var: binding.value.span for binding in nested_bindings(old.body) if _is_call(binding)}
            return _with_places(function.body, found)

        return on_functions(made, with_places)

    return tvm.transform.module_pass(run, opt_level=0, name=str(change.info.name))


def nodes_of_kernels(mod: tvm.IRModule) -> dict[str, list[str]]:
    """Return the nodes that each call of a kernel is for, by the kernel's name: calls in the order of the program.

    What is called in several functions or branches may be any of these calls when the program runs, and has one text
    for all of them.
    """
    found: dict[str, list[tuple[relax.SeqExpr, str]]] = {}
    for function in filter(_is_outside, mod.functions.values()):
        for sequence in _sequences(function.body):
            for call in (binding.value for binding in bindings_of(sequence) if _is_call(binding)):
                kernel = call.args[0] if str(getattr(call.op, "name", "")).startswith("relax.call_tir") else None
                if isinstance(kernel, ir.GlobalVar):
                    nodes = ", ".join(map(place_text, places_in(call.span)))
                    found.setdefault(kernel.name_hint, []).append((sequence, nodes))
    return {name: _in_order(calls) for name, calls in found.items()}


def _in_order(calls: list[tuple[relax.SeqExpr, str]]) -> list[str]:
    nodes = [each for _, each in calls]
    if all(sequence.same_as(calls[0][0]) for sequence, _ in calls):
        return nodes
    return [" | ".join(dict.fromkeys(filter(None, nodes)))]


def _sequences(sequence: relax.SeqExpr) -> Iterator[relax.SeqExpr]:
    """Yield a sequence and those of its branches, and of theirs."""
    waiting = [sequence]
    while waiting:
        each = waiting.pop()
        yield each
        values = [binding.value for binding in bindings_of(each)]
        waiting += [branch for v in values if isinstance(v, relax.If) for branch in (v.false_branch, v.true_branch)]


def _is_outside(function: ir.BaseFunc) -> bool:
    return isinstance(function, relax.Function) and not _is_group(function)


def _is_group(function: ir.BaseFunc) -> bool:
    return isinstance(function, relax.Function) and "Primitive" in (function.attrs or {})


def _is_call(binding: relax.Binding) -> bool:
    return isinstance(binding.value, relax.Call)


def _with_places(sequence: relax.SeqExpr, places: Mapping[relax.Var, Places]) -> relax.SeqExpr:
    def placed(binding: relax.Binding) -> list[relax.Binding]:
        return [_placed(with_branches(binding, lambda branch: _with_places(branch, places)), places)]

    return on_bindings(sequence, placed)


def _placed(binding: relax.Binding, places: Mapping[relax.Var, Places]) -> relax.Binding:
    call, place = binding.value, places.get(binding.var)
    if not isinstance(call, relax.Call) or call.span is not None or place is None:
        return binding
    return relax.VarBinding(binding.var, retyped_call(call, call.args, place))


def _of_groups(
    before: relax.Function, after: relax.Function, groups: Mapping[ir.GlobalVar, relax.Function]
) -> dict[relax.Var, Places]:
    """Return the places of the calls of groups in a function, by the variables that they are bound to."""
    numbers = _Numbers()
    known: dict[int, Places] = {}
    old = numbers.of_params(before)
    for binding in nested_bindings(before.body):
        old[binding.var] = number = numbers.of(binding.value, old)
        if _is_call(binding):
            known[number] = joined([known.get(number), binding.value.span])
    new, found = numbers.of_params(after), {}
    for binding in nested_bindings(after.body):
        call = binding.value
        group = groups.get(call.op) if isinstance(call, relax.Call) else None
        if group is None:
            new[binding.var] = numbers.of(call, new)
            continue
        inside = dict(zip(group.params, (numbers.of(arg, new) for arg in call.args), strict=True))
        for each in bindings_of(group.body):
            inside[each.var] = numbers.of(each.value, inside)
        new[binding.var] = numbers.of(group.body.body, inside)
        found[binding.var] = joined(known.get(inside[each.var]) for each in bindings_of(group.body))
    return found


class _Numbers:
    """Numbers values: those that are computed in the same way of the same have the same."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._fields: dict[int, tuple[int, ...]] = {}

    def of_params(self, function: relax.Function) -> dict[relax.Var, int]:
        """Return the numbers of a function's parameters."""
        return {param: self._number("parameter", place) for place, param in enumerate(function.params)}

    def of(self, value: relax.Expr, known: Mapping[relax.Var, int]) -> int:
        """Return the number of a value that is computed from what is known."""
        match value:
            case relax.Var() if value in known:
                return known[value]
            case relax.Tuple():
                fields = tuple(self.of(field, known) for field in value.fields)
                number = self._number("tuple", fields)
                self._fields[number] = fields
                return number
            case relax.TupleGetItem():
                whole = self.of(value.tuple_value, known)
                fields = self._fields.get(whole, ())
                return fields[value.index] if fields else self._number("field", whole, value.index)
            case relax.Call():
                called = self.of(value.op, known)
                return self._number("call", called, tuple(self.of(a, known) for a in value.args), str(value.attrs))
            case relax.If():
                parts = (value.cond, value.true_branch.body, value.false_branch.body)
                return self._number("if", *(self.of(part, known) for part in parts))
        if isinstance(value, relax.ShapeExpr) or isinstance(getattr(value, "ty", None), relax.ShapeType | ir.PrimType):
            # Sizes have other variables inside of a group, and belong to the tensors beside them.
            return self._number("size")
        return self._number("value", value)

    def _number(self, *key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
