"""Attention on a CPU: scores, softmax and weighted values of a few rows at a time, which never leave the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from ..vector_math import with_vector_math

__all__ = ["AttentionShape", "attention"]

_ROWS = 8
_LOWEST = -3.4028234663852886e38


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
    the last have the lowest score, so that no vector is cut.
    """
    function = _one_row(shape) if shape.is_one_row else _rows(shape)
    return with_vector_math(function).with_attr("tirx.is_scheduled", True)


def _rows(s: AttentionShape) -> tirx.PrimFunc:
    rows, lanes, inner, width, scale = _ROWS, 2 * s.lanes, s.inner, s.width, s.scale
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
            for block in T.serial(blocks):
                for d in T.serial(inner):
                    for c in T.serial(lanes):
                        packed[(block * inner + d) * lanes + c] = key[at, T.min(block * lanes + c, length - 1), d]
            for tile in T.serial(T.ceildiv(height, T.int64(rows))):
                for block in T.serial(blocks):
                    for r in T.unroll(rows):
                        for c in T.vectorized(lanes):
                            total[r * lanes + c] = T.float32(0)
                    for d in T.serial(inner):
                        for r in T.unroll(rows):
                            for c in T.vectorized(lanes):
                                total[r * lanes + c] = (
                                    total[r * lanes + c]
                                    + query[at, T.min(tile * rows + r, height - 1), d]
                                    * packed[(block * inner + d) * lanes + c]
                                )
                    if (block + 1) * lanes <= length:
                        for r in T.unroll(rows):
                            for c in T.vectorized(lanes):
                                score[(r * blocks + block) * lanes + c] = total[r * lanes + c] * T.float32(
                                    scale
                                ) + s_mask(mask, s, at, T.min(tile * rows + r, height - 1), block * lanes + c)
                    else:
                        for r in T.unroll(rows):
                            for c in T.vectorized(lanes):
                                score[(r * blocks + block) * lanes + c] = total[r * lanes + c] * T.float32(scale)
                        for r in T.serial(rows):
                            for c in T.serial(lanes):
                                if block * lanes + c < length:
                                    score[(r * blocks + block) * lanes + c] = score[
                                        (r * blocks + block) * lanes + c
                                    ] + s_mask(mask, s, at, T.min(tile * rows + r, height - 1), block * lanes + c)
                                else:
                                    score[(r * blocks + block) * lanes + c] = T.float32(_LOWEST)
                for r in T.serial(rows):
                    for c in T.vectorized(lanes):
                        most[c] = T.float32(_LOWEST)
                        sums[c] = T.float32(0)
                    for block in T.serial(blocks):
                        for c in T.vectorized(lanes):
                            most[c] = T.max(most[c], score[(r * blocks + block) * lanes + c])
                    for c in T.serial(1, lanes):
                        most[0] = T.max(most[0], most[c])
                    for block in T.serial(blocks):
                        for c in T.vectorized(lanes):
                            score[(r * blocks + block) * lanes + c] = T.exp(
                                score[(r * blocks + block) * lanes + c] - most[0]
                            )
                            sums[c] = sums[c] + score[(r * blocks + block) * lanes + c]
                    for c in T.serial(1, lanes):
                        sums[0] = sums[0] + sums[c]
                    inverse[r] = T.float32(1) / sums[0]
                for block in T.serial(width // wide):
                    for r in T.unroll(rows):
                        for c in T.vectorized(wide):
                            total[r * wide + c] = T.float32(0)
                    for j in T.serial(length):
                        for r in T.unroll(rows):
                            for c in T.vectorized(wide):
                                total[r * wide + c] = (
                                    total[r * wide + c]
                                    + score[r * (blocks * lanes) + j] * value[at, j, block * wide + c]
                                )
                    for r in T.unroll(rows):
                        if tile * rows + r < height:
                            for c in T.vectorized(wide):
                                out[at, tile * rows + r, block * wide + c] = total[r * wide + c] * inverse[r]

    return kernel


def s_mask(mask: Any, s: AttentionShape, at: Any, row: Any, column: Any) -> Any:
    """Return the element of the mask for an element of the scores."""
    return mask[s.masked_at(at, row, column)]


def _one_row(s: AttentionShape) -> tirx.PrimFunc:
    lanes, inner, width, scale = s.lanes, s.inner, s.width, s.scale

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
                if j < length:
                    for c in T.vectorized(lanes):
                        part[c] = query[at, 0, c] * key[at, j, c]
                    for d in T.unroll(inner // lanes - 1):
                        for c in T.vectorized(lanes):
                            part[c] = part[c] + query[at, 0, (d + 1) * lanes + c] * key[at, j, (d + 1) * lanes + c]
                    for c in T.unroll(lanes - 1):
                        part[0] = part[0] + part[c + 1]
                    score[j] = part[0] * T.float32(scale) + s_mask(mask, s, at, 0, j)
                else:
                    score[j] = T.float32(_LOWEST)
            for c in T.vectorized(lanes):
                most[c] = T.float32(_LOWEST)
                sums[c] = T.float32(0)
            for block in T.serial(blocks):
                for c in T.vectorized(lanes):
                    most[c] = T.max(most[c], score[block * lanes + c])
            for c in T.serial(1, lanes):
                most[0] = T.max(most[0], most[c])
            for block in T.serial(blocks):
                for c in T.vectorized(lanes):
                    score[block * lanes + c] = T.exp(score[block * lanes + c] - most[0])
                    sums[c] = sums[c] + score[block * lanes + c]
            for c in T.serial(1, lanes):
                sums[0] = sums[0] + sums[c]
            for c in T.vectorized(width):
                total[c] = T.float32(0)
            for j in T.serial(length):
                for c in T.vectorized(width):
                    total[c] = total[c] + score[j] * value[at, j, c]
            for c in T.vectorized(width):
                out[at, 0, c] = total[c] / sums[0]

    return kernel
