"""Tokens of several requests one behind the other: which request each is of, and what stands before it there."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..context import Context
from ..operators.conversion import casted
from ..operators.layout import to_shape
from ..run_time_axes import pinned, positions_along, size_along
from ..typing import typed

__all__ = ["Ragged"]


class Ragged:
    """Requests that lie one behind the other in a tensor, each from where the one before ends.

    Attributes
    ----------
    batch : int, symbolic or Any
        How many requests there are.
    owner, local : Expr
        The request of every token, and its place in it; int64 (tokens,).
    starts, lengths : Expr
        Where each request begins, and how many tokens it has; int64 (requests,).
    """

    def __init__(self, ctx: Context, tokens: Expr, ends: Expr, like: Expr | None = None, axis: int = 0) -> None:
        """Read where requests end.

        Parameters
        ----------
        ctx : Context
            The node.
        tokens : Expr
            A tensor whose first dimension is all tokens.
        ends : Expr
            0, and the place behind the last token of each request: (requests + 1,).
        like : Expr, optional
            A tensor one of whose dimensions, that of `axis`, is the requests.
        """
        if ctx.rank(ends) != 1:
            ctx.fail(f"the ends of the sequences are {ctx.type(ends)}; they are a vector, the first of them 0")
        self.ctx = ctx
        one, zero = ctx.constant(1, "int64"), ctx.constant(0, "int64")
        self.count = size_along(ctx, tokens, 0)
        limits = casted(ctx, ends, "int64")
        number = relay.subtract(size_along(ctx, limits, 0), one)
        steps = relay.subtract(relay.strided_slice(limits, [1], [_FAR]), relay.strided_slice(limits, [0], [-1]))
        first, last = (relay.take(limits, at, axis=0) for at in (zero, number))
        fits = relay.logical_and(
            relay.logical_and(relay.equal(first, zero), relay.equal(last, self.count)),
            relay.all(relay.greater_equal(steps, zero)),
        )
        what = "ends of sequences begin with 0, none is smaller than the one before, the last is the number of tokens"
        limits = typed(build("dyn.require", limits, fits, message=f"{ctx.node.op_type}: {what}"))
        dim: Dim = dims.sub(ctx.shape(ends)[0], 1) if like is None else ctx.shape(like)[axis]
        self.batch = dim
        self.starts = pinned(ctx, typed(relay.strided_slice(limits, [0], [-1])), [dim])
        stops = pinned(ctx, typed(relay.strided_slice(limits, [1], [_FAR])), [dim])
        self.lengths = relay.subtract(stops, self.starts)
        self.places = positions_along(ctx, tokens, 0)
        self.owner = relay.searchsorted(stops, self.places, right=True, dtype="int64")
        self.local = relay.subtract(self.places, relay.take(self.starts, self.owner, axis=0))

    def table(self, tokens: Expr, past: Expr, slots: int) -> Expr:
        """Return the rows of all tokens (tokens, ...), and behind them what was before: (requests, slots, ...)."""
        rest = self.ctx.shape(tokens)[1:]
        flat = to_shape(past, [dims.mul(self.batch, slots), *rest])
        return relay.concatenate([tokens, flat], 0)

    def before(self, shift: Dim, slots: int) -> Expr:
        """Return where in the table that stands which is so many places before each token."""
        if shift == 0:
            return self.places
        moved = relay.subtract(self.local, self.ctx.constant(shift, "int64"))
        return self._at(moved, self.owner, relay.take(self.starts, self.owner, axis=0), slots)

    def last(self, slots: int) -> Expr:
        """Return where in the table the last rows of each request are: (requests, slots)."""
        return self.until(self.lengths, slots)

    def until(self, ends: Expr, slots: int) -> Expr:
        """Return where the rows before a place of each request are; ends (requests, ...) to (requests, ..., slots)."""
        rank = self.ctx.rank(typed(ends))
        back = relay.subtract(self.ctx.positions(slots, "int64"), self.ctx.constant(slots, "int64"))
        moved = relay.add(relay.expand_dims(ends, rank), back)
        requests = relay.expand_dims(self.ctx.positions(self.batch, "int64"), 1, rank)
        return self._at(moved, requests, relay.expand_dims(self.starts, 1, rank), slots)

    def _at(self, local: Expr, owner: Expr, start: Expr, slots: int) -> Expr:
        """Return places in the table from those in requests, negative ones of which are of what was before."""
        number = self.ctx.constant(slots, "int64")
        behind = relay.add(relay.add(self.count, relay.multiply(owner, number)), relay.add(local, number))
        return relay.where(relay.less(local, self.ctx.constant(0, "int64")), behind, relay.add(start, local))

    def captured(self, counts: Expr, capacity: int) -> Expr:
        """Return which of the first tokens of each request are captured: bool (requests, capacity)."""
        some = relay.minimum(casted(self.ctx, counts, "int64"), self.lengths)
        return relay.less(self.ctx.positions(capacity, "int64"), relay.expand_dims(some, 1))


_FAR = 2**31 - 1
