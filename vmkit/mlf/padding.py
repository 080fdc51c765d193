"""Sums without the terms that padding gives: loops run from where a condition begins to hold to where it ends.

A convolution that pads its input asks for each term whether it lies inside. What lies outside adds zero, so that the
loop over the window may as well leave it out, and its bounds are computed once for all its turns. That holds where
what zero is multiplied by is a finite number.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from .._dataclasses import dataclass
from .._tvm.nodes import TensorLoad, is_choice
from ..relay.op.ordering import has_nan
from ..schedule.expressions import conjuncts, known, stride, uses
from .buffers import buffer_homes

__all__ = ["without_padding_terms"]


def without_padding_terms(body: tirx.Stmt, finite: frozenset[tvm.ir.Var]) -> tirx.Stmt:
    """Return a kernel of flat buffers whose loops leave out terms that are zero whatever else is read.

    Parameters
    ----------
    finite
        The buffers of floats that hold finite numbers, such as constant weights.
    """
    home = buffer_homes(body)
    known_finite = finite | {buffer for buffer, of in home.items() if of in finite}

    def shortened(loop: tirx.For) -> tirx.Stmt:
        return _shortened(loop, known_finite)

    return tvm_ffi.structural_map(body, (tirx.For, shortened))


@dataclass(frozen=True)
class _Bound:
    """A condition of the terms of a loop, as the first turn for which it holds, or the one after the last."""

    condition: tirx.Expr
    first: tirx.Expr | None
    end: tirx.Expr | None


def _shortened(loop: tirx.For, finite: frozenset[tvm.ir.Var]) -> tirx.For:
    if loop.kind != tirx.ForKind.SERIAL or known(loop.min) != 0 or known(loop.extent) is None:
        return loop
    leaves = list(_leaves(loop.body))
    inner = [leaf for leaf in leaves if isinstance(leaf, tirx.For)]
    stores = [leaf for leaf in leaves if not isinstance(leaf, tirx.For)]
    conditions = [_conditions(store, finite) for store in stores]
    if not stores or not all(conditions):
        return loop
    bounds = [bound for each in conditions[0] if (bound := _solved(each, loop.loop_var)) is not None]
    bounds = [
        bound
        for bound in bounds
        if not any(uses(bound.condition, other.loop_var) for other in inner)
        and all(any(_is_same(bound.condition, each) for each in own) for own in conditions)
    ]
    if not bounds:
        return loop
    first, end = tirx.const(0, str(loop.extent.ty.dtype)), loop.extent
    for bound in bounds:
        first = first if bound.first is None else tirx.max(first, bound.first)
        end = end if bound.end is None else tirx.min(end, bound.end)
    analyzer = Analyzer()
    first, end = analyzer.simplify(first), analyzer.simplify(end)
    body = _without([bound.condition for bound in bounds], loop.body)
    return tirx.For(loop.loop_var, first, analyzer.simplify(end - first), loop.kind, body)


def _leaves(body: tirx.Stmt) -> Iterator[tirx.Stmt]:
    """Yield the statements of a loop, and the loops in it."""
    match body:
        case tirx.SeqStmt():
            for each in body.seq:
                yield from _leaves(each)
        case tirx.For():
            yield body
            yield from _leaves(body.body)
        case _:
            yield body


def _conditions(store: tirx.Stmt, finite: frozenset[tvm.ir.Var]) -> list[tirx.Expr]:
    """Return the conditions without each of which a statement changes nothing."""
    if not isinstance(store, tirx.BufferStore):
        return []
    choices: list[tvm.ir.Call] = []
    match store.value:
        case tirx.Add(a=a, b=b) if _is_sum(a, store):
            choices = _zeros(b, finite)
        case tirx.Add(a=a, b=b) if _is_sum(b, store):
            choices = _zeros(a, finite)
        case tirx.Max(a=a, b=b) if _is_sum(b, store) and is_choice(a) and _is_least(a.args[2]):
            choices = [a]
        case tirx.Max(a=a, b=b) if _is_sum(a, store) and is_choice(b) and _is_least(b.args[2]):
            # This way round, what is no number is replaced by what is looked at next, be it padding.
            choices = [] if has_nan(str(b.ty.dtype)) else [b]
    return [each for choice in choices for each in conjuncts(choice.args[0])]


def _is_sum(value: tirx.Expr, store: tirx.BufferStore) -> bool:
    return (
        isinstance(value, TensorLoad)
        and value.source.same_as(store.buffer)
        and all(_is_same(a, b) for a, b in zip(value.indices, store.indices, strict=True))
    )


def _zeros(term: tirx.Expr, finite: frozenset[tvm.ir.Var]) -> list[tvm.ir.Call]:
    """Return the choices of a term without which it is zero."""
    match term:
        case tirx.Cast():
            return _zeros(term.value, finite)
        case tirx.Mul():
            pairs = ((term.a, term.b), (term.b, term.a))
            return [each for a, b in pairs if _is_finite(b, finite) for each in _zeros(a, finite)]
        case _ if is_choice(term) and _is_zero(term.args[2]):
            return [term]
    return []


def _is_zero(value: tirx.Expr) -> bool:
    value = value.value if isinstance(value, tirx.Cast) else value
    return isinstance(value, tirx.IntImm | tirx.FloatImm) and value.value == 0


def _is_least(value: tirx.Expr) -> bool:
    least = tirx.min_value(str(value.ty.dtype))
    return isinstance(value, tirx.IntImm | tirx.FloatImm) and value.value == least.value


def _is_finite(value: tirx.Expr, finite: frozenset[tvm.ir.Var]) -> bool:
    """Say whether a factor makes zero of zero; padding itself is multiplied by nothing that is padded as well."""
    if not has_nan(str(value.ty.dtype)):
        return True
    if isinstance(value, tirx.Cast):
        return _is_finite(value.value, finite)
    return isinstance(value, TensorLoad) and value.source in finite


def _solved(condition: tirx.Expr, var: tirx.Var) -> _Bound | None:
    """Return a comparison as a bound of a loop's variable; None where it is none."""
    match condition:
        case tirx.LT(a=a, b=b) | tirx.GT(a=b, b=a):
            room = b - a - 1
        case tirx.LE(a=a, b=b) | tirx.GE(a=b, b=a):
            room = b - a
        case _:
            return None
    if not uses(room, var):
        return None
    quotients: list[tirx.FloorDiv] = []
    tvm_ffi.structural_walk(room, (tirx.FloorDiv, lambda q: quotients.append(q) if q.a.same_as(var) else None))
    divisor, solved_for = 1, var
    if quotients and all(known(q.b) == known(quotients[0].b) for q in quotients):
        divisor, solved_for = known(quotients[0].b) or 0, tirx.Var("quotient", str(var.ty.dtype))
        room = tvm_ffi.structural_map(room, (tirx.FloorDiv, lambda q: solved_for if q.a.same_as(var) else q))
    step = stride(room, solved_for)
    if divisor < 1 or step is None or step == 0 or (divisor > 1 and uses(room, var)):
        return None
    # The condition is step * variable + rest >= 0.
    rest = Analyzer().simplify(room - solved_for * step)
    if uses(rest, solved_for):
        return None
    if step > 0:
        return _Bound(condition, tirx.floordiv(step - 1 - rest, step) * divisor, None)
    return _Bound(condition, None, (tirx.floordiv(rest, -step) + 1) * divisor)


def _without(conditions: list[tirx.Expr], body: tirx.Stmt) -> tirx.Stmt:
    """Return statements in which conditions that hold are not asked for."""

    def choice(call: tvm.ir.Call) -> tirx.Expr:
        if not is_choice(call):
            return call
        left = [c for c in conjuncts(call.args[0]) if not any(_is_same(c, each) for each in conditions)]
        if not left:
            return call.args[1]
        return tirx.if_then_else(tirx.all(*left), call.args[1], call.args[2])

    return tvm_ffi.structural_map(body, (tvm.ir.Call, choice))


def _is_same(a: tirx.Expr, b: tirx.Expr) -> bool:
    return bool(tvm_ffi.structural_equal(a, b, map_free_vars=False))
