"""Signals: Fourier transforms of whole ones and of their frames, windows, and the weights of the mel scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..context import Context
from ..dtype import dtype_name
from ..known import sizes
from ..registry import converter
from .conversion import casted
from .elementwise import binary
from .layout import to_shape

# -- integers that are inputs


def _integer(ctx: Context, value: Expr) -> tuple[Dim, Expr]:
    """Return an integer input: what is known of it, and the scalar of int64."""
    known = ctx.dims(value)
    if known is not None and len(known) == 1:
        return known[0], sizes(known[0])
    scalar = to_shape(value, []) if ctx.rank(value) else value
    return AnyDim(), casted(ctx, scalar, "int64")


def _size(ctx: Context, x: Expr, axis: int) -> tuple[Dim, Expr]:
    """Return a dimension of a tensor, as `_integer` does."""
    extent = ctx.shape(x)[axis]
    if not dims.is_any(extent):
        return extent, sizes(extent)
    return extent, relay.take(relay.shape_of(x, dtype="int64"), ctx.constant(axis, "int64"), axis=0)


def _vector(scalar: Expr) -> Expr:
    return relay.reshape(scalar, [1])


def _count(ctx: Context, known: Dim, scalar: Expr) -> Expr:
    """Return 0, 1, ... up to below a number."""
    if dims.is_any(known):
        return relay.arange(ctx.constant(0, "int64"), scalar, ctx.constant(1, "int64"), "int64")
    if isinstance(known, int) and known < 0:
        known = 0
    return ctx.positions(known, "int64")


# -- transforms


@converter("DFT", since=17)
def dft_along_attribute(
    ctx: Context, x: Expr, length: Expr | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Expr:
    return dft(ctx, x, length, ctx.constant(axis, "int64"), inverse=inverse, onesided=onesided)


@converter("DFT", since=20)
def dft(
    ctx: Context,
    x: Expr,
    length: Expr | None = None,
    axis: Expr | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Expr:
    rank = ctx.rank(x)
    if rank < 2:
        ctx.fail(f"the input is {ctx.type(x)}; a signal has at least 2 dimensions, the last one for parts of a number")
    at, where = _integer(ctx, ctx.constant(-2, "int64") if axis is None else axis)
    if isinstance(at, int):
        at = ctx.axis(at, rank)
        if at == rank - 1:
            ctx.fail("the axis is the last dimension, which holds the parts of a number")
        where = ctx.constant(at, "int64")
    elif not dims.is_any(at):
        at = AnyDim()
    if length is not None:
        size, scalar = _integer(ctx, length)
    else:
        size, scalar = _whole_length(ctx, x, at, where, bool(inverse and onesided))
    return _transformed(ctx, x, at, where, size, scalar, bool(inverse), bool(onesided))


def _whole_length(ctx: Context, x: Expr, at: Any, where: Expr, mirrored: bool) -> tuple[Dim, Expr]:
    """Return the length of a transform that is not told: all there is, or what half of it mirrors."""
    if isinstance(at, int):
        size, scalar = _size(ctx, x, at)
    else:
        shape = relay.shape_of(x, dtype="int64")
        size, scalar = AnyDim(), relay.take(shape, where, axis=0, mode="wrap")
    if not mirrored:
        return size, scalar
    doubled = AnyDim() if dims.is_any(size) else dims.mul(dims.sub(size, 1), 2)
    one, two = ctx.constant(1, "int64"), ctx.constant(2, "int64")
    return doubled, relay.multiply(relay.subtract(scalar, one), two)


def _transformed(
    ctx: Context, x: Expr, at: Any, where: Expr, size: Dim, scalar: Expr, inverse: bool, onesided: bool
) -> Expr:
    return build(
        "contrib.fourier",
        x,
        _vector(where),
        _vector(scalar),
        axis=at,
        length=size,
        inverse=inverse,
        onesided=onesided,
    )


@converter("STFT", since=17)
def stft(
    ctx: Context,
    x: Expr,
    frame_step: Expr,
    window: Expr | None = None,
    frame_length: Expr | None = None,
    *,
    onesided: int = 1,
) -> Expr:
    if ctx.rank(x) == 2:
        x = relay.expand_dims(x, 2)
    if ctx.rank(x) != 3:
        ctx.fail(f"the signal is {ctx.type(x)}; it has 3 dimensions: batch, elements, parts of a number")
    whole, whole_scalar = _size(ctx, x, 1)
    step, step_scalar = _positive(ctx, *_integer(ctx, frame_step), "frame_step")
    if frame_length is not None:
        given = _integer(ctx, frame_length)
    else:
        given = (whole, whole_scalar) if window is None else _size(ctx, window, 0)
    length, length_scalar = _positive(ctx, *given, "frame_length")
    if any(dims.is_any(d) for d in (whole, step, length)):
        frames: Dim = AnyDim()
    else:
        frames = dims.add(dims.floordiv(dims.sub(whole, length), step), 1)
    room = relay.floor_divide(relay.subtract(whole_scalar, length_scalar), step_scalar)
    frames_scalar = relay.add(room, ctx.constant(1, "int64"))
    starts = relay.multiply(_count(ctx, frames, frames_scalar), step_scalar)
    places = _count(ctx, length, length_scalar)
    parts = relay.take(x, relay.add(relay.expand_dims(starts, 1), places), axis=1)
    if window is not None:
        own = ctx.shape(window)[0]
        if dims.equal(own, length) is False:
            ctx.fail(f"the window has {own} elements, but a frame {length}")
        parts = relay.multiply(parts, relay.expand_dims(casted(ctx, window, ctx.dtype(x)), 1))
    return _transformed(ctx, parts, 2, ctx.constant(2, "int64"), length, length_scalar, False, bool(onesided))


def _positive(ctx: Context, known: Dim, scalar: Expr, name: str) -> tuple[Dim, Expr]:
    """Return a number that must be at least 1: an error of the import where it is known, else of the run."""
    if isinstance(known, int):
        if known < 1:
            ctx.fail(f"{name} is {known}; it must be at least 1")
    elif dims.is_any(known):
        holds = relay.greater_equal(scalar, ctx.constant(1, "int64"))
        scalar = build("dyn.require", scalar, holds, message=f"STFT: {name} must be at least 1")
    return known, scalar


# -- windows


def _window(op_type: str, coefficients: Sequence[float]) -> None:
    @converter(op_type, since=17)
    def convert(ctx: Context, size: Expr, *, output_datatype: int = 1, periodic: int = 1) -> Expr:
        """A sum of cosines over one turn, which a periodic window does not close."""
        known, scalar = _integer(ctx, size)
        if isinstance(known, int) and known < 0:
            ctx.fail(f"the size is {known}; it cannot be negative")
        whole, one = casted(ctx, scalar, "float64"), ctx.constant(1.0, "float64")
        # A symmetric window of one element is that element's turn 0.
        turns = whole if periodic else relay.maximum(relay.subtract(whole, one), one)
        at = relay.cast(_count(ctx, known, scalar), "float64")
        angle = relay.divide(relay.multiply(at, ctx.constant(2 * math.pi, "float64")), turns)
        total: Any = None
        for k, factor in enumerate(coefficients):
            term = binary(ctx, "multiply", relay.cos(binary(ctx, "multiply", angle, float(k))), factor)
            total = term if total is None else relay.add(total, term)
        return casted(ctx, total, dtype_name(output_datatype, "output_datatype"))


_window("HannWindow", (0.5, -0.5))
_window("HammingWindow", (25 / 46, -21 / 46))
_window("BlackmanWindow", (0.42, -0.5, 0.08))


# -- the mel scale


@converter("MelWeightMatrix", since=17)
def mel_weight_matrix(
    ctx: Context,
    num_mel_bins: Expr,
    dft_length: Expr,
    sample_rate: Expr,
    lower_edge_hertz: Expr,
    upper_edge_hertz: Expr,
    *,
    output_datatype: int = 1,
) -> Expr:
    """Triangles over the frequencies of a transform, whose corners lie evenly on the mel scale."""
    mels, mels_scalar = _integer(ctx, num_mel_bins)
    length, length_scalar = _integer(ctx, dft_length)
    _, rate = _integer(ctx, sample_rate)
    low, high = (_mel(ctx, e) for e in (lower_edge_hertz, upper_edge_hertz))
    two = ctx.constant(2, "int64")
    corners = AnyDim() if dims.is_any(mels) else dims.add(mels, 2)
    corners_scalar = relay.add(mels_scalar, two)
    step = relay.divide(relay.subtract(high, low), relay.cast(corners_scalar, "float64"))
    at = relay.add(relay.multiply(relay.cast(_count(ctx, corners, corners_scalar), "float64"), step), low)
    power = relay.exp(binary(ctx, "multiply", at, math.log(10) / 2595))
    hertz = binary(ctx, "multiply", binary(ctx, "subtract", power, 1.0), 700.0)
    scale = relay.cast(relay.add(length_scalar, ctx.constant(1, "int64")), "float64")
    edges = relay.floor(relay.divide(relay.multiply(hertz, scale), relay.cast(rate, "float64")))
    place = _count(ctx, mels, mels_scalar)
    left, centre, right = (relay.take(edges, binary(ctx, "add", place, k), axis=0) for k in range(3))
    bins = AnyDim() if dims.is_any(length) else dims.add(dims.floordiv(length, 2), 1)
    bins_scalar = relay.add(relay.floor_divide(length_scalar, two), ctx.constant(1, "int64"))
    row = relay.expand_dims(relay.cast(_count(ctx, bins, bins_scalar), "float64"), 1)
    zero = ctx.constant(0.0, "float64")
    rising, falling = _slope(ctx, left, centre, row), _slope(ctx, right, centre, row)
    up = relay.where(relay.logical_and(relay.greater_equal(row, left), relay.less_equal(row, centre)), rising, zero)
    inside = relay.logical_and(relay.greater(row, centre), relay.less(row, right))
    return casted(ctx, relay.where(inside, falling, up), dtype_name(output_datatype, "output_datatype"))


def _mel(ctx: Context, hertz: Expr) -> Expr:
    scalar = casted(ctx, to_shape(hertz, []) if ctx.rank(hertz) else hertz, "float64")
    ratio = binary(ctx, "add", binary(ctx, "divide", scalar, 700.0), 1.0)
    return binary(ctx, "multiply", relay.log(ratio), 2595 / math.log(10))


def _slope(ctx: Context, foot: Expr, top: Expr, at: Expr) -> Expr:
    """Return the line from 0 at the foot to 1 at the top; 1 where both are one place."""
    one = ctx.constant(1.0, "float64")
    width = relay.subtract(top, foot)
    steep = relay.equal(width, ctx.constant(0.0, "float64"))
    return relay.where(steep, one, relay.divide(relay.subtract(at, foot), relay.where(steep, one, width)))
