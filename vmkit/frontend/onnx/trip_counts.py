"""What the number of iterations of a loop says: conditions that say no more, and the ends of what counts iterations.

A loop over the steps of a sequence has a number of iterations, and where it was written as "while i < n" a condition
besides, over a counter that it carries. TensorFlow's loops come so, with the counter compared as a float. Without the
condition the number of rows to be stacked is known before the loop, and an iteration need not compute it. An index
that counts iterations lies on an axis of as many elements without a look.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from tvm import tirx
from tvm.sym import Analyzer

from ... import relay
from ...relay.ir import Dim, Expr, TensorType, Var, dims, is_call
from .capture import Capture
from .context import Context
from .known import constant, is_symbolic, sizes
from .typing import typed

if TYPE_CHECKING:
    from .iteration import Loop, Step

__all__ = ["TripCount", "ends_of"]


class TripCount:
    """The number of iterations of a loop, and what scalars of an iteration are beside it.

    Parameters
    ----------
    ctx : Context
        The node.
    loop, step : Loop, Step
        The loop, and what an iteration of it gives.
    position, formals : Var, sequence of Var
        The number of the iteration, and the carried values, as the iteration sees them.
    capture : Capture
        What the iteration takes from around the loop.

    Attributes
    ----------
    starts : dict of int to int
        What each carried value that an iteration adds 1 to is in the first one, by which carried value it is.
    """

    def __init__(
        self, ctx: Context, loop: Loop, step: Step, position: Var, formals: Sequence[Var], capture: Capture
    ) -> None:
        self.ctx, self.loop, self.step, self.position = ctx, loop, step, position
        self.formals, self.capture = list(formals), capture
        starts = {i: ctx.scalar(state) for i, state in enumerate(loop.states) if self.is_counted(i)}
        self.starts = {i: start for i, start in starts.items() if type(start) is int}

    def counted(self) -> Loop | None:
        """Return the loop with the number of iterations that its condition is for; None if it has one, or finds none.

        A condition "counter < limit" is for one, of which the limit is a value from around the loop.
        """
        if self.loop.count is not None or self.step.go is None:
            return None
        for below, above in _comparisons(self.step.go):
            offset, limit = self.offset(below), self.outside(above)
            if offset is not None and limit is not None and self.ctx.scalar(_uncast(below)) is None:
                # Iteration p + 1 is begun if p + offset < limit.
                return self.with_limit(limit, offset - 1)
        return None

    def with_limit(self, limit: Expr, fewer: int) -> Loop:
        """Return the loop with a number of iterations, that many `fewer` than a limit."""
        many = replace(self.loop, go=None, count=self.number(limit, fewer, 0))
        start = self.loop.go
        if start is not None and self.with_loop(many).is_below(start, 0) and self.needs(start, limit, fewer):
            return many
        # The first iteration is not asked, but by what the loop has for its beginning.
        return replace(self.loop, count=self.number(limit, fewer, 1))

    def with_loop(self, loop: Loop) -> TripCount:
        """Return the same of another loop that has this one's body."""
        return TripCount(self.ctx, loop, self.step, self.position, self.formals, self.capture)

    def number(self, limit: Expr, fewer: int, least: int) -> Expr:
        """Return a limit less a number, and no less than another, as an int64 scalar."""
        known = self.ctx.dims(limit)
        if known is not None:
            many = dims.sub(known[0], fewer)
            return sizes(np.array(many if dims.at_least(many, least) else dims.maximum(many, least), dtype=object))
        less = relay.cast(limit, "int64")
        if fewer:
            less = relay.subtract(less, constant(np.int64(fewer)))
        return typed(relay.maximum(less, constant(np.int64(least))))

    def needs(self, start: Expr, limit: Expr, fewer: int) -> bool:
        """Say whether a loop is only begun where a limit is more than a number."""
        known, most = self.size(start), self.size(limit)
        if known is not None and most is not None:
            analyzer = Analyzer()
            with analyzer.constraint_scope(most <= fewer):
                return bool(analyzer.can_prove(known == 0))
        numbers = (self.ctx.scalar(_uncast(b)) for b, a in _comparisons(start) if _uncast(a).same_as(limit))
        return any(number is not None and number >= fewer for number in numbers)

    def outside(self, value: Expr) -> Expr | None:
        """Return what an integer of an iteration is around the loop; None if an iteration computes it."""
        value = _uncast(value)
        found = self.capture.around(value)
        if found is None and self.ctx.dims(value) is not None:
            found = value
        ty = None if found is None else typed(found).checked_type_
        if found is None or not isinstance(ty, TensorType) or ty.shape:
            return None
        return _uncast(found) if is_symbolic(found) or ty.dtype in ("int32", "int64") else None

    def without_conditions(self) -> tuple[Loop, Step]:
        """Return the loop and its step without the conditions that the number of iterations implies."""
        loop, step = self.loop, self.step
        # Iteration p + 1 is begun if p + 1 < count: said after iteration p that is nothing new, and p < count is less.
        if step.go is not None and self.is_below(step.go, 1):
            step = replace(step, go=None)
        if loop.go is not None and self.is_below(loop.go, 0):
            loop = replace(loop, go=None)
        return loop, step

    def is_below(self, condition: Expr, most: int) -> bool:
        """Say whether a condition is certain where the position plus `most` is less than the loop's count."""
        if self.loop.count is None:
            return False
        if is_call(condition, "logical_and"):
            return all(self.is_below(part, most) for part in condition.args)
        if is_call(condition, "greater", "greater_equal"):
            above, below = condition.args
        elif is_call(condition, "less", "less_equal"):
            below, above = condition.args
        else:
            return self.is_known(condition, most)
        offset = self.offset(below)
        if offset is None or not self.is_count(above, most):
            return False
        return offset <= most + is_call(condition, "less_equal", "greater_equal")

    def is_known(self, condition: Expr, most: int) -> bool:
        """Say whether a condition over sizes is certain where the loop's count, over sizes too, is more than `most`."""
        known, count = self.size(condition), self.size(self.loop.count)
        if known is None or count is None:
            return False
        analyzer = Analyzer()
        with analyzer.constraint_scope(count > most):
            return bool(analyzer.can_prove(known != 0))

    def size(self, value: Expr | None) -> tirx.Expr | None:
        """Return what a scalar is, as an expression over sizes; None if it is none."""
        known = self.ctx.dims(value)
        return None if known is None or dims.is_any(known[0]) else dims.as_expr(known[0])

    def offset(self, value: Expr) -> int | None:
        """Return what a scalar is more than the position of the iteration, or no more than; None if unknown."""
        value = _uncast(value)
        known = self.ctx.scalar(value)
        if known is not None:
            # What is no more than the first position is no more than any.
            return math.ceil(known) if known <= 0 else None
        if value.same_as(self.position):
            return 0
        if is_call(value, "add"):
            for one, other in (value.args[:2], value.args[1::-1]):
                added = self.ctx.scalar(other)
                offset = self.offset(one) if type(added) is int and self.ctx.scalar(one) is None else None
                if offset is not None:
                    return offset + int(added or 0)
        index = self.carried(value)
        return None if index is None else self.starts.get(index)

    def is_counted(self, index: int) -> bool:
        """Say whether an iteration adds 1 to a carried value."""
        formal, following = self.formals[index], self.step.states[index]
        return (
            is_call(following, "add")
            and _counts(formal)
            and any(
                one.same_as(formal) and self.ctx.scalar(other) == 1
                for one, other in (following.args[:2], following.args[1::-1])
            )
        )

    def carried(self, value: Expr) -> int | None:
        """Return which carried value an expression is; None if none."""
        return next((i for i, formal in enumerate(self.formals) if formal.same_as(value)), None)

    def is_count(self, value: Expr, most: int) -> bool:
        """Say whether a scalar is the loop's number of iterations, or one that is more than `most` if that is."""
        value = _uncast(value)
        around = self.capture.around(value)
        value = value if around is None else _uncast(around)
        assert self.loop.count is not None
        count = _uncast(self.loop.count)
        if is_call(count, "maximum") and (self.ctx.scalar(count.args[1]) or 0) <= most:
            count = _uncast(count.args[0])
        if value.same_as(count):
            return True
        known, wanted = self.ctx.dims(value), self.ctx.dims(count)
        return known is not None and wanted is not None and dims.equal(known[0], wanted[0]) is True


