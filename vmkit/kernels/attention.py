"""Attention on a CPU: scores, softmax and weighted values of a few rows at a time, which never leave the cache."""

# The inlined pieces are of the script language, in which arguments have no types.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from .attention_code import (
    STEPS,
    biased,
    exponentials,
    masked,
    pack_keys,
    pack_mask,
    pack_values,
    products,
    score_of_key,
    weighted,
)
from .vector_math import with_vector_math

__all__ = ["AttentionShape", "attention"]

_TILES = 4  # tiles of rows for which a block of keys or values stays in the first cache


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

    @property
    def rows(self) -> int:
        """How many rows a tile has: as many as registers hold the results of, two vectors each."""
        return 8 if self.lanes >= 16 else 6

    @property
    def columns(self) -> int:
        """How many columns of scores are computed together."""
        return 2 * self.lanes

    @property
    def wide(self) -> int:
        """How many elements of values go together."""
        return self.columns if self.width % self.columns == 0 else self.lanes

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


def _rows(s: AttentionShape) -> tirx.PrimFunc:
    rows, columns, inner, width, shares_mask = s.rows, s.columns, s.inner, s.width, not s.mask[2]

    @T.prim_func(private=True)
    def kernel(q: T.handle, k: T.handle, v: T.handle, m: T.handle, o: T.handle) -> None:
        n, height, length = T.int64(), T.int64(), T.int64()
        query = T.match_buffer(q, (n, height, inner), "float32")
        key = T.match_buffer(k, (n, length, inner), "float32")
        value = T.match_buffer(v, (n, length, width), "float32")
        mask = T.match_buffer(m, s.mask_shape(n, height, length), "float32")
        out = T.match_buffer(o, (n, height, width), "float32")
        for at in T.parallel(n):
            blocks: T.let = T.ceildiv(length, T.int64(columns))
            steps: T.let = T.ceildiv(length, T.int64(STEPS)) * T.int64(STEPS)
            tiles: T.let = T.ceildiv(height, T.int64(rows))
            keys = T.alloc_buffer((blocks * (inner * columns),), "float32", layout=None)
            values = T.alloc_buffer((steps * width,), "float32", layout=None)
            bias = T.alloc_buffer((blocks * columns,), "float32", layout=None)
            score = T.alloc_buffer((blocks * (_TILES * rows * columns),), "float32", layout=None)
            total = T.alloc_buffer((rows * columns,), "float32", scope="local", layout=None)
            most = T.alloc_buffer((columns,), "float32", scope="local", layout=None)
            sums = T.alloc_buffer((columns,), "float32", scope="local", layout=None)
            inverse = T.alloc_buffer((_TILES * rows,), "float32", scope="local", layout=None)
            pack_keys(keys, key, at, length, blocks, s)
            pack_values(values, value, at, length, steps, s)
            if shares_mask:
                pack_mask(bias, mask, at, length, blocks, s)
            for group in T.serial(T.ceildiv(tiles, T.int64(_TILES))):
                count: T.let = T.min(T.int64(_TILES), tiles - group * _TILES)
                begin: T.let = group * (_TILES * rows)
                for block in T.serial(blocks):
                    for tile in T.serial(count):
                        products(total, query, keys, at, block, begin + tile * rows, height, s)
                        if shares_mask:
                            biased(score, total, bias, block, blocks, tile * rows, s)
                        else:
                            masked(
                                score,
                                total,
                                mask,
                                s,
                                at,
                                block,
                                blocks,
                                tile * rows,
                                begin + tile * rows,
                                height,
                                length,
                            )
                for r in T.serial(count * rows):
                    exponentials(score, r * (blocks * columns), blocks, most, sums, columns)
                    inverse[r] = T.Select(length > 0, T.float32(1) / sums[0], T.float32(0))
                for block in T.serial(width // s.wide):
                    for tile in T.serial(count):
                        weighted(
                            out,
                            total,
                            score,
                            values,
                            inverse,
                            at,
                            block,
                            blocks,
                            steps,
                            tile * rows,
                            begin + tile * rows,
                            height,
                            s,
                        )

    return kernel


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
                score_of_key(score, part, query, key, mask, s, at, j, length)
            exponentials(score, 0, blocks, most, sums, lanes)
            for c in T.vectorized(width):
                total[c] = T.float32(0)
            for j in T.serial(length):
                for c in T.vectorized(width):
                    total[c] = total[c] + score[j] * value[at, j, c]
            for c in T.vectorized(width):
                out[at, 0, c] = T.Select(length > 0, total[c] / sums[0], T.float32(0))

    return kernel
