"""Features put together, scaled, filled in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import relay
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..operators.elementwise import binary
from ..registry import converter

DOMAIN = "ai.onnx.ml"


@converter("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(ctx: Context, x: Expr, y: Expr) -> Expr:
    """Columns are picked; a vector gives a matrix of one row."""
    columns = relay.reshape(y, [-1]) if ctx.rank(y) != 1 else y
    extent = ctx.shape(x)[-1] if ctx.rank(x) else 1
    known = ctx.static(y)
    if known is not None and known.size and isinstance(extent, int) and not 0 <= known.min() <= known.max() < extent:
        ctx.fail(f"it picks column {known.max() if known.max() >= extent else known.min()} of {extent}")
    if known is None or not isinstance(extent, int):
        rank = ctx.rank(x)
        vector = relay.shape_of(x, dtype="int64") if rank else ctx.constant([1], "int64")
        end = relay.take(vector, ctx.constant(max(rank - 1, 0), "int64"), axis=0)
        columns = relay.cast(columns, "int64")
        zero = ctx.constant(0, "int64")
        fits = relay.all(relay.logical_and(relay.less(columns, end), relay.greater_equal(columns, zero)))
        message = "ArrayFeatureExtractor: an index is outside of the input's columns"
        columns = build("dyn.require", columns, fits, message=message)
    if ctx.rank(x) == 0:
        x = relay.reshape(x, [1])
    picked = relay.take(x, columns, axis=-1)
    return relay.expand_dims(picked, 0) if ctx.rank(picked) == 1 else picked


@converter("Binarizer", domain=DOMAIN)
def binarizer(ctx: Context, x: Expr, *, threshold: float = 0.0) -> Expr:
    dtype = ctx.dtype(x)
    compared = x if dtype.startswith("float") else relay.cast(x, "float32")
    above = relay.greater(compared, ctx.constant(threshold, ctx.dtype(compared)))
    return relay.cast(above, dtype)


@converter("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(ctx: Context, *inputs: Expr, inputdimensions: Sequence[int] = ()) -> Expr:
    """Inputs side by side, each as a matrix of float32; rows are cut off or filled up to the given widths."""
    widths: list[int | None] = [*inputdimensions] if inputdimensions else [None] * len(inputs)
    if len(widths) != len(inputs):
        ctx.fail(f"inputdimensions has {len(widths)} elements for {len(inputs)} inputs")
    return relay.concatenate([_columns(ctx, x, w) for x, w in zip(inputs, widths, strict=True)], axis=1)


def _columns(ctx: Context, x: Expr, width: int | None) -> Expr:
    if ctx.rank(x) == 1:
        x = relay.expand_dims(x, 0)
    elif ctx.rank(x) != 2:
        x = relay.reshape(x, [0, -1]) if ctx.rank(x) else relay.reshape(x, [1, 1])
    x = relay.cast(x, "float32")
    extent = ctx.shape(x)[1]
    if width is None or dims.equal(extent, width) is True:
        return x
    if not isinstance(extent, int):
        ctx.fail(f"an input has {extent} columns, {width} are to be taken: fix that dimension by shape=")
    if extent > width:
        return relay.strided_slice(x, [0], [width], axes=[1])
    return relay.nn.pad(x, [(0, 0), (0, width - extent)])


@converter("Imputer", domain=DOMAIN)
def imputer(
    ctx: Context,
    x: Expr,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Expr:
    dtype = ctx.dtype(x)
    is_float = dtype.startswith("float")
    values = list(imputed_value_floats if is_float else imputed_value_int64s)
    if not values:
        ctx.fail(f"it has no values to fill in for {dtype}")
    replaced = replaced_value_float if is_float else replaced_value_int64
    asks_for_nan = is_float and np.isnan(replaced)
    is_missing = relay.isnan(x) if asks_for_nan else relay.equal(x, ctx.constant(replaced, dtype))
    extent = ctx.shape(x)[-1] if ctx.rank(x) else 1
    if len(values) > 1 and isinstance(extent, int) and len(values) != extent:
        ctx.fail(f"it has {len(values)} values to fill in for {extent} columns")
    return relay.where(is_missing, ctx.constant(values if len(values) > 1 else values[0], dtype), x)


@converter("Scaler", domain=DOMAIN)
def scaler(ctx: Context, x: Expr, *, offset: Sequence[float] = (), scale: Sequence[float] = ()) -> Expr:
    """Offsets are taken off, and the rest is multiplied: one number for all columns, or one for each."""
    x = relay.cast(x, "float32")
    for name, values in (("subtract", offset), ("multiply", scale)):
        if values:
            x = binary(ctx, name, x, list(values) if len(values) > 1 else values[0])
    return x


@converter("Normalizer", domain=DOMAIN)
def normalizer(ctx: Context, x: Expr, *, norm: str = "MAX") -> Expr:
    """Rows are divided by their norm; those whose norm is 0 stay as they are."""
    axis = [ctx.rank(x) - 1]
    if ctx.rank(x) not in (1, 2):
        ctx.fail(f"the input must be a vector or a matrix, not {ctx.type(x)}")
    x = relay.cast(x, "float32")
    match norm:
        case "MAX":
            size = relay.max(x, axis=axis, keepdims=True)
        case "L1":
            size = relay.sum(relay.abs(x), axis=axis, keepdims=True)
        case "L2":
            size = relay.sqrt(relay.sum(relay.multiply(x, x), axis=axis, keepdims=True))
        case _:
            ctx.fail(f"norm is {norm!r}; it is MAX, L1 or L2")
    is_zero = relay.equal(size, ctx.constant(0.0, "float32"))
    return relay.divide(x, relay.where(is_zero, ctx.constant(1.0, "float32"), size))
