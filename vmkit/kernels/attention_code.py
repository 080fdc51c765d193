"""Pieces of attention: packing of keys and values, products with tiles of rows, the softmax between them."""

# The inlined pieces are of the script language, in which arguments have no types.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script import tirx as T

__all__ = [
    "STEPS",
    "biased",
    "exponentials",
    "masked",
    "pack_keys",
    "pack_mask",
    "pack_values",
    "products",
    "score_of_key",
    "weighted",
]

STEPS = 4  # of a sum that are unrolled
_LOWEST = -3.4028234663852886e38
_NOTHING = float("-inf")  # the score of a column that there is not: not even the least finite one is as small


def _one_from_each(vectors: Sequence[Any], at: int, half: int = 1) -> Any:
    """Return the vector of element `at` of each of as many vectors as one has elements.

    The shuffles that transpose all of them are the same for every element, so that LLVM keeps one of each.
    """
    count = len(vectors)
    if half == count:
        return vectors[at]
    low, high = (_one_from_each(vectors, each, 2 * half) for each in (at & ~half, at | half))
    if at & half:
        order = [count + k if k & half else k + half for k in range(count)]
    else:
        order = [count + k - half if k & half else k for k in range(count)]
    return tirx.Shuffle([low, high], [tirx.IntImm("int32", k) for k in order])


def _transpose(packed, place, pitch, key, at, first, d, length, lanes):
    """Write stores of a square of keys, whose rows become columns; rows beyond the last are copies of it."""
    rows = [tirx.Min(first + r, length - 1) for r in range(lanes)]
    vectors = [key[at, row, _ramp(d, lanes)] for row in rows]
    for c in range(lanes):
        T.buffer_store(packed, _one_from_each(vectors, c), [_ramp(place + c * pitch, lanes)])


def _ramp(begin: Any, lanes: int) -> Any:
    return tirx.Ramp(begin, tirx.IntImm("int64", 1), lanes)


