"""The least and the largest of all elements of a tensor, for both of which it is read once.

Elements that are no numbers are passed over, and where there are no others the extremes are infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod

from tvm import tirx
from tvm.sym import Analyzer

from ..relay.op.ordering import first_largest, first_smallest
from .builder import T, either, in_parallel, integer, loop, memory, ramp, register, shuffled, splat

__all__ = ["extremes"]

_VECTORS = 4  # of each extreme, so that one comparison need not wait for the last
_CHUNK = 1 << 15  # elements that are worth a core's attention

_PICKS = (first_smallest, first_largest)
_STARTS = (inf, -inf)


def extremes(lanes: int, results: Sequence[tirx.Buffer], data: tirx.Buffer) -> None:
    """Write the least and the largest of a tensor of float32 to two of no axes, by vectors of so many lanes."""
    size = Analyzer().simplify(prod(data.shape, start=integer(1)))
    data = T.decl_buffer([size], "float32", data=data.data, layout=None)

    def alone() -> None:
        _write(data, (integer(0), size), lanes, results, [])

    def shared() -> None:
        chunks = (size + (_CHUNK - 1)) // _CHUNK
        parts = [memory(chunks) for _ in results]
        with in_parallel(chunks) as chunk:
            begin = chunk * _CHUNK
            _write(data, (begin, tirx.Min(integer(_CHUNK), size - begin)), lanes, parts, [chunk])
        for part, result, pick in zip(parts, results, _PICKS, strict=True):
            T.buffer_store(result, part[0], [])
            with loop(chunks - 1) as further:
                T.buffer_store(result, pick(result[()], part[further + 1]), [])

    either(Analyzer().simplify(size > _CHUNK), shared, alone)


def _write(
    data: tirx.Buffer,
    span: tuple[tirx.Expr, tirx.Expr],
    lanes: int,
    outs: Sequence[tirx.Buffer],
    at: list[tirx.Expr],
) -> None:
    """Write the extremes of elements, which a begin and a count give, to their places.

    The last vectors begin earlier and look at some elements again, which changes no extreme.
    """
    begin, count = span
    width = _VECTORS * lanes
    found = [[register(lanes) for _ in range(_VECTORS)] for _ in outs]
    for registers, start in zip(found, _STARTS, strict=True):
        for each in registers:
            T.buffer_store(each, splat(start, lanes), [integer(0)])

    def look_at(first: tirx.Expr) -> None:
        for v in range(_VECTORS):
            value = T.Bind(data[ramp(first + v * lanes, lanes)])
            for registers, pick in zip(found, _PICKS, strict=True):
                T.buffer_store(registers[v], pick(registers[v][0], value), [integer(0)])

    with loop(count // width) as step:
        look_at(begin + step * width)
    either(Analyzer().simplify(count >= width), lambda: look_at(begin + count - width))
    for out, registers, pick in zip(outs, found, _PICKS, strict=True):
        T.buffer_store(out, _of_lanes([each[0] for each in registers], pick, lanes), at)

    def one_by_one() -> None:
        for out, pick in zip(outs, _PICKS, strict=True):
            with loop(count) as further:
                T.buffer_store(out, pick(out[tuple(at)], data[begin + further]), at)

    either(Analyzer().simplify(count < width), one_by_one)


def _of_lanes(vectors: Sequence[tirx.Expr], pick: Callable[..., tirx.Expr], lanes: int) -> tirx.Expr:
    """Return the extreme of all lanes of some vectors, none of which is NaN."""
    first, *others = vectors
    result = first
    for other in others:
        result = pick(result, other)
    step = lanes // 2
    while step:
        vector = T.Bind(result)
        result = pick(vector, shuffled(vector, vector, [(lane + step) % lanes for lane in range(lanes)]))
        step //= 2
    return tirx.Shuffle([T.Bind(result)], [tirx.IntImm("int32", 0)])
