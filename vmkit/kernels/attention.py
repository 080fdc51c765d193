"""Attention on a CPU: scores, softmax and weighted values of a few rows at a time, which never leave the cache."""

from __future__ import annotations

from tvm import tirx

from .._dataclasses import dataclass
from .attention_code import (
    STEPS,
    TileOfRows,
    biased,
    exponentials,
    masked,
    pack_keys,
    pack_mask,
    pack_values,
    products,
    score_of_key,
    unless_masked,
    weighted,
)
from .builder import Size, T, constant, in_parallel, integer, kernel, local, loop, memory
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
    nothing : str
        What a row gives whose columns are all left out: ``"nan"``, as a softmax; ``"zero"``; ``"zero if masked"``,
        which is NaN where it is not the mask that leaves them out; ``"zero or nan"``, which makes zeros of rows that
        are NaN for whatever reason, too.
    """

    inner: int
    width: int
    heads: int
    scale: float
    mask: tuple[bool, bool, bool, bool]
    is_one_row: bool
    lanes: int
    nothing: str = "nan"

    def inverse(self, total: tirx.Expr, length: Size) -> tirx.Expr:
        """Return what the weights of a row are multiplied with, whose sum is `total`."""
        is_some = total != 0
        ways = {"nan": length > 0, "zero": is_some, "zero if masked": is_some, "zero or nan": total > 0}
        has_weight = ways[self.nothing]
        return T.Select(has_weight, constant(1) / total, constant(0))

    def weighed(self, total: tirx.Expr, inverse: tirx.Expr) -> tirx.Expr:
        """Return a result of a row, of which the sum of weighted values is `total`."""
        product = total * inverse
        has_weight = {"zero if masked": inverse != 0, "zero or nan": inverse > 0}.get(self.nothing)
        return product if has_weight is None else T.Select(has_weight, product, constant(0))

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

    def mask_shape(self, count: Size, rows: Size, columns: Size) -> tuple[Size, ...]:
        """Return the mask's shape for a number of matrices, their rows and columns."""
        whole = (tirx.floordiv(count, self.heads), self.heads, rows, columns)
        return tuple(size if is_whole else 1 for size, is_whole in zip(whole, self.mask, strict=True))

    def masked_at(self, at: Size, row: Size, column: Size) -> tuple[Size, ...]:
        """Return where the mask is read for an element of the scores."""
        index = (tirx.floordiv(at, self.heads), tirx.floormod(at, self.heads), row, column)
        return tuple(i if is_whole else 0 for i, is_whole in zip(index, self.mask, strict=True))


def attention(shape: AttentionShape) -> tirx.PrimFunc:
    """Return the kernel ``out[n] = softmax(query[n] @ key[n].T * scale + mask) @ value[n]``.

    Query is (count, rows, inner), key (count, columns, inner), value (count, columns, width), mask of rank 4, all
    float32; count, rows and columns are known at run time. Rows beyond the last are copies of it, and columns beyond
    the last have no weight, so that no vector is cut. Of no columns the sum is 0; of columns that the mask leaves out
    by an infinite number what :attr:`AttentionShape.nothing` says.
    """
    function = _one_row(shape) if shape.is_one_row else _rows(shape)
    return with_vector_math(function)


def _rows(s: AttentionShape) -> tirx.PrimFunc:
    rows, columns, inner, width, shares_mask = s.rows, s.columns, s.inner, s.width, not s.mask[2]
    with kernel() as builder:
        n, height, length = (tirx.Var(name, "int64") for name in ("n", "height", "length"))
        query, key, value, mask, out = _buffers(s, n, height, length)
        with in_parallel(n) as at:
            blocks = T.Bind(T.ceildiv(length, integer(columns)))
            steps = T.Bind(T.ceildiv(length, integer(STEPS)) * integer(STEPS))
            tiles = T.Bind(T.ceildiv(height, integer(rows)))
            keys, values = memory(blocks * (inner * columns)), memory(steps * width)
            bias, score = memory(blocks * columns), memory(blocks * (_TILES * rows * columns))
            total, most, sums = local(rows * columns), local(columns), local(columns)
            inverse = local(_TILES * rows)
            pack_keys(keys, key, at, length, blocks, s)
            pack_values(values, value, at, length, steps, s)
            if shares_mask:
                pack_mask(bias, mask, at, length, blocks, s)
            with loop(T.ceildiv(tiles, integer(_TILES))) as group:
                count = T.Bind(T.min(integer(_TILES), tiles - group * _TILES))
                begin = T.Bind(group * (_TILES * rows))
                with loop(blocks) as block, loop(count) as tile:
                    some = TileOfRows(at, begin + tile * rows, height, tile * rows)
                    products(total, query, keys, some, block, s)
                    if shares_mask:
                        biased(score, total, bias, some, block, blocks, s)
                    else:
                        masked(score, total, mask, some, block, blocks, length, s)
                with loop(count * rows) as r:
                    exponentials(score, r * (blocks * columns), blocks, most, sums, columns)
                    T.buffer_store(inverse, s.inverse(sums[0], length), [r])
                    if s.nothing == "zero if masked":
                        unless_masked(inverse, r, mask, (at, T.min(begin + r, height - 1)), length, s)
                with T.serial(width // s.wide) as block, loop(count) as tile:
                    some = TileOfRows(at, begin + tile * rows, height, tile * rows)
                    weighted(out, total, (score, inverse), values, some, block, (blocks, steps), s)
    return builder.get()


def _one_row(s: AttentionShape) -> tirx.PrimFunc:
    lanes, width = s.lanes, s.width
    with kernel() as builder:
        n, length = (tirx.Var(name, "int64") for name in ("n", "length"))
        query, key, value, mask, out = _buffers(s, n, 1, length)
        with in_parallel(n) as at:
            blocks = T.Bind(T.ceildiv(length, integer(lanes)))
            score = memory(blocks * lanes)
            part, most, sums, total = local(lanes), local(lanes), local(lanes), local(width)
            inverse = local(1)
            with loop(blocks * lanes) as j:
                score_of_key(score, part, (query, key, mask), at, j, length, s)
            exponentials(score, 0, blocks, most, sums, lanes)
            with T.vectorized(width) as c:
                T.buffer_store(total, constant(0), [c])
            with loop(length) as j, T.vectorized(width) as c:
                T.buffer_store(total, total[c] + score[j] * value[at, j, c], [c])
            T.buffer_store(inverse, s.inverse(sums[0], length), [0])
            if s.nothing == "zero if masked":
                unless_masked(inverse, 0, mask, (at, 0), length, s)
            with T.vectorized(width) as c:
                T.buffer_store(out, s.weighed(total[c], inverse[0]), [at, 0, c])
    return builder.get()


def _buffers(s: AttentionShape, n: tirx.Var, height: Size, length: tirx.Var) -> list[tirx.Buffer]:
    """Return query, key, value, mask and result of the kernel at hand."""
    shapes = {
        "query": (n, height, s.inner),
        "key": (n, length, s.inner),
        "value": (n, length, s.width),
        "mask": s.mask_shape(n, height, length),
        "out": (n, height, s.width),
    }
    handles = {name: T.arg(name, T.handle()) for name in shapes}
    return [T.match_buffer(handles[name], shape, "float32") for name, shape in shapes.items()]
