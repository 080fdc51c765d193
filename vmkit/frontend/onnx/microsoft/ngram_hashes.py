"""Numbers of embeddings for sequences of tokens, found by hashing the tokens: those of one text, and of several packed.

A token and those before it are each times a multiplier, and what that gives is mixed by an exclusive or; each head
takes the remainder of the mixture by the size of its table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..registry import AttributeGroup, converter
from .packed_convolution import check_capture
from .ragged import Ragged


@dataclass(frozen=True)
class Hashing(AttributeGroup):
    """The attributes of hashes: how many tokens are hashed together, by how many heads, and what stands for none."""

    max_ngram_size: int
    n_head_per_ngram: int
    pad_id: int
    reset_on_eos: int = 0

    def check(self, ctx: Context) -> None:
        """Raise ModelError for numbers that cannot be."""
        if self.max_ngram_size < 2 or self.n_head_per_ngram < 1:
            ctx.fail(
                f"max_ngram_size is {self.max_ngram_size}, n_head_per_ngram {self.n_head_per_ngram}; at least 2, 1"
            )

    def filling(self, ctx: Context, eos: Expr | None, dtype: str) -> Expr:
        """Return the token that stands for one that is not there, a scalar."""
        if eos is None:
            return ctx.constant(self.pad_id, dtype)
        if ctx.rank(eos):
            ctx.fail(f"eos_token_id is {ctx.type(eos)}; it is a scalar")
        return eos

    def hashes(
        self,
        ctx: Context,
        shifted: Sequence[Expr],
        breaks: Sequence[Expr],
        fill: Expr,
        given: tuple[Expr, Expr, Expr | None],
        eos: Expr | None,
    ) -> Expr:
        """Return the numbers of all heads: those of the tokens, with one more dimension.

        Parameters
        ----------
        shifted : sequence of Expr
            The tokens, those one place before, and so on.
        breaks : sequence of Expr
            Whether a token begins a segment, whether that one place before does, and so on; empty for no segments.
        fill : Expr
            What stands for a token beyond a break.
        given : tuple of Expr
            The multipliers, the sizes of the tables, and what is added to the numbers of each head.
        eos : Expr, optional
            The token that ends a text, where what is before such a token is beyond a break.
        """
        multipliers, tables, offsets = given
        sizes = _positive(ctx, tables)
        mixed: Expr | None = None
        beyond: Expr | None = None
        heads = []
        rank = ctx.rank(shifted[0])
        for k, token in enumerate(shifted):
            ways = [] if k == 0 else [breaks[k - 1]] if breaks else []
            if k and eos is not None:
                ways.append(relay.equal(token, eos))
            for way in ways:
                beyond = way if beyond is None else relay.logical_or(beyond, way)
            seen = token if beyond is None else relay.where(beyond, fill, token)
            product = relay.multiply(seen, relay.take(multipliers, ctx.constant(k, "int64"), axis=0))
            mixed = product if mixed is None else relay.bitwise_xor(mixed, product)
            if k:
                first, end = ((k - 1 + i) * self.n_head_per_ngram for i in range(2))
                own = relay.strided_slice(sizes, [first], [end], [1])
                heads.append(relay.floor_mod(relay.expand_dims(mixed, rank), own))
        made = relay.concatenate(heads, rank) if len(heads) > 1 else heads[0]
        return made if offsets is None else relay.add(made, offsets)


def _positive(ctx: Context, tables: Expr) -> Expr:
    known, message = ctx.static(tables), "vocab_sizes are sizes of tables, which are larger than 0"
    if known is not None:
        return tables if (known > 0).all() else ctx.fail(f"{message}; {known.min()} is among them")
    fits = relay.all(relay.greater(tables, ctx.constant(0, ctx.dtype(tables))))
    return build("dyn.require", tables, fits, message=f"{ctx.node.op_type}: {message}")


@converter("NGramHashMapping", domain="com.microsoft")
def hashes_of_texts(
    ctx: Context,
    ids: Expr,
    multipliers: Expr,
    tables: Expr,
    past: Expr | None = None,
    offsets: Expr | None = None,
    eos: Expr | None = None,
    segments: Expr | None = None,
    *,
    hashing: Hashing,
) -> list[Expr]:
    """Tokens (texts, places); segments begin where their number differs from the one before, in this call alone."""
    hashing.check(ctx)
    before, dtype = hashing.max_ngram_size - 1, ctx.dtype(ids)
    (batch, count), fill = ctx.shape(ids), hashing.filling(ctx, eos, dtype)
    if dims.is_any(count):
        ctx.fail(f"the number of tokens is known only at run time: the tokens are {ctx.type(ids)}")
    if past is None:
        past = relay.full(fill, [batch, before], dtype)

    def moved(whole: Expr, shift: int) -> Expr:
        return relay.strided_slice(whole, [before - shift], [dims.add(count, before - shift)], [1], axes=[1])

    whole = relay.concatenate([past, ids], 1)
    shifted, breaks = [moved(whole, k) for k in range(before + 1)], []
    if segments is not None:
        whole_segments = _begun_by_first(ctx, segments, before)
        numbers = [moved(whole_segments, k) for k in range(before + 1)]
        breaks = [relay.not_equal(a, b) for a, b in pairwise(numbers)]
    ends = eos if hashing.reset_on_eos else None
    made = hashing.hashes(ctx, shifted, breaks, fill, (multipliers, tables, offsets), ends)
    return [made, relay.strided_slice(whole, [count], [dims.add(count, before)], [1], axes=[1])]


def _begun_by_first(ctx: Context, segments: Expr, before: int) -> Expr:
    """Return segments with so many more of the first one in front."""
    first = relay.take(segments, ctx.constant([0] * before, "int64"), axis=1, mode="clip")
    return relay.concatenate([first, segments], 1)


@converter("VarlenNGramHashMapping", domain="com.microsoft")
def hashes_of_packed_texts(
    ctx: Context,
    ids: Expr,
    multipliers: Expr,
    tables: Expr,
    ends: Expr,
    past: Expr | None = None,
    offsets: Expr | None = None,
    eos: Expr | None = None,
    segments: Expr | None = None,
    past_segments: Expr | None = None,
    capture_count: Expr | None = None,
    *,
    hashing: Hashing,
    state_update_capacity: int = 0,
) -> list[Expr | None]:
    """Tokens of several texts one behind the other; segments go on from call to call."""
    hashing.check(ctx)
    check_capture(ctx, capture_count, state_update_capacity)
    before, dtype = hashing.max_ngram_size - 1, ctx.dtype(ids)
    fill = hashing.filling(ctx, eos, dtype)
    texts = Ragged(ctx, ids, ends, past)
    if past is None:
        past = relay.full(fill, [texts.batch, before], dtype)
    table, places = texts.table(ids, past, before), [texts.before(k, before) for k in range(before + 1)]
    breaks, present_segments = [], None
    if segments is not None:
        old = past_segments
        if old is None:
            old = relay.repeat(relay.expand_dims(relay.take(segments, texts.starts, axis=0), 1), before, 1)
        numbered = texts.table(segments, old, before)
        numbers = [relay.take(numbered, at, axis=0) for at in places]
        breaks = [relay.not_equal(a, b) for a, b in pairwise(numbers)]
        present_segments = relay.take(numbered, texts.last(before), axis=0)
    elif ctx.wants(2):
        ctx.fail("present_segment_ids is asked for, and there are no segment_ids")
    shifted = [relay.take(table, at, axis=0) for at in places]
    ended = eos if hashing.reset_on_eos else None
    made = hashing.hashes(ctx, shifted, breaks, fill, (multipliers, tables, offsets), ended)
    captured = None
    if capture_count is not None:
        reached = ctx.positions(state_update_capacity + 1, "int64")
        reached = relay.expand_dims(relay.strided_slice(reached, [1], [state_update_capacity + 1]), 0)
        rows = relay.take(table, texts.until(reached, before), axis=0, mode="clip")
        kept = relay.expand_dims(texts.captured(capture_count, state_update_capacity), 2)
        captured = relay.where(kept, rows, ctx.constant(hashing.pad_id, dtype))
    return [made, relay.take(table, texts.last(before), axis=0), present_segments, captured]
