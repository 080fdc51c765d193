"""Attention on a CPU: scores, softmax and weighted values of a few rows at a time, which never leave the cache."""

# The inlined pieces are of the script language, in which arguments have no types.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from ..vector_math import with_vector_math

__all__ = ["AttentionShape", "attention"]

_ROWS = 8
_LOWEST = -3.4028234663852886e38
_NOTHING = float("-inf")  # the score of a column that there is not: not even the least finite one is as small


@dataclass(frozen=True)
class AttentionShape:
    """What is known of the operands of :func:`attention` when it is compiled.

    Attributes
    ----------
    inner, width : int
        Sizes of a key and of a value; multiples of `lanes`.
    heads : int
        How many matrices share the mask's first axis.
    scale : float
        What scores are multiplied with.
    mask : tuple of bool
        Which axes of the mask are as large as the scores; the others are 1.
    is_one_row : bool
        Whether there is one query to a matrix, so that every key is read once.
    lanes : int
        How many float32 a vector has.
    """

    inner: int
    width: int
    heads: int
    scale: float
    mask: tuple[bool, bool, bool, bool]
    is_one_row: bool
    lanes: int

    def mask_shape(self, count: Any, rows: Any, columns: Any) -> tuple[Any, ...]:
        """Return the mask's shape for a number of matrices, their rows and columns."""
        whole = (tirx.floordiv(count, self.heads), self.heads, rows, columns)
        return tuple(size if is_whole else 1 for size, is_whole in zip(whole, self.mask, strict=True))

    def masked_at(self, at: Any, row: Any, column: Any) -> tuple[Any, ...]:
        """Return where the mask is read for an element of the scores."""
        index = (tirx.floordiv(at, self.heads), tirx.floormod(at, self.heads), row, column)
        return tuple(i if is_whole else 0 for i, is_whole in zip(index, self.mask, strict=True))


def attention(shape: AttentionShape) -> tirx.PrimFunc:
    """Return the kernel ``out[n] = softmax(query[n] @ key[n].T * scale + mask) @ value[n]``.

    Query is (count, rows, inner), key (count, columns, inner), value (count, columns, width), mask of rank 4, all
    float32; count, rows and columns are known at run time. Rows beyond the last are copies of it, and columns beyond
    the last have no weight, so that no vector is cut. Of no columns the sum is 0.
    """
    function = _one_row(shape) if shape.is_one_row else _rows(shape)
    return with_vector_math(function).with_attrs({"tirx.is_scheduled": True, "tirx.noalias": True})


@T.inline
def _pack_keys(packed, key, at, length, blocks, inner, lanes):
    """Lay out keys in blocks of columns, innermost, so that vectors go along them."""
    for block in T.serial(blocks):
        for d in T.serial(inner):
            for c in T.serial(lanes):
                packed[(block * inner + d) * lanes + c] = key[at, T.min(block * lanes + c, length - 1), d]


@T.inline
def _products(total, query, packed, at, block, first, height, rows, inner, lanes):
    """Multiply some rows of the query with a block of keys."""
    for r in T.unroll(rows):
        for c in T.vectorized(lanes):
            total[r * lanes + c] = T.float32(0)
    for d in T.serial(inner):
        for r in T.unroll(rows):
            for c in T.vectorized(lanes):
                total[r * lanes + c] = (
                    total[r * lanes + c]
                    + query[at, T.min(first + r, height - 1), d] * packed[(block * inner + d) * lanes + c]
                )


@T.inline
def _masked(score, total, mask, s, at, block, blocks, first, height, length, rows, lanes):
    """Scale and mask a block of scores; columns beyond the last get none."""
    if (block + 1) * lanes <= length:
        for r in T.unroll(rows):
            for c in T.vectorized(lanes):
                score[(r * blocks + block) * lanes + c] = (
                    total[r * lanes + c] * T.float32(s.scale)
                    + mask[s.masked_at(at, T.min(first + r, height - 1), block * lanes + c)]
                )
    else:
        for r in T.unroll(rows):
            for c in T.vectorized(lanes):
                score[(r * blocks + block) * lanes + c] = total[r * lanes + c] * T.float32(s.scale)
        for r in T.serial(rows):
            for c in T.serial(lanes):
                if block * lanes + c < length:
                    score[(r * blocks + block) * lanes + c] = (
                        score[(r * blocks + block) * lanes + c]
                        + mask[s.masked_at(at, T.min(first + r, height - 1), block * lanes + c)]
                    )
                else:
                    score[(r * blocks + block) * lanes + c] = T.float32(_NOTHING)


@T.inline
def _exponentials(score, begin, blocks, most, sums, lanes):
    """Replace the scores of a row by the exponentials of what they are above the largest; their sum is ``sums[0]``."""
    for c in T.vectorized(lanes):
        most[c] = T.float32(_LOWEST)
        sums[c] = T.float32(0)
    for block in T.serial(blocks):
        for c in T.vectorized(lanes):
            most[c] = T.max(most[c], score[begin + block * lanes + c])
    for c in T.serial(1, lanes):
        most[0] = T.max(most[0], most[c])
    for block in T.serial(blocks):
        for c in T.vectorized(lanes):
            score[begin + block * lanes + c] = T.exp(score[begin + block * lanes + c] - most[0])
            sums[c] = sums[c] + score[begin + block * lanes + c]
    for c in T.serial(1, lanes):
        sums[0] = sums[0] + sums[c]