@T.inline
def pack_keys(packed, key, at, length, blocks, s):
    """Lay out keys in blocks of columns, innermost, so that vectors go along them."""
    for block in T.serial(blocks):
        for part in T.serial(s.columns // s.lanes):
            for d in T.serial(s.inner // s.lanes):
                _transpose(
                    packed,
                    (block * s.inner + d * s.lanes) * s.columns + part * s.lanes,
                    s.columns,
                    key,
                    at,
                    block * s.columns + part * s.lanes,
                    d * s.lanes,
                    length,
                    s.lanes,
                )


@T.inline
def pack_values(packed, value, at, length, steps, s):
    """Lay out values in blocks of their columns, followed by zeros for columns of scores that there are not."""
    for block in T.serial(s.width // s.wide):
        for j in T.serial(length):
            for c in T.vectorized(s.wide):
                packed[(block * steps + j) * s.wide + c] = value[at, j, block * s.wide + c]
        for j in T.serial(steps - length):
            for c in T.vectorized(s.wide):
                packed[(block * steps + length + j) * s.wide + c] = T.float32(0)


@T.inline
def pack_mask(bias, mask, at, length, blocks, s):
    """Lay out the mask of all rows; columns beyond the last are left out."""
    for j in T.serial(length):
        bias[j] = mask[s.masked_at(at, 0, j)]
    for j in T.serial(blocks * s.columns - length):
        bias[length + j] = T.float32(_NOTHING)


@T.inline
def products(total, query, packed, at, block, first, height, s):
    """Multiply some rows of the query with a block of keys."""
    for r in T.unroll(s.rows):
        for c in T.vectorized(s.columns):
            total[r * s.columns + c] = T.float32(0)
    for d in T.serial(s.inner // STEPS):
        for step in T.unroll(STEPS):
            for r in T.unroll(s.rows):
                for c in T.vectorized(s.columns):
                    total[r * s.columns + c] = (
                        total[r * s.columns + c]
                        + query[at, T.min(first + r, height - 1), d * STEPS + step]
                        * packed[(block * s.inner + d * STEPS + step) * s.columns + c]
                    )


@T.inline
def biased(score, total, bias, block, blocks, place, s):
    """Scale a block of scores and add the mask."""
    for r in T.unroll(s.rows):
        for c in T.vectorized(s.columns):
            score[((place + r) * blocks + block) * s.columns + c] = (
                total[r * s.columns + c] * T.float32(s.scale) + bias[block * s.columns + c]
            )


@T.inline
def masked(score, total, mask, s, at, block, blocks, place, first, height, length):
    """Scale and mask a block of scores by masks of their own; columns beyond the last get none."""
    if (block + 1) * s.columns <= length:
        for r in T.unroll(s.rows):
            for c in T.vectorized(s.columns):
                score[((place + r) * blocks + block) * s.columns + c] = (
                    total[r * s.columns + c] * T.float32(s.scale)
                    + mask[s.masked_at(at, T.min(first + r, height - 1), block * s.columns + c)]
                )
    else:
        for r in T.unroll(s.rows):
            for c in T.vectorized(s.columns):
                score[((place + r) * blocks + block) * s.columns + c] = total[r * s.columns + c] * T.float32(s.scale)
        for r in T.serial(s.rows):
            for c in T.serial(s.columns):
                if block * s.columns + c < length:
                    score[((place + r) * blocks + block) * s.columns + c] = (
                        score[((place + r) * blocks + block) * s.columns + c]
                        + mask[s.masked_at(at, T.min(first + r, height - 1), block * s.columns + c)]
                    )
                else:
                    score[((place + r) * blocks + block) * s.columns + c] = T.float32(_NOTHING)


def _fold(values, lanes, joined):
    """Write statements that join the elements of a vector in its first one, half of them at a time."""
    while lanes > 1:
        lanes //= 2
        first, second = (
            values[_ramp(tirx.IntImm("int64", begin), lanes)] if lanes > 1 else values[begin] for begin in (0, lanes)
        )
        T.buffer_store(values, joined(first, second), [_ramp(tirx.IntImm("int64", 0), lanes) if lanes > 1 else 0])


@T.inline
def exponentials(score, begin, blocks, most, sums, lanes):
    """Replace the scores of a row by the exponentials of what they are above the largest; their sum is ``sums[0]``."""
    for c in T.vectorized(lanes):
        most[c] = T.float32(_LOWEST)
        sums[c] = T.float32(0)
    for block in T.serial(blocks):
        for c in T.vectorized(lanes):
            most[c] = T.max(most[c], score[begin + block * lanes + c])
    _fold(most, lanes, tirx.Max)
    for block in T.serial(blocks):
        for c in T.vectorized(lanes):
            score[begin + block * lanes + c] = T.exp(score[begin + block * lanes + c] - most[0])
            sums[c] = sums[c] + score[begin + block * lanes + c]
    _fold(sums, lanes, tirx.Add)


@T.inline
def weighted(out, total, score, packed, inverse, at, block, blocks, steps, place, first, height, s):
    """Add up a block of the values' columns by the weights of some rows."""
    for r in T.unroll(s.rows):
        for c in T.vectorized(s.wide):
            total[r * s.wide + c] = T.float32(0)
    for j in T.serial(steps // STEPS):
        for step in T.unroll(STEPS):
            for r in T.unroll(s.rows):
                for c in T.vectorized(s.wide):
                    total[r * s.wide + c] = (
                        total[r * s.wide + c]
                        + score[(place + r) * (blocks * s.columns) + j * STEPS + step]
                        * packed[(block * steps + j * STEPS + step) * s.wide + c]
                    )
    for r in T.unroll(s.rows):
        if first + r < height:
            for c in T.vectorized(s.wide):
                out[at, first + r, block * s.wide + c] = total[r * s.wide + c] * inverse[place + r]


@T.inline
def score_of_key(score, part, query, key, mask, s, at, j, length):
    """Compute one score of a single row, elements first in a vector and then added up."""
    if j < length:
        for c in T.vectorized(s.lanes):
            part[c] = query[at, 0, c] * key[at, j, c]
        for d in T.unroll(s.inner // s.lanes - 1):
            for c in T.vectorized(s.lanes):
                part[c] = part[c] + query[at, 0, (d + 1) * s.lanes + c] * key[at, j, (d + 1) * s.lanes + c]
        for c in T.unroll(s.lanes - 1):
            part[0] = part[0] + part[c + 1]
        score[j] = part[0] * T.float32(s.scale) + mask[s.masked_at(at, 0, j)]
    else:
        score[j] = T.float32(_NOTHING)
