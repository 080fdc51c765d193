"""Iteration: a body, given as a Relay expression of one step, becomes a global function that calls itself.

The machine runs such a function as a loop in one frame. What an iteration carries to the next one is a parameter, and
so is what the body takes from around the loop. A dimension of a carried tensor that an iteration may change is a symbol
of the function; which ones these are is found by importing the body until the types stay the same. What iterations give
to be stacked is written into its place in a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import tvm_ffi

from ... import relay
from ..._dataclasses import dataclass
from ...errors import ModelError, TypeCheckError
from ...relay.ir import Any as AnyDim
from ...relay.ir import (
    Call,
    Dim,
    Expr,
    Function,
    FuncType,
    If,
    OptionalType,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    UnrankedType,
    Var,
    dims,
)
from ...relay.ir.type_solver import TypeSolver, as_unranked
from ...relay.op import build
from .capture import Capture, outward, own_symbols, parameter, sizes_carrier, symbols_of, with_symbols
from .context import Context
from .known import constant
from .ranks import MOST_DIMENSIONS, within
from .scope import Scope
from .stacking import Stack
from .trip_counts import TripCount, ends_of
from .typing import typed

__all__ = ["Loop", "Step", "iterate", "unroll"]

_INT64 = TensorType((), "int64")
_MAX_PASSES = 64


@dataclass(frozen=True)
class Step:
    """What one iteration gives.

    Attributes
    ----------
    states : list of Expr
        The carried values for the next iteration.
    rows : list of Expr
        The tensors to stack.
    go : Expr or None
        Whether to go on, a boolean scalar; None for certainly.
    """

    states: list[Expr]
    rows: list[Expr] = field(default_factory=list)
    go: Expr | None = None


@dataclass(frozen=True)
class Loop:
    """A loop to be made.

    Attributes
    ----------
    name : str
        The name of the operator, for messages and the function.
    count : Expr or None
        The greatest number of iterations, an int64 scalar; None for no limit.
    go : Expr or None
        Whether to begin, a boolean scalar; None for certainly.
    states : list of Expr
        The carried values at the start.
    state_names, row_names : sequence of str
        What messages call the carried values and the tensors to stack.
    body : callable
        ``body(scope, position, states)`` imports one iteration in a scope and returns its Step. A value from around
        the loop is seen from inside through ``scope.take``.
    row_axes : sequence of int
        The axis along which each of the tensors is stacked; 0 if not given.
    is_reversed : sequence of bool
        Whether each is stacked from the end.
    """

    name: str
    count: Expr | None
    go: Expr | None
    states: list[Expr]
    state_names: Sequence[str]
    row_names: Sequence[str]
    body: Callable[[Scope, Expr, list[Expr]], Step]
    row_axes: Sequence[int] = ()
    is_reversed: Sequence[bool] = ()

    def axis(self, index: int, row: Expr) -> int:
        """Return the axis along which a row is stacked."""
        axis = self.row_axes[index] if self.row_axes else 0
        rank = len(typed(row).checked_type_.shape) + 1
        if not -rank <= axis < rank:
            raise ModelError(f"{self.row_names[index]!r} is stacked along axis {axis} of {rank} dimensions")
        return axis % rank

    def reverses(self, row: int) -> bool:
        """Say whether a row is stacked from the end."""
        return bool(self.is_reversed) and self.is_reversed[row]


def unroll(loop: Loop, scope: Scope, count: int) -> tuple[list[Expr], list[Expr]]:
    """Return the carried values and the stacked ones of a few iterations, which are written out one by one."""
    states, rows = list(loop.states), [[] for _ in loop.row_names]  # type: list[Expr], list[list[Expr]]
    for position in range(count):
        step = loop.body(scope, constant(np.int64(position)), states)
        if step.go is not None:
            raise ModelError("the number of iterations is not known")
        states = step.states
        for collected, row in zip(rows, step.rows, strict=True):
            collected.append(row)
    stacked = []
    for index, parts in enumerate(rows):
        axis = loop.axis(index, parts[0])
        if loop.reverses(index):
            parts.reverse()
        parts = [relay.expand_dims(p, axis) for p in parts]
        stacked.append(typed(relay.concatenate(parts, axis) if len(parts) > 1 else parts[0]))
    return states, stacked


def iterate(ctx: Context, loop: Loop) -> tuple[list[Expr], list[Expr]]:
    """Return the carried values after a loop, and the stacked ones."""
    return _Iteration(ctx, loop).run()


class _Iteration:
    def __init__(self, ctx: Context, loop: Loop) -> None:
        self.ctx = ctx
        self.loop = loop
        self.types = [typed(s).checked_type_ for s in loop.states]

    def run(self) -> tuple[list[Expr], list[Expr]]:
        starts: dict[int, int] = {}
        for _ in range(_MAX_PASSES):
            self.capture = Capture(self.ctx.scope, self.ctx.importer.param_values)
            self.position = parameter("position", _INT64)
            named = zip(self.loop.state_names, self.types, strict=True)
            self.formals = [parameter(n, with_symbols(t, n)) for n, t in named]
            ends = ends_of(self.ctx, self.loop, self.position, self.formals, starts)
            self.ctx.importer.index_ends.update(ends)
            step = self.loop.body(self.capture, self.position, list(self.formals))
            self.step = Step(self.as_carried(step.states), step.rows, step.go)
            self.local = self.own_symbols()
            self.trips = TripCount(self.ctx, self.loop, self.step, self.position, self.formals, self.capture)
            wider = [self.widened(i, typed(s).checked_type_) for i, s in enumerate(self.step.states)]
            is_same = all(tvm_ffi.structural_equal(a, b) for a, b in zip(self.types, wider, strict=True))
            counted = self.trips.counted() if is_same else None
            # What the body made of where counters end holds if they are the ones.
            if is_same and counted is None and (not ends or self.trips.starts == starts):
                return self.built()
            self.loop = counted or self.loop
            self.types, starts = wider, self.trips.starts
        raise ModelError(f"the types of the values that {self.loop.name} carries grow with every iteration")

    def as_carried(self, states: Sequence[Expr]) -> list[Expr]:
        """Return values that are optional, or of no known rank, where the carried ones are."""
        return [self.one_carried(i, s) for i, s in enumerate(states)]

    def one_carried(self, index: int, state: Expr) -> Expr:
        have, carried = typed(state).checked_type_, self.types[index]
        if isinstance(carried, OptionalType) and not isinstance(have, OptionalType):
            return typed(build("optional.some", state))
        if isinstance(carried, UnrankedType):
            what = f"the value {self.loop.state_names[index]!r} that {self.loop.name} carries"
            return within(state, f"{what} gets more than {MOST_DIMENSIONS} dimensions, which are not supported")
        return state

    # -- types

    def own_symbols(self) -> set[Any]:
        """Return the symbols that only the function has: dimensions that are not known around the loop."""
        actual = [a.checked_type_ for a in self.capture.actuals]
        return own_symbols([*self.formals, *self.capture.formals], [*self.types, *actual])

    def outward(self, ty: Type) -> Type:
        """Return a type as it is known around the loop."""
        return outward(ty, self.local)

    def widened(self, index: int, new: Type) -> Type:
        """Return the type that holds what a value is before and after an iteration."""
        old, label = self.types[index], f"the value {self.loop.state_names[index]!r} that {self.loop.name} carries"
        have, gives = getattr(old, "dtype", None), getattr(new, "dtype", None)
        if None not in (have, gives) and have != gives:
            raise ModelError(f"{label} is {old} before an iteration and {new} after it: the data type changes")
        if isinstance(old, TensorType) and isinstance(new, TensorType) and len(old.shape) == len(new.shape):
            return _wider(old, new)
        if isinstance(old, TensorType | UnrankedType) and isinstance(new, TensorType | UnrankedType):
            return self.of_several_ranks(as_unranked(old), as_unranked(new))
        try:
            return TypeSolver().unify(old, self.outward(new), join=True)
        except TypeCheckError:
            raise ModelError(f"{label} is {old} before an iteration and {new} after it") from None

    def of_several_ranks(self, old: UnrankedType, new: UnrankedType) -> Type:
        """Return the type of a value that an iteration may give another rank."""
        if not old.alternatives or not new.alternatives:
            return UnrankedType(old.dtype)
        found = {len(t.shape): t for t in old.alternatives}
        for way in new.alternatives:
            rank, outer = len(way.shape), self.outward(way)
            assert isinstance(outer, TensorType)
            found[rank] = _wider(found[rank], outer) if rank in found else outer
        return UnrankedType(old.dtype, alternatives=list(found.values()))

    # -- the function

    def built(self) -> tuple[list[Expr], list[Expr]]:
        loop, step = self.trips.without_conditions()
        one, zero = constant(np.int64(1)), constant(np.int64(0))
        go = None if loop.go is None and step.go is None else parameter("go", TensorType((), "bool"))
        limit = None if loop.count is None else parameter("limit", _INT64)
        if go is None and limit is None:
            raise ModelError(f"{loop.name} never ends: it has neither a number of iterations nor a condition")
        is_exact = step.go is None and loop.go is None
        stacks = [self.stack(i, row, is_exact) for i, row in enumerate(step.rows)]
        true = constant(np.array(True))

        used = Tuple([*step.states, *step.rows, *([step.go] if step.go is not None else [])])
        own: list[Var] = [self.position, *self.formals, *(s.formal for s in stacks), *self.capture.formals]
        symbols = symbols_of(used, own)
        carrier = [parameter("sizes", TensorType([*symbols, 0], "int8"))] if symbols else []
        optional = [v for v in (go, limit) if v is not None]
        params = [self.position, *optional, *self.formals, *(s.formal for s in stacks), *self.capture.formals, *carrier]

        result = TupleType([*self.types, *(s.type for s in stacks), _INT64])
        gvar = self.ctx.importer.new_function(loop.name.lower())
        next_go = step.go if step.go is not None else true
        again = Call(gvar, [
            relay.add(self.position, one), *([next_go] if go is not None else []),
            *([limit] if limit is not None else []), *step.states, *(s.written(self.position) for s in stacks),
            *self.capture.formals, *carrier,
        ])  # fmt: skip
        again.checked_type_ = result
        conditions = [go] if go is not None else []
        if limit is not None:
            conditions.append(relay.less(self.position, limit))
        going = relay.logical_and(*conditions) if len(conditions) == 2 else conditions[0]
        body = typed(If(going, again, Tuple([*self.formals, *(s.formal for s in stacks), self.position])))
        function = Function(params, body, result)
        function.checked_type_ = FuncType([p.checked_type_ for p in params], result)
        self.ctx.importer.functions[gvar] = function

        start_go = [] if go is None else [loop.go if loop.go is not None else true]
        call = Call(gvar, [
            zero, *start_go, *([loop.count] if loop.count is not None else []), *self.as_carried(loop.states),
            *(s.start() for s in stacks), *self.capture.actuals, *([sizes_carrier(symbols)] if symbols else []),
        ])  # fmt: skip
        for argument in call.args:
            typed(argument)
        call.checked_type_ = result
        fields = [typed(TupleGetItem(call, i)) for i in range(len(result.fields))]
        count, states = fields[-1], fields[: len(self.formals)]
        rows = [s.stacked(f, count) for s, f in zip(stacks, fields[len(states) : -1], strict=True)]
        return states, rows

    def stack(self, index: int, row: Expr, is_exact: bool) -> Stack:
        ty = self.outward(typed(row).checked_type_)
        if not isinstance(ty, TensorType):
            raise ModelError(f"{self.loop.row_names[index]!r} is {ty}; only tensors can be stacked")
        known = is_exact and self.loop.count is not None and not any(dims.is_any(d) for d in ty.shape)
        length = _exact_length(self.ctx, self.loop.count) if known else None
        is_reversed = self.loop.reverses(index)
        name = f"{self.loop.row_names[index]}_of_{self.loop.name}"
        return Stack(name, row, ty, self.loop.axis(index, row), self.loop.count if known else None, length, is_reversed)


def _wider(old: TensorType, new: TensorType) -> TensorType:
    """Return the type of what has one of two types of one rank."""
    pairs = zip(old.shape, new.shape, strict=True)
    return TensorType([a if _stays(a, b) else AnyDim() for a, b in pairs], old.dtype)


def _stays(old: Dim, new: Dim) -> bool:
    return dims.is_any(old) or (not dims.is_any(new) and dims.equal(old, new) is True)


def _exact_length(ctx: Context, count: Expr | None) -> Dim:
    value = ctx.dims(count)
    if value is None:
        return AnyDim()
    return max(value[0], 0) if isinstance(value[0], int) else value[0]
