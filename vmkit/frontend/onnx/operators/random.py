"""Random numbers.

They are those of the Mersenne Twister, as numpy.random.RandomState(seed) gives them and the reference implementation of
ONNX draws them, one after the other in row-major order: the same at every run. A node without seed takes another one at
every run. A seed counts by the lowest 32 bits of its whole part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import relay
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..dtype import dtype_name
from ..registry import converter
from .conversion import casted
from .elementwise import binary

__all__ = ["drawn_like"]

_MOST_WORD = (1 << 32) - 1


@converter("RandomUniform")
def random_uniform(
    ctx: Context,
    *,
    shape: Sequence[int],
    dtype: int = 1,
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
) -> Expr:
    numbers = _drawn(ctx, "uniform", seed, list(shape))
    return _scaled(ctx, numbers, dtype_name(dtype, "dtype"), high - low, low)


@converter("RandomNormal")
def random_normal(
    ctx: Context,
    *,
    shape: Sequence[int],
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Expr:
    return _scaled(ctx, _drawn(ctx, "normal", seed, list(shape)), dtype_name(dtype, "dtype"), scale, mean)


@converter("RandomUniformLike")
def random_uniform_like(
    ctx: Context,
    x: Expr,
    *,
    dtype: int | None = None,
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
) -> Expr:
    return _scaled(ctx, drawn_like(ctx, "uniform", seed, x), _float_type(ctx, x, dtype), high - low, low)


@converter("RandomNormalLike")
def random_normal_like(
    ctx: Context,
    x: Expr,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Expr:
    return _scaled(ctx, drawn_like(ctx, "normal", seed, x), _float_type(ctx, x, dtype), scale, mean)


@converter("Bernoulli", since=15)
def bernoulli(ctx: Context, x: Expr, *, dtype: int | None = None, seed: float | None = None) -> Expr:
    """1 with the probability that stands there; every element takes one number."""
    number, chance = drawn_like(ctx, "uniform", seed, x), casted(ctx, x, "float64")
    # As numpy draws: by the side that is less likely.
    likely = relay.less_equal(number, chance)
    unlikely = relay.greater(number, relay.subtract(ctx.constant(1, "float64"), chance))
    drawn = relay.where(binary(ctx, "greater", chance, 0.5), likely, unlikely)
    return casted(ctx, drawn, ctx.dtype(x) if dtype is None else dtype_name(dtype, "dtype"))


@converter("Multinomial", since=7)
def multinomial(ctx: Context, x: Expr, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Expr:
    """Positions along the classes, by the logarithms of how likely they are."""
    if ctx.rank(x) != 2 or dims.equal(ctx.shape(x)[1], 0):
        ctx.fail(f"the input is {ctx.type(x)}; it is a matrix of a row for each draw, with at least one class")
    if sample_size < 0:
        ctx.fail(f"sample_size is {sample_size}; it cannot be negative")
    x = casted(ctx, x, "float64")
    sums = relay.cumsum(relay.exp(relay.subtract(x, relay.max(x, axis=1, keepdims=True))), axis=1)
    whole = relay.take(sums, ctx.constant([-1], "int64"), axis=1, mode="wrap")
    rows = ctx.shape(x)[0]
    if dims.is_any(rows):
        number = drawn_like(ctx, "uniform", seed, relay.repeat(whole, sample_size, 1))
    else:
        number = _drawn(ctx, "uniform", seed, [rows, sample_size])
    # The class drawn is the first whose sum is above: as many as there are before it are not.
    limit = relay.expand_dims(relay.multiply(number, whole), 2)
    below = relay.less_equal(relay.expand_dims(sums, 1), limit)
    return casted(ctx, relay.sum(relay.cast(below, "int32"), axis=2), dtype_name(dtype, "dtype"))


def _seed(ctx: Context, seed: float | None) -> Expr:
    if seed is None or math.isnan(seed):
        return build("random.contrib_seed")
    if math.isinf(seed):
        ctx.fail("the seed is infinite")
    return ctx.constant(int(seed) & _MOST_WORD, "int64")


def _drawn(ctx: Context, kind: str, seed: float | None, shape: Any) -> Expr:
    if any(isinstance(d, int) and d < 0 for d in shape):
        ctx.fail(f"the shape {list(shape)} has a negative dimension")
    return build(f"random.contrib_{kind}", _seed(ctx, seed), list(shape))


def drawn_like(ctx: Context, kind: str, seed: float | None, x: Expr) -> Expr:
    """Return float64 numbers of a kind, "uniform" or "normal", of the shape of a tensor."""
    shape = ctx.shape(x)
    if any(dims.is_any(d) for d in shape):
        return build(f"random.contrib_{kind}", _seed(ctx, seed), x)
    return _drawn(ctx, kind, seed, shape)


def _float_type(ctx: Context, x: Expr, dtype: int | None) -> str:
    wanted = ctx.dtype(x) if dtype is None else dtype_name(dtype, "dtype")
    if not wanted.startswith(("float", "bfloat")):
        ctx.fail(f"random numbers are floats; of {wanted} there are none, give a dtype")
    return wanted


def _scaled(ctx: Context, numbers: Expr, dtype: str, factor: float, offset: float) -> Expr:
    scaled = binary(ctx, "multiply", casted(ctx, numbers, dtype), factor)
    return binary(ctx, "add", scaled, offset)
