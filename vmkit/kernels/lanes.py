"""Code for whole vectors: transposed squares of them, their sums, and elements that are apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import tirx

from .builder import T, reinterpreted, shuffled

__all__ = ["spaced", "sums_of", "transposed", "transposed_together"]

_BITS = 32  # of the elements that squares of four are made of
_PART_BITS = 128  # of a part of a vector in which elements are shuffled in one step, whatever its width
_PART = 4  # elements of a vector that are shuffled among themselves in one step, whatever its width


def transposed(rows: Sequence[tirx.Expr], lanes: int, bits: int = 32) -> list[tirx.Expr]:
    """Return the columns of a square of as many vectors as each has lanes, which are a power of 2.

    Of elements of 32 bits, first the squares of four are transposed, which never leaves parts of 128 bits, and then
    squares of those parts. Wider ones are exchanged among more and more lanes; of narrower ones, which fill no more
    than 128 bits, each vector is interleaved with the one half of the square further on, until all are.
    """
    if lanes == 1:
        return list(rows)
    if bits > _BITS or lanes == 2:
        return _exchanged_all(list(rows), 1, lanes)
    if bits < _BITS:
        return _interleaved(list(rows), lanes)
    made: list[tirx.Expr] = []
    for first in range(0, lanes, _PART):
        a, b, c, d = rows[first : first + _PART]
        low, high = (0, 4, 1, 5), (2, 6, 3, 7)
        ab, cd = ([_in_parts(x, y, order, lanes) for order in (low, high)] for x, y in ((a, b), (c, d)))
        for x, y in zip(ab, cd, strict=True):
            made += [_in_parts(x, y, order, lanes) for order in ((0, 1, 4, 5), (2, 3, 6, 7))]
    return _exchanged_all(made, _PART, lanes)


def transposed_together(rows: Sequence[tirx.Expr], side: int) -> list[tirx.Expr]:
    """Return the columns of squares of integers that lie side by side, each in parts of vectors of 128 bits.

    `rows` are those of the squares one after the other, each a part, which is joined with those at its place in the
    others. In pairs of rows elements are interleaved, then pairs of them, and so on: the wider they are the fewer
    numbers say how, which takes most of the time to compile.
    """
    first, count = tvm.DataType(str(rows[0].ty.dtype)), len(rows) // side
    order, whole = [tirx.IntImm("int32", i) for i in range(2 * count)], f"uint64x{2 * count}"
    halves = [reinterpreted("uint64x2", row) for row in rows]
    joined = [T.Bind(tirx.Shuffle([halves[i * side + at] for i in range(count)], order)) for at in range(side)]

    def columns(vectors: list[tirx.Expr], bits: int) -> list[tirx.Expr]:
        if len(vectors) == 1:
            return vectors
        part, lanes = _PART_BITS // bits, _PART_BITS // bits * count
        firsts = range(0, lanes, part)
        wide = [reinterpreted(f"uint{bits}x{lanes}", v) if bits < 64 else v for v in vectors]
        made = []
        for half in (0, part // 2):
            order = [first + half + at // 2 + at % 2 * lanes for first in firsts for at in range(part)]
            pairs = zip(wide[::2], wide[1::2], strict=True)
            made += columns([reinterpreted(whole, _picked(a, b, order)) for a, b in pairs], 2 * bits)
        return made

    dtype = f"{str(first).partition('x')[0]}x{side * count}"
    return [reinterpreted(dtype, column) for column in columns(joined, int(first.bits))]


def sums_of(vectors: Sequence[tirx.Expr], lanes: int) -> tirx.Expr:
    """Return the vector of the sums of as many vectors as each has lanes.

    Pairs are halved together, so that each step has half of the vectors.
    """
    rest, step = list(vectors), 1
    while step < lanes:
        halved = []
        for first, second in zip(rest[::2], rest[1::2], strict=True):
            a, b = _exchanged(first, second, step, lanes)
            halved.append(T.Bind(a + b))
        rest, step = halved, step * 2
    return rest[0]


def spaced(vector_at: Callable[[int], tirx.Expr], step: int, lanes: int) -> tirx.Expr:
    """Return the vector of elements `step` apart, of as many vectors; the last of these ends with the last element.

    Each shuffle adds the elements of one vector to those found before.
    """
    last = (lanes - 1) * step
    found, places = vector_at(0), [lane * step for lane in range(lanes)]
    for number in range(1, step):
        begin = min(number * lanes, last - lanes + 1)
        new = [lane * step - begin for lane in range(lanes)]
        order = [
            place if lane * step < number * lanes else lanes + min(at, lanes - 1)
            for lane, (place, at) in enumerate(zip(places, new, strict=True))
        ]
        found, places = shuffled(found, vector_at(begin), order), list(range(lanes))
    return found


def _exchanged_all(made: list[tirx.Expr], step: int, lanes: int) -> list[tirx.Expr]:
    """Transpose a square of squares, each of `step` lanes and transposed in itself."""
    while step < lanes:
        for i in range(lanes):
            if not i & step:
                made[i], made[i | step] = _exchanged(made[i], made[i | step], step, lanes)
        step *= 2
    return made


def _interleaved(made: list[tirx.Expr], lanes: int) -> list[tirx.Expr]:
    """Transpose a square by interleaving vectors with those half of it further on, once for each doubling."""
    half = lanes // 2
    orders = [[lane // 2 + begin + lane % 2 * lanes for lane in range(lanes)] for begin in (0, half)]
    for _ in range(half.bit_length()):
        made = [_picked(made[i], made[i + half], order) for i in range(half) for order in orders]
    return made


def _exchanged(a: tirx.Expr, b: tirx.Expr, step: int, lanes: int) -> tuple[tirx.Expr, tirx.Expr]:
    """Return two vectors with every second group of `step` lanes of the first exchanged for one of the second."""
    near = [j if not j & step else lanes + j - step for j in range(lanes)]
    far = [j + step if not j & step else lanes + j for j in range(lanes)]
    return _picked(a, b, near), _picked(a, b, far)


def _in_parts(a: tirx.Expr, b: tirx.Expr, order: Sequence[int], lanes: int) -> tirx.Expr:
    """Return what an order of four picks of each part of two vectors, of which the second counts from four on."""
    parts = range(0, lanes, _PART)
    return _picked(a, b, [part + (i if i < _PART else lanes + i - _PART) for part in parts for i in order])


def _picked(a: tirx.Expr, b: tirx.Expr, indices: Sequence[int]) -> tirx.Var:
    return T.Bind(shuffled(a, b, indices))
