"""Fourier transforms along any axis, of any length, both of which may be read at run time.

A length is taken apart into factors of 4, 2 and odd primes; each is one pass of Stockham's algorithm, which sorts as it
goes (Van Loan, "Computational frameworks for the fast Fourier transform", 1992, section 1.7). Several rows are
transformed at once, so that a vector holds the same element of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Any as AnyDim
from ..ir.types import Dim as Size
from ..ir.types import TensorType, Type
from .attrs import Attrs, Bool, Dim, attrs_node
from .create import fill, read_shape, shape_vector
from .elementwise import require_tensor
from .kernel import const, grid, indexed, loops
from .registry import OpPattern, operator
from .shape import reshape_value

__all__: list[str] = []

_ROWS = 16  # transformed at once


@attrs_node("relay.attrs.ContribFourierAttrs")
class FourierAttrs(Attrs):
    """Attributes of contrib.fourier; axis and length are Any where they are to be read from axis_value and length_value."""

    axis: Dim
    length: Dim
    inverse: Bool = False
    onesided: Bool = False


@operator(
    "contrib.fourier", "data", "axis_value", "length_value", attrs=FourierAttrs, level=10, pattern=OpPattern.OPAQUE
)
class Fourier:
    """The discrete Fourier transform along an axis of numbers whose parts, real and imaginary, are the last dimension.

    A signal is cut or filled with zeros to `length` elements. The inverse divides by the length. The forward transform
    is onesided when it gives length // 2 + 1 frequencies, the inverse when it takes them, and gives real numbers.
    axis_value and length_value are vectors of one integer.
    """

    @staticmethod
    def relation(attrs: FourierAttrs, data: Type, axis_value: Type, length_value: Type) -> Type:
        source = require_tensor(data, "data")
        shape, rank = list(source.shape), len(source.shape)
        if rank < 2 or not source.dtype.startswith(("float", "bfloat")):
            raise TypeCheckError(f"data must hold signals of floats, the parts of a number last, not {source}")
        if isinstance(shape[-1], int) and shape[-1] not in (1, 2):
            raise TypeCheckError(f"a number has 1 part or 2; the last dimension of {source} has {shape[-1]}")
        for ty, name in ((axis_value, "axis_value"), (length_value, "length_value")):
            if shape_vector(ty, name) != 1:
                raise TypeCheckError(f"{name} must be a vector of one integer")
        if isinstance(attrs.length, int) and attrs.length < 1:
            raise TypeCheckError(f"length is {attrs.length}; it must be at least 1")
        parts = 1 if attrs.inverse and attrs.onesided else 2
        if dims.is_any(attrs.axis):
            return TensorType([AnyDim()] * (rank - 1) + [parts], source.dtype)
        if not isinstance(attrs.axis, int) or not 0 <= attrs.axis < rank - 1:
            raise TypeCheckError(f"axis is {attrs.axis}; it must be from 0 to {rank - 2}, before the parts of a number")
        if dims.equal(shape[attrs.axis], 0):
            raise TypeCheckError(f"the signals of {source} along dimension {attrs.axis} have no element")
        shape[attrs.axis], shape[-1] = _bins(attrs, attrs.length), parts
        return TensorType(shape, source.dtype)

    @staticmethod
    def lower(
        context: Any, attrs: FourierAttrs, data: relax.Expr, axis_value: relax.Expr, length_value: relax.Expr
    ) -> Any:
        name, shape = context.current.name, context.shape(data)
        *sizes, numbers = shape
        if not isinstance(numbers, int):
            number = dims.as_expr(numbers)
            context.require(tirx.any(number == 1, number == 2), f"{name}: a number of the data has 1 part or 2")
        at = _axis(context, axis_value, len(sizes)) if dims.is_any(attrs.axis) else attrs.axis
        (wanted,) = read_shape(context, length_value) if dims.is_any(attrs.length) else context.dims([attrs.length])
        before, extent, after = _around(sizes, at)
        for what, size in (("the length", wanted), ("the signal", extent)):
            if not isinstance(size, int):
                context.require(dims.as_expr(size) >= 1, f"{name}: {what} has no element")
        parts, bins = (1 if attrs.inverse and attrs.onesided else 2), _bins(attrs, wanted)
        result = [dims.select(dims.as_expr(at) == k, bins, d) for k, d in enumerate(sizes)] + [parts]
        dtype = str(data.ty.dtype)
        if any(isinstance(d, int) and d == 0 for d in result):
            return fill(context, result, 0.0, dtype)
        wide = "float64" if dtype == "float64" else "float32"
        x = reshape_value(context, data, [before, extent, after, numbers])
        results: list[Any] = [
            ([before, bins, after, parts], dtype),
            ([wanted, 2], wide),
            ([2, wanted, 2, _ROWS], wide),
            ([4], "int64"),
        ]

        def body(outputs: list[Any], x: Any, given: list[Any]) -> None:
            _Kernel(outputs, x, given[0], wide, attrs.inverse, attrs.onesided).write()

        y = loops(context, results, body, x, [dims.as_expr(wanted)])[0]
        return reshape_value(context, y, result)


def _bins(attrs: FourierAttrs, length: Size) -> Size:
    """Return how many elements a transformed signal has."""
    if dims.is_any(length):
        return AnyDim()
    return dims.add(dims.floordiv(length, 2), 1) if attrs.onesided and not attrs.inverse else length


def _axis(context: Any, axis: relax.Expr, rank: int) -> Size:
    """Return the axis, read at run time and counted from the front of the `rank` dimensions before the parts."""

    def resolved(i: Any, axis: te.Tensor) -> Any:
        given = axis(const(0)).astype("int64")
        at = tirx.Select(given < 0, given + (rank + 1), given)
        valid = tirx.all(at >= 0, at < rank)
        return tirx.Select(i[0] == 0, tirx.Select(valid, at, const(0)), valid.astype("int64"))

    at, valid = context.read_dims(indexed(context, [2], resolved, axis, name="axis"))
    message = f"{context.current.name}: the axis is none of the {rank} dimensions before the parts of a number"
    context.require_equal(valid, 1, message)
    return at


def _around(sizes: Sequence[Size], axis: Size) -> tuple[Size, Size, Size]:
    """Return the product of the sizes before an axis, its own, and the product of those after it."""
    if isinstance(axis, int):
        return dims.product(sizes[:axis]), sizes[axis], dims.product(sizes[axis + 1 :])
    at = dims.as_expr(axis)
    before = dims.product([dims.select(at > k, d, 1) for k, d in enumerate(sizes)])
    own = dims.product([dims.select(at == k, d, 1) for k, d in enumerate(sizes)])
    return before, own, dims.product([dims.select(at < k, d, 1) for k, d in enumerate(sizes)])


class _Kernel:
    """The statements of a transform; complex numbers are pairs of expressions."""

    def __init__(self, outputs: list[Any], x: Any, length: Any, wide: str, inverse: bool, onesided: bool) -> None:
        self.out, self.turns, self.work, self.state = outputs
        self.x, self.length, self.wide, self.inverse, self.onesided = x, length, wide, inverse, onesided

        self.mirrors = inverse and onesided
        # Neighbours of a real signal of even length are the parts of one number: half as many are transformed.
        real = dims.equal(x.shape[-1], 1) is True and not self.mirrors
        is_even = tirx.floormod(length, const(2)) == 0
        self.fold = T.bind(tirx.Select(is_even, const(2), const(1))) if real else const(1)
        self.points = T.bind(tirx.floordiv(length, self.fold))
        self.is_real = real

    def write(self) -> None:
        self._write_turns()
        rows = self.x.shape[0] * self.x.shape[2]
        with grid([tirx.floordiv(rows + (_ROWS - 1), const(_ROWS))]) as (block,):
            with grid([_ROWS]) as (lane,):
                self._read(tirx.min(block * _ROWS + lane, rows - 1), lane)
            # What is left of the points, the product of the factors done, and which half of `work` is current.
            self._set(self.points, const(1), const(0))
            with T.While(self.state[0] > 1):
                self._choose_factor()
                self._pass()
                factor = T.bind(self.state[3])
                self._set(tirx.floordiv(self.state[0], factor), self.state[1] * factor, 1 - self.state[2])
            with grid([_ROWS]) as (lane,), T.If(block * _ROWS + lane < rows), T.Then():
                self._give(block * _ROWS + lane, lane)

    def _set(self, *values: Any) -> None:
        for at, value in enumerate(values):
            T.buffer_store(self.state, value, [const(at)])

    def _write_turns(self) -> None:
        """Write exp(i 2 pi k / length) for all k; exp(-i 2 pi k / length) in the forward transform."""
        sign = 1 if self.inverse else -1
        with grid([self.length]) as (k,):
            angle = T.bind(k.astype("float64") * tirx.const(sign * 2 * math.pi, "float64") / self._count("float64"))
            for part, function in enumerate((tirx.cos, tirx.sin)):
                T.buffer_store(self.turns, function(angle).astype(self.wide), [k, const(part)])

    def _count(self, dtype: str) -> Any:
        return self.length.astype(dtype)

    def _place(self, row: Any) -> tuple[Any, Any]:
        """Return where a row lies: before and after the axis."""
        after = self.x.shape[2]
        return T.bind(tirx.floordiv(row, after)), T.bind(tirx.floormod(row, after))

    def _read(self, row: Any, lane: Any) -> None:
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

    def _give(self, row: Any, lane: Any) -> None:
        first, last = self._place(row)
        divisor = self._count(self.wide) if self.inverse else tirx.const(1, self.wide)
        with grid([self.out.shape[1]]) as (k,):
            value = self._unfolded(k, lane) if self.is_real else self._value(self.state[2], k, lane)
            for part in range(int(self.out.shape[3])):
                number = (value[part] / divisor).astype(str(self.out.dtype))
                T.buffer_store(self.out, number, [first, k, last, const(part)])

    def _unfolded(self, k: Any, lane: Any) -> tuple[Any, Any]:
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
        turned = _product(odd, (self.turns[k, const(0)], self.turns[k, const(1)]))
        both = _sum(even, turned)
        return tuple(tirx.Select(self.fold == 1, a, b) for a, b in zip(here, both, strict=True))

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

    def _butterflies(self, factor: int, done: Any, now: Any, apart: Any) -> None:
        with grid([apart, done]) as (p, q):
            turns = [self._turn(done * p * u) for u in range(1, factor)]
            with T.vectorized(0, _ROWS) as lane:
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

    def _sums(self, factor: Any, done: Any, now: Any, apart: Any) -> None:
        with grid([apart, done, factor]) as (p, q, u):
            target = q + done * (p * factor + u)
            zero = tirx.const(0, self.wide)
            with T.vectorized(0, _ROWS) as lane:
                self._keep(now, target, lane, (zero, zero))
            with grid([factor]) as (v,):
                turn = self._turn(tirx.floormod(done * u * (p + apart * v), self.points))
                with T.vectorized(0, _ROWS) as lane:
                    added = _product(self._value(now, q + done * (p + apart * v), lane), turn)
                    self._keep(now, target, lane, _sum(self._value(1 - now, target, lane), added))

    def _turn(self, index: Any) -> tuple[Any, Any]:
        at = T.bind(index * self.fold)
        return T.bind(self.turns[at, const(0)]), T.bind(self.turns[at, const(1)])

    def _value(self, half: Any, index: Any, lane: Any) -> tuple[Any, Any]:
        return self.work[half, index, const(0), lane], self.work[half, index, const(1), lane]

    def _keep(self, now: Any, index: Any, lane: Any, value: tuple[Any, Any]) -> None:
        for part in (0, 1):
            T.buffer_store(self.work, value[part], [1 - now, index, const(part), lane])


def _sum(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return a[0] - b[0], a[1] - b[1]


def _product(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]
