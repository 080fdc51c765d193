"""Tensors of batch, spatial, channels, which onnxruntime's layout transformations make."""

from __future__ import annotations

from collections.abc import Callable

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.pooling import max_pool
from ..registry import converter
from ..window import Window

__all__ = ["channels_first", "channels_last", "over_channels_last"]


def channels_first(ctx: Context, x: Expr) -> Expr:
    """Return a tensor of batch, spatial, channels as one of batch, channels, spatial."""
    rank = ctx.rank(x)
    return relay.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def channels_last(ctx: Context, x: Expr) -> Expr:
    """Return a tensor of batch, channels, spatial as one of batch, spatial, channels."""
    return relay.transpose(x, [0, *range(2, ctx.rank(x)), 1])


def over_channels_last(ctx: Context, compute: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """Return a function of a tensor of batch, channels, spatial as one of a tensor whose channels come last."""
    return lambda x: channels_last(ctx, compute(channels_first(ctx, x)))


@converter("NhwcMaxPool", domain="com.microsoft")
def channels_last_max_pool(ctx: Context, x: Expr, *, window: Window, ceil_mode: int = 0) -> Expr:
    def pooled(value: Expr) -> Expr:
        result = max_pool(ctx, value, window=window, ceil_mode=ceil_mode)[0]
        assert result is not None
        return result

    return over_channels_last(ctx, pooled)(x)