def ends_of(
    ctx: Context, loop: Loop, position: Var, formals: Sequence[Var], starts: Mapping[int, int]
) -> dict[Var, Dim]:
    """Return what the position, and carried values that count on from `starts`, are less than; none is less than 0.

    There is nothing where the number of iterations is neither a number nor a size.
    """
    count = ctx.dims(loop.count)
    if count is None or dims.is_any(count[0]):
        return {}
    return {position: count[0], **{formals[i]: dims.add(count[0], start) for i, start in starts.items() if start >= 0}}


def _comparisons(condition: Expr) -> list[tuple[Expr, Expr]]:
    """Return pairs of which the first is to be less than the second where a condition holds."""
    if is_call(condition, "logical_and"):
        return [pair for part in condition.args for pair in _comparisons(part)]
    if is_call(condition, "less", "greater"):
        below, above = condition.args[:: 1 if is_call(condition, "less") else -1]
        return [(below, above)]
    return []


def _uncast(value: Expr) -> Expr:
    """Return a number before it became one of another type of those that count exactly."""
    while is_call(value, "cast") and _counts(value) and _counts(value.args[0]):
        value = value.args[0]
    return value


def _counts(value: Expr) -> bool:
    """Say whether numbers are of a type that counts iterations: float32 does to 16 million."""
    ty = typed(value).checked_type_
    return isinstance(ty, TensorType) and ty.dtype in ("int32", "int64", "float32", "float64")
