"""Scaled dot-product attention in the form that the compiler fuses: two products of batches, a softmax between them.

The queries of all heads that share a head of keys are rows of one matrix, so that keys and values are never repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from ... import relay
from ..._dataclasses import dataclass
from ...relay.ir import Any as AnyDim
from ...relay.ir import Dim, Expr, dims
from ...relay.op import build
from .context import Context
from .extents import Extent, under
from .known import sizes
from .operators.conversion import casted
from .operators.elementwise import binary
from .operators.layout import to_shape
from .operators.product import matmul
from .run_time_axes import pinned, size_along
from .typing import typed

__all__ = ["Bias", "Heads", "Softmax", "attend", "merged_heads", "padded_mask", "split_heads"]


@dataclass(frozen=True)
class Heads:
    """Queries (batch, heads, rows, inner), keys (batch, shared, columns, inner), and values (.., .., columns, width).

    `heads` is a multiple of `shared`: neighbouring heads have keys and values in common.
    """

    query: Expr
    key: Expr
    value: Expr


@dataclass(frozen=True)
class Softmax:
    """How scores become weights.

    Attributes
    ----------
    scale : float or Expr
        What the product of query and key is multiplied with.
    softcap : float
        The bound that a hyperbolic tangent puts on scores, before the bias; 0 for none.
    dtype : str or None
        The data type of the softmax, if not that of the query.
    result_dtype : str or None
        The data type of the product of weights and values, if not that of the query.
    change : callable
        Called with the step ("raw", "capped", "biased", "weights") and its value (batch, heads, rows, columns);
        returns what to go on with, or None for the same.
    """

    scale: float | Expr
    softcap: float = 0.0
    dtype: str | None = None
    result_dtype: str | None = None
    change: Callable[[str, Expr], Expr | None] | None = None

    @staticmethod
    def scale_of(ctx: Context, query: Expr, scale: float | None) -> float | Expr:
        """Return the scale that is given, or one over the root of the length of a query."""
        inner = ctx.shape(query)[-1]
        if scale is not None:
            return scale
        if isinstance(inner, int):
            return 1 / math.sqrt(max(inner, 1))
        return relay.rsqrt(relay.cast(size_along(ctx, query, ctx.rank(query) - 1), ctx.dtype(query)))


@dataclass
class Bias:
    """What is added to scores, and which of them count at all: tensors that broadcast to (batch, heads, rows, columns).

    `hides_rows` says whether a row may have no score that counts; its result is 0 then.
    """

    ctx: Context
    dtype: str
    added: Expr | None = None
    allowed: Expr | None = None
    hides_rows: bool = field(default=False)

    def add(self, bias: Expr) -> None:
        """Add a bias, in which minus infinity hides a score."""
        bias = casted(self.ctx, bias, self.dtype)
        self.added = bias if self.added is None else relay.add(self.added, bias)
        self.hides_rows = True

    def allow(self, condition: Expr, hides_rows: bool = True) -> None:
        """Let only those scores count for which a condition holds."""
        self.allowed = condition if self.allowed is None else relay.logical_and(self.allowed, condition)
        self.hides_rows |= hides_rows

    def value(self) -> Expr | None:
        """Return the sum, or None where nothing is added."""
        if self.allowed is None:
            return self.added
        kept = self.ctx.constant(0, self.dtype) if self.added is None else self.added
        return relay.where(self.allowed, kept, self.ctx.constant(-np.inf, self.dtype))


def split_heads(ctx: Context, x: Expr, heads: int) -> Expr:
    """Return (batch, rows, heads * width) as (batch, heads, rows, width)."""
    hidden = ctx.shape(x)[2]
    if heads < 1 or (isinstance(hidden, int) and hidden % heads):
        ctx.fail(f"the last dimension, {hidden}, is no multiple of {heads} heads")
    extents = [Extent.along(ctx, x, axis) for axis in (0, 1)]
    count = Extent.of(ctx, heads)
    width = Extent(dims.floordiv(hidden, heads), lambda: relay.floor_divide(size_along(ctx, x, 2), count.value))
    return relay.transpose(under(ctx, x, *extents, count, width), [0, 2, 1, 3])


def merged_heads(ctx: Context, x: Expr) -> Expr:
    """Return (batch, heads, rows, width) as (batch, rows, heads * width)."""
    batch, heads, rows, width = (Extent.along(ctx, x, axis) for axis in range(4))
    return under(ctx, relay.transpose(x, [0, 2, 1, 3]), batch, rows, heads * width)


def padded_mask(ctx: Context, mask: Expr, whole: Sequence[Dim], outside: Any) -> Expr:
    """Return a mask of rank 4 whose dimensions are known to be those of the scores, or 1.

    Parameters
    ----------
    mask : Expr
        A tensor of rank 4 or less; its last dimension may be too short.
    whole : sequence of dimensions
        The shape of the scores.
    outside : number
        What columns have that the mask does not reach.
    """
    lacking = 4 - ctx.rank(mask)
    if lacking < 0:
        ctx.fail(f"the mask has {ctx.rank(mask)} dimensions; 4 are the most")
    mask = relay.expand_dims(mask, 0, lacking) if lacking else mask
    have = ctx.shape(mask)
    missing = dims.sub(whole[3], have[3]) if not dims.is_any(whole[3]) and not dims.is_any(have[3]) else 0
    if isinstance(missing, int) and missing < 0:
        ctx.fail(f"the mask has {have[3]} columns, and there are {whole[3]} keys")
    if not (isinstance(missing, int) and missing == 0):
        widths = [[0, 0]] * 3 + [[0, dims.maximum(missing, 0)]]
        mask = relay.nn.pad(mask, widths, ctx.constant(outside, ctx.dtype(mask)))
        mask = to_shape(mask, [*have[:3], whole[3]])
    fit = []
    for size, full in zip(have[:3], whole[:3], strict=True):
        if isinstance(size, int) and isinstance(full, int) and size not in (1, full):
            ctx.fail(f"the mask {have} does not broadcast to the scores {list(whole)}")
        # What is not known meets the scores at run time.
        fit.append(size if dims.is_any(full) or (isinstance(size, int) and size == 1) else full)
    if all(dims.equal(a, b) or (dims.is_any(a) and dims.is_any(b)) for a, b in zip(have[:3], fit, strict=True)):
        return mask
    extents = [
        Extent.along(ctx, mask, k) if k == 3 or dims.is_any(d) else Extent(d, partial(sizes, np.array(d, dtype=object)))
        for k, d in enumerate([*fit, have[3]])
    ]
    if not any(dims.is_any(e.dim) for e in extents):
        return relay.broadcast_to(mask, [e.dim for e in extents])
    broadcast = relay.broadcast_to(mask, relay.stack([e.value for e in extents], 0))
    return pinned(ctx, typed(broadcast), [e.dim for e in extents])


def attend(ctx: Context, heads: Heads, softmax: Softmax, bias: Bias | None = None) -> Expr:
    """Return the values weighted by the softmax of the scores: (batch, heads, rows, width)."""
    batch, count, rows, inner = (Extent.along(ctx, heads.query, axis) for axis in range(4))
    shared, columns = (Extent.along(ctx, heads.key, axis) for axis in (1, 2))
    width = Extent.along(ctx, heads.value, 3)
    together = _heads_together(ctx, count, shared)
    dtype, height, matrices = ctx.dtype(heads.query), rows * together, batch * shared
    # A reshape that finds out a size by itself would not look at the others.
    given = _checked(ctx, heads.query, count, shared) if dims.is_any(together.dim) else heads.query
    query = under(ctx, given, matrices, height, inner)
    key = under(ctx, heads.key, matrices, columns, inner)
    final = softmax.result_dtype or dtype
    value = under(ctx, casted(ctx, heads.value, final), matrices, columns, width)
    grouped = (batch, shared, height, columns)
    each = (batch, count, rows, columns)

    def changed(step: str, value: Expr) -> Expr:
        made = None if softmax.change is None else softmax.change(step, under(ctx, value, *each))
        return value if made is None else under(ctx, made, *grouped)

    scores = changed("raw", _scores(ctx, query, key, softmax.scale, grouped))
    if softmax.softcap:
        scores = binary(ctx, "multiply", relay.tanh(binary(ctx, "divide", scores, softmax.softcap)), softmax.softcap)
    scores = changed("capped", scores)
    added = None if bias is None else bias.value()
    if added is not None:
        added = _of_rows(ctx, added, together, each, grouped)
        scores = relay.add(scores, added)
    scores = changed("biased", scores)
    weights = _weights(ctx, casted(ctx, scores, softmax.dtype or dtype))
    hidden = None
    if bias is not None and bias.hides_rows and added is not None:
        hidden = relay.equal(relay.max(added, -1, True), ctx.constant(-np.inf, ctx.dtype(added)))
        if softmax.change is not None:
            weights = relay.where(hidden, ctx.constant(0, ctx.dtype(weights)), weights)
    weights = casted(ctx, changed("weights", weights), final)
    result = matmul(ctx, under(ctx, weights, matrices, height, columns), value)
    if hidden is not None:
        # Here and not between softmax and product, which are one operator.
        result = under(ctx, result, batch, shared, height, width)
        result = relay.where(hidden, ctx.constant(0, final), result)
    return under(ctx, result, batch, count, rows, width)


def _heads_together(ctx: Context, heads: Extent, shared: Extent) -> Extent:
    """Return how many heads have keys in common."""
    one = Extent.of(ctx, 1)
    if dims.equal(heads.dim, shared.dim):
        return one
    if isinstance(heads.dim, int) and isinstance(shared.dim, int):
        if shared.dim < 1 or heads.dim % shared.dim:
            ctx.fail(f"{heads.dim} heads of queries are no multiple of {shared.dim} heads of keys")
        return Extent.of(ctx, heads.dim // shared.dim)
    checked = _checked(ctx, heads.value, heads, shared)
    return Extent(AnyDim(), lambda: relay.floor_divide(checked, relay.maximum(shared.value, one.value)))


def _checked(ctx: Context, value: Expr, heads: Extent, shared: Extent) -> Expr:
    """Return a value, once the heads of the queries were found to be a multiple of those of the keys."""
    remainder = relay.floor_mod(heads.value, relay.maximum(shared.value, ctx.constant(1, "int64")))
    message = f"{ctx.node.op_type}: the heads of queries are no multiple of those of keys"
    return typed(build("dyn.require", value, relay.equal(remainder, ctx.constant(0, "int64")), message=message))


def _scores(ctx: Context, query: Expr, key: Expr, scale: float | Expr, shape: Sequence[Extent]) -> Expr:
    if ctx.dtype(query) in ("float32", "float64"):
        product = relay.nn.batch_matmul(query, key, transpose_b=True)
        return binary(ctx, "multiply", under(ctx, product, *shape), scale)
    # A product of narrow numbers may be too large before it is scaled.
    root = relay.sqrt(scale) if isinstance(scale, Expr) else math.sqrt(scale)
    scaled = [binary(ctx, "multiply", side, root) for side in (query, key)]
    return under(ctx, relay.nn.batch_matmul(*scaled, transpose_b=True), *shape)


def _weights(ctx: Context, scores: Expr) -> Expr:
    """Return the softmax of each row; narrow numbers are rounded after every step, as ONNX defines it for them."""
    if ctx.dtype(scores) != "float16":
        return relay.nn.softmax(scores, axis=-1)
    powers = relay.exp(relay.subtract(scores, relay.max(scores, -1, True)))
    return relay.divide(powers, relay.sum(powers, -1, True))


def _of_rows(ctx: Context, bias: Expr, together: Extent, each: Sequence[Extent], grouped: Sequence[Extent]) -> Expr:
    """Return a bias for (batch, heads, rows, columns) as one for (batch, shared, together * rows, columns)."""
    missing = 4 - ctx.rank(bias)
    bias = relay.expand_dims(bias, 0, missing) if missing else bias
    have = ctx.shape(bias)
    if together.dim == 1:
        return bias
    is_one_row = isinstance(have[2], int) and have[2] == 1
    if isinstance(have[1], int) and have[1] == 1 and (is_one_row or isinstance(together.dim, int)):
        return bias if is_one_row else relay.tile(bias, [1, 1, together.dim, 1])
    own = [Extent.along(ctx, bias, axis) for axis in range(4)]
    rows = [own[0], each[1], each[2], own[3]]
    if any(dims.is_any(e.dim) for e in rows):
        bias = relay.broadcast_to(bias, relay.stack([e.value for e in rows], 0))
    elif is_one_row or not dims.equal(have[1], each[1].dim):
        bias = relay.broadcast_to(bias, [e.dim for e in rows])
    return under(ctx, bias, own[0], *grouped[1:3], own[3])
