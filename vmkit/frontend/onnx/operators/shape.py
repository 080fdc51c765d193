"""Shapes as values, and tensors made from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ....values.texts import as_texts
from ..context import Context
from ..dtype import dtype_name, numpy_tensor
from ..known import constant, sizes
from ..outcome import Outcome
from ..ranks import MOST_DIMENSIONS, by_length
from ..registry import converter
from ..run_time_axes import of_partly_known, positions_along
from ..sparse import dense_array
from ..typing import typed
from .conversion import casted
from .layout import to_shape

_CONSTANT_ELEMENTS = 1 << 28  # a larger constant is filled at run time


@converter("Constant")
def constant_value(
    ctx: Context,
    *,
    value: onnx.TensorProto | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
    sparse_value: onnx.SparseTensorProto | None = None,
) -> Expr:
    if sparse_value is not None:
        return constant(dense_array(sparse_value, "the attribute 'sparse_value'"))
    if value is not None:
        return constant(numpy_tensor(value, "the attribute 'value'"))
    if value_int is not None or value_ints is not None:
        return ctx.constant(value_int if value_int is not None else list(value_ints or ()), "int64")
    if value_string is not None or value_strings is not None:
        return constant(as_texts(value_string if value_string is not None else list(value_strings or ())))
    if value_float is None and value_floats is None:
        ctx.fail("it has no value")
    return ctx.constant(value_float if value_float is not None else list(value_floats or ()), "float32")


@converter("Shape")
def shape(ctx: Context, x: Expr, *, start: int = 0, end: int | None = None) -> Expr:
    whole = ctx.shape(x)
    part = slice(start, end)
    if not any(dims.is_any(d) for d in whole[part]):
        picked = np.empty(len(whole[part]), dtype=object)
        picked[:] = whole[part]
        return sizes(picked)
    vector = relay.shape_of(x, dtype="int64")
    first, last, _ = part.indices(len(whole))
    if (first, last) != (0, len(whole)):
        vector = relay.strided_slice(vector, [first], [last], [1])
    ctx.importer.partly_known.put_shape(vector, whole[part])
    return vector


@converter("Size")
def size(ctx: Context, x: Expr) -> Expr:
    count = dims.product(ctx.shape(x))
    return sizes(np.array(count, dtype=object)) if not dims.is_any(count) else relay.ndarray_size(x, "int64")


@converter("ConstantOfShape", since=9)
def constant_of_shape(ctx: Context, shape: Expr, *, value: onnx.TensorProto | None = None) -> Expr | Outcome:
    fill = numpy_tensor(value, "the attribute 'value'") if value is not None else np.zeros(1, "float32")
    if fill.size != 1:
        ctx.fail(f"the value must be one number, not {fill.size}")
    target, dtype = ctx.dims(shape), str(fill.dtype)
    if target is None:

        def filled(given: Expr) -> Expr:
            return of_partly_known(ctx, relay.full(constant(fill.reshape(())), given, dtype), given)

        return by_length(ctx, shape, range(MOST_DIMENSIONS + 1), "the number of dimensions of the shape", filled)
    if all(isinstance(d, int) for d in target) and dims.product(target) <= _CONSTANT_ELEMENTS:
        return constant(np.full(target, fill.ravel()[0], fill.dtype))
    return relay.full(constant(fill.reshape(())), target, dtype)


@converter("Range", since=11)
def value_range(ctx: Context, start: Expr, limit: Expr, delta: Expr) -> Expr:
    ends, dtype = [_whole(ctx, v) for v in (start, limit, delta)], ctx.dtype(start)
    if not any(v is None for v in ends):
        first, last, step = (v for v in ends if v is not None)
        if isinstance(step, int) and step != 0:
            # As many as lie between the ends, which may be symbols.
            span = dims.sub(last, first) if step > 0 else dims.sub(first, last)
            count = dims.by_cases(dims.larger(dims.ceildiv(span, abs(step)), 0))
            steps = relay.multiply(ctx.positions(count, dtype), ctx.constant(step, dtype))
            return relay.add(steps, sizes(first, dtype))
    return relay.arange(*(to_shape(v, []) if ctx.rank(v) else v for v in (start, limit, delta)), dtype)


@converter("Range", since=27)
def value_range_of_small_floats(ctx: Context, start: Expr, limit: Expr, delta: Expr, *, stash_type: int = 1) -> Expr:
    """Numbers of float16 and bfloat16 are computed in the type of stash_type, so that steps do not add up errors."""
    dtype, wide = ctx.dtype(start), dtype_name(stash_type, "stash_type")
    if dtype not in ("float16", "bfloat16") or wide == dtype:
        return value_range(ctx, start, limit, delta)
    first, last, step = (typed(casted(ctx, v, wide)) for v in (start, limit, delta))
    return casted(ctx, typed(value_range(ctx, first, last, step)), dtype)


def _whole(ctx: Context, x: Expr) -> Dim | None:
    """Return a known whole number, which may be of a floating type; None for any other."""
    known = ctx.known(x)
    if known is None:
        return None
    (value,) = known.ravel().tolist()
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return int(value) if isinstance(value, int | np.integer) else value


@converter("EyeLike", since=9)
def eye_like(ctx: Context, x: Expr, *, dtype: int | None = None, k: int = 0) -> Expr:
    if ctx.rank(x) != 2:
        ctx.fail(f"the input must be a matrix, not {ctx.type(x)}")
    down = relay.expand_dims(positions_along(ctx, x, 0), 1)
    across = positions_along(ctx, x, 1)
    wanted = ctx.dtype(x) if dtype is None else dtype_name(dtype, "EyeLike")
    return relay.cast(relay.equal(relay.add(down, ctx.constant(k, "int64")), across), wanted)


@converter("Trilu", since=14)
def trilu(ctx: Context, x: Expr, k: Expr | None = None, *, upper: int = 1) -> Expr:
    rank = ctx.rank(x)
    if rank < 2:
        ctx.fail(f"the input must have two dimensions or more, not {ctx.type(x)}")
    down = relay.expand_dims(positions_along(ctx, x, rank - 2), 1)
    across = positions_along(ctx, x, rank - 1)
    offset = ctx.constant(0, "int64") if k is None else relay.reshape(k, []) if ctx.rank(k) else k
    diagonal = relay.add(down, offset)
    kept = relay.greater_equal(across, diagonal) if upper else relay.less_equal(across, diagonal)
    return relay.where(kept, x, ctx.constant(0, ctx.dtype(x)))
