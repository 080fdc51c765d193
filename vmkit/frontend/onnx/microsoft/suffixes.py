"""Aggressive decoding: predicted tokens are taken as far as they are those of a source, which is looked up again."""

from __future__ import annotations

import numpy as np

from .... import relay
from ....relay.ir import Expr
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..run_time_axes import positions_along, size_along
from ..typing import typed

_INT = "int64"


@converter("BifurcationDetector", domain="com.microsoft")
def bifurcation_detector(
    ctx: Context,
    source: Expr,
    tokens: Expr,
    place: Expr,
    predicted: Expr | None = None,
    *,
    max_ngram_size: int = 3,
    min_ngram_size: int = 1,
) -> list[Expr]:
    """The tokens with those predicted, up to the first that is not the source's; and what follows their end there."""
    if not 1 <= min_ngram_size <= max_ngram_size:
        ctx.fail(f"min_ngram_size is {min_ngram_size} and max_ngram_size {max_ngram_size}; at least 1, and no smaller")
    if predicted is not None:
        tokens = typed(relay.concatenate([tokens, _agreed(ctx, source, place, predicted)], 0))
    found = _place_of_suffix(ctx, source, tokens, range(min_ngram_size, max_ngram_size + 1))
    return [tokens, relay.reshape_like(relay.reshape(found, [1]), place)]


def _agreed(ctx: Context, source: Expr, place: Expr, predicted: Expr) -> Expr:
    """Return the first predicted tokens: those that the source has from a place on, and one more."""
    first, one = relay.reshape(place, []), ctx.constant(1, _INT)
    rest = relay.subtract(size_along(ctx, source, 0), first)
    fits = relay.logical_and(
        relay.logical_and(
            relay.less_equal(ctx.constant(0, _INT), first), relay.less_equal(ctx.constant(0, _INT), rest)
        ),
        relay.equal(size_along(ctx, predicted, 0), relay.add(rest, one)),
    )
    what = "prev_suffix_match_idx is a place of src_tokens, and pred_tokens are one more than the source has from there"
    predicted = typed(build("dyn.require", predicted, fits, message=f"{ctx.node.op_type}: {what}"))
    # Behind the source is a token that it does not go on with.
    there = relay.take(source, relay.add(positions_along(ctx, predicted, 0), first), axis=0, mode="clip")
    is_source = relay.less(positions_along(ctx, predicted, 0), rest)
    same = relay.cast(relay.logical_and(is_source, relay.equal(there, predicted)), _INT)
    count = relay.add(relay.sum(relay.cumprod(same, 0)), one)
    return relay.strided_slice(predicted, ctx.constant([0], _INT), relay.reshape(count, [1]), ctx.constant([1], _INT))


def _place_of_suffix(ctx: Context, source: Expr, tokens: Expr, sizes: range) -> Expr:
    """Return where the source goes on behind the only place that has the last tokens; -1 if there is none or several.

    Longer suffixes are looked at as long as there are several places; one that is nowhere leaves what was found before.
    """
    length, count = size_along(ctx, tokens, 0), size_along(ctx, source, 0)
    none, zero, one = (ctx.constant(v, _INT) for v in (-1, 0, 1))
    # One place more than the source has, so that there is a first one in any case.
    places = relay.concatenate([positions_along(ctx, source, 0), relay.reshape(count, [1])], 0)
    padded = relay.concatenate([source, ctx.constant([0], _INT)], 0)
    result, goes_on = none, ctx.constant(np.array(True), "bool")
    for size in sizes:
        matches = relay.less_equal(relay.add(places, ctx.constant(size, _INT)), count)
        for k in range(size):
            back = relay.subtract(length, ctx.constant(size - k, _INT))
            wanted = relay.take(tokens, relay.maximum(back, zero), axis=0, mode="clip")
            there = relay.take(padded, relay.add(places, ctx.constant(k, _INT)), axis=0, mode="clip")
            matches = relay.logical_and(matches, relay.equal(there, wanted))
        number = relay.sum(relay.cast(matches, _INT))
        first = relay.cast(relay.argmax(relay.cast(matches, "int32"), 0), _INT)
        behind = relay.add(first, ctx.constant(size, _INT))
        is_there = relay.logical_and(relay.less_equal(ctx.constant(size, _INT), length), relay.less(zero, number))
        at_end = relay.less_equal(count, behind)
        unique = relay.logical_or(at_end, relay.equal(number, one))
        found = relay.where(unique, behind, none)
        result = relay.where(relay.logical_and(goes_on, is_there), found, result)
        goes_on = relay.logical_and(goes_on, relay.logical_and(is_there, relay.logical_not(at_end)))
    return typed(result)
