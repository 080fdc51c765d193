"""The kernel of a Fourier transform, written in loops.

A length is taken apart into factors of 4, 2 and odd primes; each is one pass of Stockham's algorithm, which sorts as it
goes (Van Loan, "Computational frameworks for the fast Fourier transform", 1992, section 1.7). Several rows are
transformed at once, so that a vector holds the same element of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from ..ir import dims
from ..ir.types import Dim
from .kernel import const, grid

__all__ = ["Stockham", "rows_at_once", "turns_of"]

_ROWS = 16  # transformed at once


def rows_at_once(rows: Dim) -> int:
    """Return how many of so many rows to transform at once: of few, no more than there are, up to a power of two."""
    known = dims.simplify(rows)
    return min(_ROWS, 1 << max(known - 1, 0).bit_length()) if isinstance(known, int) else _ROWS


def turns_of(length: tirx.Expr, dtype: str, *, inverse: bool) -> list[te.Tensor]:
    """Return the parts of exp(i 2 pi k / length) for all k; of exp(-i 2 pi k / length) in the forward transform.

    They are stages of a kernel of their own, in which rules make vectors.
    """
    step = tirx.const((2 if inverse else -2) * math.pi, "float64")

    def turn(function: Callable[[tirx.Expr], tirx.Expr], k: tirx.Expr) -> tirx.Expr:
        return function(k.astype("float64") * step / length.astype("float64")).astype(dtype)

    return [te.compute([length], partial(turn, function), name="turns") for function in (tirx.cos, tirx.sin)]


class Stockham:
    """The statements of a transform; complex numbers are pairs of expressions.

    Parameters
    ----------
    outputs : list of buffers
        The result, the rows at work in two halves, and five integers.
    x : buffer
        The signals: before the axis, along it, after it, the parts of a number.
    turns : sequence of buffers
        The parts of :func:`turns_of`.
    length : tirx.Expr
        How long a transformed signal is.
    inverse, onesided : bool
        As in :class:`vmkit.relay.op.fourier.FourierAttrs`.
    has_vectors : bool
        Whether the target computes with as many numbers at once as there are rows.
    """

    def __init__(
        self,
        outputs: list[tirx.Buffer],
        x: tirx.Buffer,
        turns: Sequence[tirx.Buffer],
        length: tirx.Expr,
        *,
        inverse: bool,
        onesided: bool,
        has_vectors: bool,
    ) -> None:
        self.out, self.work, self.state = outputs
        self.turns = turns
        self.x, self.length, self.inverse = x, length, inverse
        self.wide = str(self.work.dtype)
        self.rows = int(self.work.shape[-1])
        self.lanes = T.vectorized if has_vectors and self.rows > 1 else T.serial
        self.mirrors = inverse and onesided
        # Neighbours of a real signal of even length are the parts of one number: half as many are transformed.
        real = dims.equal(x.shape[-1], 1) is True and not self.mirrors
        is_even = tirx.floormod(length, const(2)) == 0
        self.fold = T.bind(tirx.Select(is_even, const(2), const(1))) if real else const(1)
        self.points = T.bind(tirx.floordiv(length, self.fold))
        self.is_real = real

    def write(self) -> None:
        rows = self.x.shape[0] * self.x.shape[2]
        with grid([tirx.floordiv(rows + (self.rows - 1), const(self.rows))]) as (block,):
            with grid([self.rows]) as (lane,):
                self._read(tirx.min(block * self.rows + lane, rows - 1), lane)
            # What is left of the points, the product of the factors done, and which half of `work` is current.
            self._set(self.points, const(1), const(0))
            with T.While(self.state[0] > 1):
                self._choose_factor()
                self._pass()
                factor = T.bind(self.state[3])
                self._set(tirx.floordiv(self.state[0], factor), self.state[1] * factor, 1 - self.state[2])
            with grid([self.rows]) as (lane,), T.If(block * self.rows + lane < rows), T.Then():
                self._give(block * self.rows + lane, lane)

    def _set(self, *values: tirx.Expr) -> None:
        for at, value in enumerate(values):
            T.buffer_store(self.state, value, [const(at)])

    def _count(self, dtype: str) -> tirx.Expr:
        return self.length.astype(dtype)

    def _place(self, row: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
        """Return where a row lies: before and after the axis."""
        after = self.x.shape[2]
        return T.bind(tirx.floordiv(row, after)), T.bind(tirx.floormod(row, after))

    def _read(self, row: tirx.Expr, lane: tirx.Expr) -> None:
        """Copy a row; past its end is 0, and the half that a onesided spectrum leaves out mirrors the other."""
        _, extent, _, numbers = self.x.shape
        first, last = self._place(row)
        mirrored = (lambda k: k > tirx.floordiv(self.length, const(2))) if self.mirrors else None
        with grid([self.points]) as (k,):
            for part in (0, 1):
                source, own = k, const(part)
                here = own < numbers
                if self.is_real:
                    source, own, here = k * self.fold + part, const(0), part < self.fold
                elif mirrored is not None:
                    source = tirx.Select(mirrored(k), self.length - k, k)
                value = self.x[first, source, last, own].astype(self.wide)
                value = tirx.if_then_else(tirx.all(source < extent, here), value, tirx.const(0, self.wide))
                if part and mirrored is not None:
                    value = tirx.Select(mirrored(k), -value, value)
                T.buffer_store(self.work, value, [const(0), k, const(part), lane])

    def _give(self, row: tirx.Expr, lane: tirx.Expr) -> None:
        first, last = self._place(row)
        divisor = self._count(self.wide) if self.inverse else tirx.const(1, self.wide)
        with grid([self.out.shape[1]]) as (k,):
            value = self._unfolded(k, lane) if self.is_real else self._value(self.state[2], k, lane)
            for part in range(int(self.out.shape[3])):
                number = (value[part] / divisor).astype(str(self.out.dtype))
                T.buffer_store(self.out, number, [first, k, last, const(part)])

    def _unfolded(self, k: tirx.Expr, lane: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
        """Return an element of a real signal's transform: that of its even elements and, turned, that of its odd ones.

        Both are in the transform of the numbers made of them, as the part that is its own mirror and the part that is
        the opposite.
        """
        at = T.bind(tirx.floormod(k, self.points))
        here = self._value(self.state[2], at, lane)
        there = self._value(self.state[2], T.bind(tirx.Select(at == 0, at, self.points - at)), lane)
        half = tirx.const(0.5, self.wide)
        even = ((here[0] + there[0]) * half, (here[1] - there[1]) * half)
        odd = ((here[1] + there[1]) * half, (there[0] - here[0]) * half)
        turned = _product(odd, (self.turns[0][k], self.turns[1][k]))
        both = _sum(even, turned)
        re, im = (tirx.Select(self.fold == 1, a, b) for a, b in zip(here, both, strict=True))
        return re, im

    def _choose_factor(self) -> None:
        """Write the next factor: 4, 2, or the smallest odd prime."""
        left = T.bind(self.state[0])
        even = tirx.Select(tirx.floormod(left, const(4)) == 0, const(4), const(2))
        T.buffer_store(self.state, tirx.Select(tirx.floormod(left, const(2)) == 0, even, const(3)), [const(3)])
        with T.While(tirx.floormod(left, self.state[3]) != 0):
            T.buffer_store(self.state, self.state[3] + 2, [const(3)])
            with T.If(self.state[3] * self.state[3] > left), T.Then():
                T.buffer_store(self.state, left, [const(3)])

    def _pass(self) -> None:
        """Transform by one factor: from each `factor` elements, as far apart as they can be, to as many neighbours."""
        left, done, now, factor = (T.bind(self.state[k]) for k in range(4))
        apart = T.bind(tirx.floordiv(left, factor))
        with T.If(factor == 4):
            with T.Then():
                self._butterflies(4, done, now, apart)
            with T.Else(), T.If(factor == 2):
                with T.Then():
                    self._butterflies(2, done, now, apart)
                with T.Else():
                    self._sums(factor, done, now, apart)

    def _butterflies(self, factor: int, done: tirx.Expr, now: tirx.Expr, apart: tirx.Expr) -> None:
        with grid([apart, done]) as (p, q):
            turns = [self._turn(done * p * u) for u in range(1, factor)]
            with self.lanes(0, self.rows) as lane:
                given = [self._value(now, q + done * (p + apart * v), lane) for v in range(factor)]
                if factor == 2:
                    made = [_sum(*given), _difference(*given)]
                else:
                    a, b, c, d = given
                    even, odd = _sum(a, c), _difference(a, c)
                    crossed = _sum(b, d)
                    re, im = _difference(b, d)
                    # The difference times i, or times -i in the forward transform.
                    turned = (-im, re) if self.inverse else (im, -re)
                    made = [
                        _sum(even, crossed),
                        _sum(odd, turned),
                        _difference(even, crossed),
                        _difference(odd, turned),
                    ]
                for u, value in enumerate(made):
                    self._keep(now, q + done * (p * factor + u), lane, _product(value, turns[u - 1]) if u else value)

    def _sums(self, factor: tirx.Expr, done: tirx.Expr, now: tirx.Expr, apart: tirx.Expr) -> None:
        with grid([apart, done, factor]) as (p, q, u):
            target = q + done * (p * factor + u)
            zero = tirx.const(0, self.wide)
            with self.lanes(0, self.rows) as lane:
                self._keep(now, target, lane, (zero, zero))
            # How far the elements that are added are turned, modulo a full turn.
            T.buffer_store(self.state, tirx.floormod(done * u * p, self.points), [const(4)])
            step = T.bind(tirx.floormod(done * u * apart, self.points))
            with grid([factor]) as (v,):
                turn = self._turn(self.state[4])
                turned = T.bind(self.state[4] + step)
                beyond = tirx.Select(turned >= self.points, self.points, const(0))
                T.buffer_store(self.state, turned - beyond, [const(4)])
                with self.lanes(0, self.rows) as lane:
                    added = _product(self._value(now, q + done * (p + apart * v), lane), turn)
                    self._keep(now, target, lane, _sum(self._value(1 - now, target, lane), added))

    def _turn(self, index: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
        at = T.bind(index * self.fold)
        return T.bind(self.turns[0][at]), T.bind(self.turns[1][at])

    def _value(self, half: tirx.Expr, index: tirx.Expr, lane: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
        return self.work[half, index, const(0), lane], self.work[half, index, const(1), lane]

    def _keep(self, now: tirx.Expr, index: tirx.Expr, lane: tirx.Expr, value: tuple[tirx.Expr, tirx.Expr]) -> None:
        for part in (0, 1):
            T.buffer_store(self.work, value[part], [1 - now, index, const(part), lane])


def _sum(a: tuple[tirx.Expr, tirx.Expr], b: tuple[tirx.Expr, tirx.Expr]) -> tuple[tirx.Expr, tirx.Expr]:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: tuple[tirx.Expr, tirx.Expr], b: tuple[tirx.Expr, tirx.Expr]) -> tuple[tirx.Expr, tirx.Expr]:
    return a[0] - b[0], a[1] - b[1]


def _product(a: tuple[tirx.Expr, tirx.Expr], b: tuple[tirx.Expr, tirx.Expr]) -> tuple[tirx.Expr, tirx.Expr]:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]
