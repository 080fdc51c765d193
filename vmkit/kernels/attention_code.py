"""Pieces of attention: packing of keys and values, products with tiles of rows, the softmax between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tvm import tirx

from .._dataclasses import dataclass
from .builder import Size, T, constant, integer, loop, ramp, shuffled, when
from .vector_math import exponential_up_to_one

if TYPE_CHECKING:
    from .attention import AttentionShape

__all__ = [
    "STEPS",
    "TileOfRows",
    "biased",
    "exponentials",
    "masked",
    "pack_keys",
    "pack_mask",
    "pack_values",
    "products",
    "score_of_key",
    "unless_masked",
    "weighted",
]

STEPS = 4  # of a sum that are unrolled
_LOWEST = -3.4028234663852886e38
_NOTHING = float("-inf")  # the score of a column that there is not: not even the least finite one is as small


@dataclass(frozen=True)
class TileOfRows:
    """Some rows of the query, which are computed together.

    Attributes
    ----------
    at : expression
        Which matrix they are of.
    first : expression
        The first of them; rows beyond the last are copies of it.
    height : expression
        How many rows there are in all.
    place : expression
        The first of them among the rows that scores are kept of.
    """

    at: tirx.Expr
    first: tirx.Expr
    height: tirx.Expr
    place: tirx.Expr

    def row(self, r: Size) -> tirx.Expr:
        """Return one of the rows, the last one where there is no such."""
        return T.min(self.first + r, self.height - 1)


def _transposed(vectors: Sequence[tirx.Expr]) -> list[tirx.Expr]:
    """Return, of as many vectors as one has elements, the vector of the first element of each, of the second, ..."""
    count = half = len(vectors)
    made = [T.Bind(vector) for vector in vectors]  # as an expression each would stand in all of the results
    while half > 1:
        half //= 2
        orders = (
            [count + k - half if k & half else k for k in range(count)],
            [count + k if k & half else k + half for k in range(count)],
        )
        made = [T.Bind(shuffled(made[at & ~half], made[at | half], orders[at & half > 0])) for at in range(count)]
    return made


def pack_keys(
    packed: tirx.Buffer, key: tirx.Buffer, at: tirx.Var, length: tirx.Var, blocks: tirx.Var, s: AttentionShape
) -> None:
    """Lay out keys in blocks of columns, innermost, so that vectors go along them.

    Squares of keys are transposed; rows beyond the last are copies of it.
    """
    lanes = s.lanes
    with T.serial(blocks) as block, T.serial(s.columns // lanes) as part, T.serial(s.inner // lanes) as d:
        place = (block * s.inner + d * lanes) * s.columns + part * lanes
        first = block * s.columns + part * lanes
        rows = [tirx.Min(first + r, length - 1) for r in range(lanes)]
        columns = _transposed([key[at, row, ramp(d * lanes, lanes)] for row in rows])
        for c, column in enumerate(columns):
            T.buffer_store(packed, column, [ramp(place + c * s.columns, lanes)])


def pack_values(
    packed: tirx.Buffer, value: tirx.Buffer, at: tirx.Var, length: tirx.Var, steps: tirx.Var, s: AttentionShape
) -> None:
    """Lay out values in blocks of their columns, followed by zeros for columns of scores that there are not."""
    with T.serial(s.width // s.wide) as block:
        with loop(length) as j, T.vectorized(s.wide) as c:
            T.buffer_store(packed, value[at, j, block * s.wide + c], [(block * steps + j) * s.wide + c])
        with loop(steps - length) as j, T.vectorized(s.wide) as c:
            T.buffer_store(packed, constant(0), [(block * steps + length + j) * s.wide + c])


def pack_mask(
    bias: tirx.Buffer, mask: tirx.Buffer, at: tirx.Var, length: tirx.Var, blocks: tirx.Var, s: AttentionShape
) -> None:
    """Lay out the mask of all rows; columns beyond the last are left out."""
    with loop(length) as j:
        T.buffer_store(bias, mask[s.masked_at(at, 0, j)], [j])
    with loop(blocks * s.columns - length) as j:
        T.buffer_store(bias, constant(_NOTHING), [length + j])


def products(
    total: tirx.Buffer, query: tirx.Buffer, packed: tirx.Buffer, tile: TileOfRows, block: tirx.Var, s: AttentionShape
) -> None:
    """Multiply some rows of the query with a block of keys."""
    with T.unroll(s.rows) as r, T.vectorized(s.columns) as c:
        T.buffer_store(total, constant(0), [r * s.columns + c])
    with T.serial(s.inner // STEPS) as d, T.unroll(STEPS) as step, T.unroll(s.rows) as r, T.vectorized(s.columns) as c:
        at, weight = r * s.columns + c, packed[(block * s.inner + d * STEPS + step) * s.columns + c]
        T.buffer_store(total, total[at] + query[tile.at, tile.row(r), d * STEPS + step] * weight, [at])


def biased(
    score: tirx.Buffer,
    total: tirx.Buffer,
    bias: tirx.Buffer,
    tile: TileOfRows,
    block: tirx.Var,
    blocks: tirx.Var,
    s: AttentionShape,
) -> None:
    """Scale a block of scores and add the mask."""
    with T.unroll(s.rows) as r, T.vectorized(s.columns) as c:
        scaled = total[r * s.columns + c] * constant(s.scale)
        at = ((tile.place + r) * blocks + block) * s.columns + c
        T.buffer_store(score, scaled + bias[block * s.columns + c], [at])


def masked(
    score: tirx.Buffer,
    total: tirx.Buffer,
    mask: tirx.Buffer,
    tile: TileOfRows,
    block: tirx.Var,
    blocks: tirx.Var,
    length: tirx.Var,
    s: AttentionShape,
) -> None:
    """Scale and mask a block of scores by masks of their own; columns beyond the last get none."""

    def place(r: tirx.Var, c: tirx.Var) -> tirx.Expr:
        return ((tile.place + r) * blocks + block) * s.columns + c

    def scaled(r: tirx.Var, c: tirx.Var) -> tirx.Expr:
        return total[r * s.columns + c] * constant(s.scale)

    def of_mask(r: tirx.Var, c: tirx.Var) -> tirx.Expr:
        return mask[s.masked_at(tile.at, tile.row(r), block * s.columns + c)]

    with T.If((block + 1) * s.columns <= length):
        with T.Then(), T.unroll(s.rows) as r, T.vectorized(s.columns) as c:
            T.buffer_store(score, scaled(r, c) + of_mask(r, c), [place(r, c)])
        with T.Else():
            with T.unroll(s.rows) as r, T.vectorized(s.columns) as c:
                T.buffer_store(score, scaled(r, c), [place(r, c)])
            with T.serial(s.rows) as r, T.serial(s.columns) as c, T.If(block * s.columns + c < length):
                with T.Then():
                    T.buffer_store(score, score[place(r, c)] + of_mask(r, c), [place(r, c)])
                with T.Else():
                    T.buffer_store(score, constant(_NOTHING), [place(r, c)])


def _fold(values: tirx.Buffer, lanes: int, joined: Callable[[tirx.Expr, tirx.Expr], tirx.Expr]) -> None:
    """Write statements that join the elements of a vector in its first one, half of them at a time."""
    while lanes > 1:
        lanes //= 2
        first, second = (values[ramp(integer(begin), lanes) if lanes > 1 else begin] for begin in (0, lanes))
        T.buffer_store(values, joined(first, second), [ramp(integer(0), lanes) if lanes > 1 else 0])


def exponentials(
    score: tirx.Buffer, begin: Size, blocks: tirx.Var, most: tirx.Buffer, sums: tirx.Buffer, lanes: int
) -> None:
    """Replace the scores of a row by the exponentials of what they are above the largest; their sum is ``sums[0]``."""

    def place(block: tirx.Var, c: tirx.Var) -> tirx.Expr:
        return begin + block * lanes + c

    with T.vectorized(lanes) as c:
        T.buffer_store(most, constant(_LOWEST), [c])
        T.buffer_store(sums, constant(0), [c])
    with T.serial(blocks) as block, T.vectorized(lanes) as c:
        T.buffer_store(most, T.max(most[c], score[place(block, c)]), [c])
    _fold(most, lanes, tirx.Max)
    with T.serial(blocks) as block, T.vectorized(lanes) as c:
        T.buffer_store(score, exponential_up_to_one(score[place(block, c)] - most[0]), [place(block, c)])
        T.buffer_store(sums, sums[c] + score[place(block, c)], [c])
    _fold(sums, lanes, tirx.Add)


def unless_masked(
    inverse: tirx.Buffer, r: Size, mask: tirx.Buffer, at: tuple[Size, Size], length: tirx.Var, s: AttentionShape
) -> None:
    """Make a row NaN whose weights are all 0 though the mask, at a matrix and a row of it, leaves in some column."""
    matrix, row = at
    with when(inverse[r] == 0), loop(length) as j, when(mask[s.masked_at(matrix, row, j)] > constant(_NOTHING)):
        T.buffer_store(inverse, constant(float("inf")), [r])  # by which 0 is not a number


def weighted(
    out: tirx.Buffer,
    total: tirx.Buffer,
    weights: tuple[tirx.Buffer, tirx.Buffer],
    packed: tirx.Buffer,
    tile: TileOfRows,
    block: tirx.Var,
    sizes: tuple[tirx.Var, tirx.Var],
    s: AttentionShape,
) -> None:
    """Add up a block of the values' columns by the weights of some rows.

    The weights are the scores, and the inverse of each row's sum; the sizes how many blocks of scores and how many
    values there are.
    """
    (score, inverse), (blocks, steps) = weights, sizes
    with T.unroll(s.rows) as r, T.vectorized(s.wide) as c:
        T.buffer_store(total, constant(0), [r * s.wide + c])
    with T.serial(steps // STEPS) as j, T.unroll(STEPS) as step, T.unroll(s.rows) as r, T.vectorized(s.wide) as c:
        at = r * s.wide + c
        weight = score[(tile.place + r) * (blocks * s.columns) + j * STEPS + step]
        product = weight * packed[(block * steps + j * STEPS + step) * s.wide + c]
        T.buffer_store(total, total[at] + product, [at])
    with T.unroll(s.rows) as r, when(tile.first + r < tile.height), T.vectorized(s.wide) as c:
        value = s.weighed(total[r * s.wide + c], inverse[tile.place + r])
        T.buffer_store(out, value, [tile.at, tile.first + r, block * s.wide + c])


def score_of_key(
    score: tirx.Buffer,
    part: tirx.Buffer,
    operands: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer],
    at: tirx.Var,
    j: tirx.Var,
    length: tirx.Var,
    s: AttentionShape,
) -> None:
    """Compute one score of a single row, elements first in a vector and then added up.

    The operands are query, key and mask.
    """
    query, key, mask = operands
    with T.If(j < length):
        with T.Then():
            with T.vectorized(s.lanes) as c:
                T.buffer_store(part, query[at, 0, c] * key[at, j, c], [c])
            with T.unroll(s.inner // s.lanes - 1) as d, T.vectorized(s.lanes) as c:
                k = (d + 1) * s.lanes + c
                T.buffer_store(part, part[c] + query[at, 0, k] * key[at, j, k], [c])
            with T.unroll(s.lanes - 1) as c:
                T.buffer_store(part, part[0] + part[c + 1], [0])
            T.buffer_store(score, part[0] * constant(s.scale) + mask[s.masked_at(at, 0, j)], [j])
        with T.Else():
            T.buffer_store(score, constant(_NOTHING), [j])
