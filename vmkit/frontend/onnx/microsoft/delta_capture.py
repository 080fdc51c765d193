"""What the first steps of a gated delta network do to its states, so that a state can be brought to any of them."""

from __future__ import annotations

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Expr, dims
from ..context import Context
from ..operators.conversion import casted
from ..typing import typed

__all__ = ["DeltaHeads", "FirstSteps"]

_FLOAT = "float32"


@dataclass(frozen=True)
class DeltaHeads:
    """How many heads queries and values have, and their widths."""

    queries: int
    values: int
    inner: int
    width: int


@dataclass(frozen=True)
class FirstSteps:
    """The first steps of each request, as many as a capacity, of which so many are captured as counts say.

    Nothing is where a request is shorter than that, or where `active` is given and 0.
    """

    ctx: Context
    heads: DeltaHeads
    capacity: int
    lengths: Expr
    counts: Expr
    active: Expr | None

    def captured(self, state: Expr, given: tuple[Expr, Expr], factor: Expr | None, speed: Expr | None) -> Expr:
        """Return of each request what the states decay by, the keys and what is added, zeros behind the last."""
        ctx, (keys, values) = self.ctx, given
        apart, kept = self.heads.values // self.heads.queries, self._kept(values)
        wide = self.heads.inner if factor is not None and dims.equal(ctx.shape(typed(factor))[3], 1) is not True else 1
        found: list[list[Expr]] = [[], [], []]
        for step in range(self.capacity):
            key, value = (self._at(v, step) for v in (keys, values))
            if factor is not None:
                state = relay.multiply(state, relay.expand_dims(self._at(factor, step), 3))
            own = relay.expand_dims(key if apart == 1 else relay.repeat(key, apart, 1), 3)
            added = value
            if speed is not None:
                added = relay.subtract(value, relay.sum(relay.multiply(state, own), [2]))
                added = relay.multiply(added, relay.expand_dims(self._at(speed, step), 2))
            state = relay.add(state, relay.multiply(own, relay.expand_dims(added, 2)))
            ones = ctx.constant([[[1.0]]], _FLOAT)
            here = relay.take(kept, ctx.constant(step, "int64"), axis=1)
            row = [ones if factor is None else self._at(factor, step), key, added]
            sizes = [(self.heads.values, wide), (self.heads.queries, self.heads.inner)]
            sizes.append((self.heads.values, self.heads.width))
            for collected, part, (count, width) in zip(found, row, sizes, strict=True):
                masked = relay.where(relay.expand_dims(here, 1, 2), part, ctx.constant(0, _FLOAT))
                spread = relay.broadcast_to(masked, [ctx.shape(typed(state))[0], count, width])
                collected.append(relay.reshape(spread, [0, -1]))
        return relay.concatenate([part for collected in found for part in collected], 1)

    def _at(self, x: Expr, step: int) -> Expr:
        """Return what belongs to a step, that of the last one if there are fewer."""
        return relay.take(x, self.ctx.constant(step, "int64"), axis=1, mode="clip")

    def _kept(self, values: Expr) -> Expr:
        """Return which of the first tokens are captured: bool (requests, capacity)."""
        ctx, steps = self.ctx, self.ctx.positions(self.capacity, "int64")
        some = relay.expand_dims(relay.minimum(casted(ctx, self.counts, "int64"), self.lengths), 1)
        if self.active is not None:
            is_active = relay.not_equal(casted(ctx, self.active, "int64"), ctx.constant(0, "int64"))
            some = relay.where(is_active, some, ctx.constant(0, "int64"))
        return typed(relay.less(steps, some))
