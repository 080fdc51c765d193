"""What a text begins with, and what a decoder in the form of GPT-2 is told of it while the text grows."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from tvm import tirx

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..known import constant
from ..run_time_axes import pinned, size_along
from ..scope import Scope
from ..typing import typed
from .token_scores import Text, before, begun_text

__all__ = ["Prompt", "require_room", "require_rows"]


@dataclass(frozen=True)
class Prompt:
    """Rows of tokens, some of them padding.

    Attributes
    ----------
    ids : Expr
        The tokens, int32 (rows, tokens).
    positions : Expr
        The position of each token in its row, padding not counted; int32 (rows, tokens).
    mask : Expr
        Which tokens are attended to, int32 (rows, tokens).
    next_position : Expr
        The position of what follows, int32 (rows,).
    length : Expr
        How many tokens a row has with padding, an int64 scalar.
    """

    ids: Expr
    positions: Expr
    mask: Expr
    next_position: Expr
    length: Expr

    @classmethod
    def of(cls, ctx: Context, ids: Expr, mask: Expr | None, pad: int, places: Expr) -> Prompt:
        """Return the prompt that tokens are; all but the token `pad` is attended to unless a mask is given.

        The run fails where there is no token, or no room for another among `places`, a vector of the longest length.
        """
        require_rows(ctx, ids, mask)
        ids = require_room(ctx, ids, places)
        words = relay.cast(relay.not_equal(ids, constant(np.int32(pad))), "int32")
        mask = words if mask is None else mask
        positions = relay.multiply(words, relay.cumsum(words, axis=1, exclusive=True))
        length = size_along(ctx, ids, 1)
        mask = pinned(ctx, typed(mask), ctx.shape(ids))
        return cls(ids, typed(positions), typed(mask), typed(relay.sum(words, [1])), typed(length))

    def inside(self, scope: Scope) -> Prompt:
        """Return the prompt as it is seen inside a loop."""
        return replace(self, **{f.name: scope.take(getattr(self, f.name), f.name) for f in fields(self)[2:]})

    def repeated(self, rows: Expr) -> Prompt:
        """Return the prompt of which each row is the one of a number in `rows`."""
        taken = {f.name: typed(relay.take(getattr(self, f.name), rows, axis=0)) for f in fields(self)[:4]}
        return replace(self, **taken)

    def text(self, places: Expr, pad: int) -> Text:
        """Return a text that begins so, with room up to the longest length, filled with padding."""
        return begun_text(self.ids, self.length, places, pad)

    # -- in an iteration, which is for the token at `position` after the first new one

    def position_at(self, position: Expr) -> Expr:
        """Return the position of the last token, (rows, 1)."""
        return relay.expand_dims(relay.add(self.next_position, relay.cast(position, "int32")), 1)

    def mask_after(self, ctx: Context, past: Expr) -> Expr:
        """Return the mask of the past and of the last token."""
        size = ctx.shape(past)[3]
        if dims.is_any(size):
            ctx.fail(f"the past is {ctx.type(past)}, whose length has no name")
        places = ctx.positions(dims.add(size, 1), "int64")
        own = relay.take(self.mask, before(places, self.length), axis=1)
        is_own = relay.expand_dims(relay.less(places, self.length), 0)
        return typed(relay.where(is_own, own, constant(np.int32(1))))


def require_rows(ctx: Context, ids: Expr, mask: Expr | None) -> None:
    """Refuse tokens that are not in rows, and a mask that is not of their form."""
    if ctx.rank(ids) != 2 or ctx.dtype(ids) != "int32":
        ctx.fail(f"input_ids is {ctx.type(ids)}; expected int32 (rows, tokens)")
    if mask is not None and (ctx.rank(mask) != 2 or ctx.dtype(mask) != "int32"):
        ctx.fail(f"attention_mask is {ctx.type(mask)}; expected int32 of the shape of input_ids, {ctx.type(ids)}")


def require_room(ctx: Context, ids: Expr, places: Expr) -> Expr:
    """Return tokens (rows, tokens) after a check that there is one in each row, and room for one more in `places`."""
    have, most = ctx.shape(ids)[1], ctx.shape(places)[0]
    if isinstance(have, int) and isinstance(most, int):
        if not 0 < have < most:
            ctx.fail(f"max_length is {most}; it must be greater than the length of the prompt, {have}, at least 1")
        return ids
    message = "max_length must be greater than the length of the prompt, which has at least one token"
    fits = tirx.all(dims.as_expr(have) > 0, dims.as_expr(have) < dims.as_expr(most))
    condition = dims.select(fits, 1, 0)
    return typed(build("require", ids, condition=condition, message=f"{ctx.node.op_type}: {message}"))