@T.inline
def _weighted(out, total, score, value, inverse, at, block, blocks, first, height, length, rows, lanes, wide):
    """Add up a block of the values' columns by the weights of some rows."""
    for r in T.unroll(rows):
        for c in T.vectorized(wide):
            total[r * wide + c] = T.float32(0)
    for j in T.serial(length):
        for r in T.unroll(rows):
            for c in T.vectorized(wide):
                total[r * wide + c] = (
                    total[r * wide + c] + score[r * (blocks * lanes) + j] * value[at, j, block * wide + c]
                )
    for r in T.unroll(rows):
        if first + r < height:
            for c in T.vectorized(wide):
                out[at, first + r, block * wide + c] = total[r * wide + c] * inverse[r]


def _rows(s: AttentionShape) -> tirx.PrimFunc:
    rows, lanes, inner, width = _ROWS, 2 * s.lanes, s.inner, s.width
    wide = lanes if width % lanes == 0 else s.lanes

    @T.prim_func(private=True)
    def kernel(q: T.handle, k: T.handle, v: T.handle, m: T.handle, o: T.handle) -> None:
        n, height, length = T.int64(), T.int64(), T.int64()
        query = T.match_buffer(q, (n, height, inner), "float32")
        key = T.match_buffer(k, (n, length, inner), "float32")
        value = T.match_buffer(v, (n, length, width), "float32")
        mask = T.match_buffer(m, s.mask_shape(n, height, length), "float32")
        out = T.match_buffer(o, (n, height, width), "float32")
        for at in T.parallel(n):
            blocks: T.let = T.ceildiv(length, T.int64(lanes))
            packed = T.alloc_buffer((blocks * (inner * lanes),), "float32", layout=None)
            score = T.alloc_buffer((blocks * (rows * lanes),), "float32", layout=None)
            total = T.alloc_buffer((rows * lanes,), "float32", scope="local", layout=None)
            most = T.alloc_buffer((lanes,), "float32", scope="local", layout=None)
            sums = T.alloc_buffer((lanes,), "float32", scope="local", layout=None)
            inverse = T.alloc_buffer((rows,), "float32", scope="local", layout=None)
            _pack_keys(packed, key, at, length, blocks, inner, lanes)
            for tile in T.serial(T.ceildiv(height, T.int64(rows))):
                for block in T.serial(blocks):
                    _products(total, query, packed, at, block, tile * rows, height, rows, inner, lanes)
                    _masked(score, total, mask, s, at, block, blocks, tile * rows, height, length, rows, lanes)
                for r in T.serial(rows):
                    _exponentials(score, r * (blocks * lanes), blocks, most, sums, lanes)
                    inverse[r] = T.Select(length > 0, T.float32(1) / sums[0], T.float32(0))
                for block in T.serial(width // wide):
                    _weighted(
                        out,
                        total,
                        score,
                        value,
                        inverse,
                        at,
                        block,
                        blocks,
                        tile * rows,
                        height,
                        length,
                        rows,
                        lanes,
                        wide,
                    )

    return kernel


@T.inline
def _score_of_key(score, part, query, key, mask, s, at, j, length):
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


def _one_row(s: AttentionShape) -> tirx.PrimFunc:
    lanes, inner, width = s.lanes, s.inner, s.width

    @T.prim_func(private=True)
    def kernel(q: T.handle, k: T.handle, v: T.handle, m: T.handle, o: T.handle) -> None:
        n, length = T.int64(), T.int64()
        query = T.match_buffer(q, (n, 1, inner), "float32")
        key = T.match_buffer(k, (n, length, inner), "float32")
        value = T.match_buffer(v, (n, length, width), "float32")
        mask = T.match_buffer(m, s.mask_shape(n, 1, length), "float32")
        out = T.match_buffer(o, (n, 1, width), "float32")
        for at in T.parallel(n):
            blocks: T.let = T.ceildiv(length, T.int64(lanes))
            score = T.alloc_buffer((blocks * lanes,), "float32", layout=None)
            part = T.alloc_buffer((lanes,), "float32", scope="local", layout=None)
            most = T.alloc_buffer((lanes,), "float32", scope="local", layout=None)
            sums = T.alloc_buffer((lanes,), "float32", scope="local", layout=None)
            total = T.alloc_buffer((width,), "float32", scope="local", layout=None)
            for j in T.serial(blocks * lanes):
                _score_of_key(score, part, query, key, mask, s, at, j, length)
            _exponentials(score, 0, blocks, most, sums, lanes)
            for c in T.vectorized(width):
                total[c] = T.float32(0)
            for j in T.serial(length):
                for c in T.vectorized(width):
                    total[c] = total[c] + score[j] * value[at, j, c]
            for c in T.vectorized(width):
                out[at, 0, c] = T.Select(length > 0, total[c] / sums[0], T.float32(0))

    return kernel
