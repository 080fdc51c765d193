"""The convolution in front of linear attention, over tokens of several requests one behind the other."""

from __future__ import annotations

from functools import reduce

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.conversion import casted
from ..registry import converter
from .ragged import Ragged

_MOST_CAPTURED = 8


@converter("VarlenCausalConvWithState", domain="com.microsoft")
def packed_causal_convolution(
    ctx: Context,
    x: Expr,
    weight: Expr,
    ends: Expr,
    bias: Expr | None,
    past: Expr,
    capture_count: Expr | None = None,
    kernel_delta: Expr | None = None,
    previous_mask: Expr | None = None,
    *,
    activation: str = "none",
    dilation: int = 1,
    state_update_capacity: int = 0,
    delta_offset: int = 0,
    group_size: int = 1,
) -> list[Expr | None]:
    """Each channel by itself, over the tokens of its request and what was before; the state is the end of both."""
    if kernel_delta is not None or previous_mask is not None:
        ctx.fail("kernel_delta and previous_mask are not supported; write the two taps as products and a sum")
    if activation not in ("none", "silu", "swish") or dilation < 1:
        ctx.fail(f"activation is {activation!r}, none, silu or swish; dilation is {dilation}, at least 1")
    check_capture(ctx, capture_count, state_update_capacity)
    taps = ctx.shape(weight)[2]
    if not isinstance(taps, int):
        ctx.fail(f"the length of the kernel is not known at import: the weight is {ctx.type(weight)}")
    slots = (taps - 1) * dilation
    requests = Ragged(ctx, x, ends, past)
    rows = casted(ctx, x, "float32")
    before = casted(ctx, relay.transpose(past, [0, 2, 1]), "float32")
    table = requests.table(rows, before, slots) if slots else rows
    factors = relay.split(casted(ctx, relay.squeeze(weight, [1]), "float32"), taps, axis=1) if taps > 1 else [weight]
    parts = []
    for tap, factor in enumerate(factors):
        shift = slots - tap * dilation
        moved = relay.take(table, requests.before(shift, slots), axis=0) if shift else rows
        parts.append(relay.multiply(moved, relay.reshape(casted(ctx, factor, "float32"), [1, -1])))
    total = reduce(relay.add, parts)
    if bias is not None:
        total = relay.add(total, casted(ctx, bias, "float32"))
    if activation != "none":
        total = relay.multiply(total, relay.sigmoid(total))
    state = past
    if slots:
        state = casted(
            ctx, relay.transpose(relay.take(table, requests.last(slots), axis=0), [0, 2, 1]), ctx.dtype(past)
        )
    captured = None
    if capture_count is not None:
        captured = _first_tokens(ctx, requests, x, capture_count, state_update_capacity)
    return [casted(ctx, total, ctx.dtype(x)), state, captured]


def check_capture(ctx: Context, count: Expr | None, capacity: int) -> None:
    """Raise ModelError when what is captured of a call, and how much room there is for it, do not agree."""
    if not 0 <= capacity <= _MOST_CAPTURED:
        ctx.fail(f"state_update_capacity is {capacity}; it is 0 to {_MOST_CAPTURED}")
    if (count is not None) != (capacity > 0):
        ctx.fail(f"state_update_capacity is {capacity}; capture_count is given where it is not 0, and only there")


def _first_tokens(ctx: Context, requests: Ragged, x: Expr, counts: Expr, capacity: int) -> Expr:
    """Return so many of the first tokens of each request: (requests, capacity, channels), zeros for the others."""
    places = relay.add(relay.expand_dims(requests.starts, 1), ctx.positions(capacity, "int64"))
    kept = relay.expand_dims(requests.captured(counts, capacity), 2)
    return relay.where(kept, relay.take(x, places, axis=0), ctx.constant(0, ctx.dtype(x)))
