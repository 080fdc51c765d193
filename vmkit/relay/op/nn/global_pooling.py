"""Pools whose windows follow from the size of the result: global and adaptive ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.types import Dim, TensorType, Type
from ..builder import derived_builder
from ..elementwise import require_tensor
from ..registry import OpPattern, Parameters, operator
from .layout import SPATIAL, axes_of, ordered
from .pool_attrs import AdaptivePoolAttrs, GlobalPoolAttrs, SizedPoolAttrs
from .pooling import pool_axes, quotient, require_same_layout, sum_dtype

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["global_avg_pool1d", "global_avg_pool3d", "global_max_pool1d", "global_max_pool3d"]


def _wanted(attrs: SizedPoolAttrs, sizes: Sequence[Dim]) -> list[Dim]:
    """Return the spatial sizes of an adaptive pool's result; the global pools' are 1."""
    rank = attrs.rank
    if not isinstance(attrs, AdaptivePoolAttrs):
        return [1] * rank
    wanted = list(attrs.output_size)
    if not wanted:
        return list(sizes)
    if len(wanted) == 1:
        wanted *= rank
    if len(wanted) != rank:
        raise TypeCheckError(f"output_size must have 1 or {rank} values, not {len(wanted)}: {wanted}")
    if any(isinstance(w, int) and w < 1 for w in wanted):
        raise TypeCheckError(f"output_size must be positive, not {wanted}")
    return wanted


def _type(attrs: SizedPoolAttrs, data: Type) -> Type:
    source, spatial = require_tensor(data, "data"), SPATIAL[attrs.rank]
    axes = pool_axes(attrs.layout, attrs.rank, source)
    require_same_layout(attrs)
    made = dict(zip(spatial, _wanted(attrs, ordered(source.shape, axes, spatial)), strict=True))
    return TensorType([made.get(a, d) for a, d in zip(axes, source.shape, strict=True)], source.dtype)


def _lower(context: LowerContext, attrs: SizedPoolAttrs, data: relax.Expr, kind: str) -> relax.Expr:
    axes, spatial = axes_of(attrs.layout), SPATIAL[attrs.rank]
    sizes = ordered(context.shape(data), axes, spatial)
    result = [dims.as_expr(d) for d in context.dims(_wanted(attrs, sizes))]
    return context.te(lambda x, made: _adaptive_pool(axes, spatial, x, made, kind), data, result)


def _adaptive_pool(axes: str, spatial: str, data: te.Tensor, result: list[Any], kind: str) -> te.Tensor:
    """Return the pool; position i of n on an axis of size s takes the elements from floor(i*s/n) to ceil((i+1)*s/n)."""
    dtype = str(data.dtype)
    shape = [dims.simplify(d) for d in data.shape]
    sizes = dict(zip(spatial, ordered(shape, axes, spatial), strict=True))
    made = dict(zip(spatial, [dims.simplify(r) for r in result], strict=True))
    even = {a: dims.equal(dims.mul(dims.floordiv(sizes[a], made[a]), made[a]), sizes[a]) is True for a in spatial}
    # A window of uneven ones has at most this many elements; those past its own end are left out.
    reach = {a: dims.add(dims.floordiv(sizes[a], made[a]), 0 if even[a] else 2) for a in spatial}
    reduced = {a: te.reduce_axis((0, dims.as_expr(reach[a])), name=f"r{a.lower()}") for a in spatial}
    neutral = tirx.min_value(dtype) if kind == "max" else tirx.const(0, dtype)
    sums = dtype if kind == "max" else sum_dtype(dtype)

    def bounds(a: str, index: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
        size, count = dims.as_expr(sizes[a]), dims.as_expr(made[a])
        return tirx.floordiv(index * size, count), tirx.floordiv((index + 1) * size + count - 1, count)

    def element(*index: tirx.Expr) -> tirx.Expr:
        at, inside = dict(zip(axes, index, strict=True)), []
        for a in spatial:
            if even[a]:
                at[a] = at[a] * dims.as_expr(reach[a]) + reduced[a]
            else:
                first, end = bounds(a, at[a])
                inside.append(first + reduced[a] < end)
                at[a] = first + reduced[a]
        x = data(*[at[a] for a in axes])
        if inside:
            x = tirx.if_then_else(tirx.all(*inside), x, neutral)
        over = [reduced[a] for a in spatial]
        return te.max(x, axis=over) if kind == "max" else te.sum(x.astype(sums), axis=over)

    whole = [dims.as_expr(made.get(a, d)) for a, d in zip(axes, shape, strict=True)]
    pooled = te.compute(whole, element, name=f"adaptive_pool_{kind}")
    if kind == "max":
        return pooled

    def mean(*index: tirx.Expr) -> tirx.Expr:
        at, count = dict(zip(axes, index, strict=True)), tirx.IntImm("int64", 1)
        for a in spatial:
            first, end = bounds(a, at[a])
            count *= dims.as_expr(reach[a]) if even[a] else end - first
        return quotient(pooled(*index), count, dtype)

    return te.compute(whole, mean, name="adaptive_pool_mean")


class _Largest:
    relation = staticmethod(_type)
    lower = staticmethod(partial(_lower, kind="max"))


class _Mean:
    relation = staticmethod(_type)
    lower = staticmethod(partial(_lower, kind="avg"))


_pool = partial(operator, pattern=OpPattern.OUT_ELEMWISE_FUSABLE, layout="layout")


@_pool("nn.global_max_pool{rank}d", "data", attrs=GlobalPoolAttrs, level=2, mixed="follow")
class GlobalMaxPool(_Largest):
    """The largest element of each channel; the spatial axes become 1."""


@_pool("nn.global_avg_pool{rank}d", "data", attrs=GlobalPoolAttrs, level=2, mixed="never")
class GlobalAvgPool(_Mean):
    """The mean of each channel; the spatial axes become 1."""


@_pool("nn.adaptive_max_pool{rank}d", "data", attrs=AdaptivePoolAttrs, level=10, mixed="follow")
class AdaptiveMaxPool(_Largest):
    """The largest element of each of output_size windows over {axes}."""


@_pool("nn.adaptive_avg_pool{rank}d", "data", attrs=AdaptivePoolAttrs, level=10, mixed="never")
class AdaptiveAvgPool(_Mean):
    """The mean of each of output_size windows over {axes}."""


def _to_one(kind: str, rank: int, doc: str) -> Callable[..., Expr]:
    """Return the builder of a global pool for which Relay had no operator: an adaptive one to a single element."""
    how = Parameters("data layout out_layout", fixed={"output_size": [1] * rank})
    made = derived_builder(f"nn.adaptive_{kind}_pool{rank}d", ("data",), AdaptivePoolAttrs.over(rank), doc, how)
    made.__name__ = made.__qualname__ = f"global_{kind}_pool{rank}d"
    return made


global_max_pool1d = _to_one("max", 1, "Return the adaptive pool that leaves the largest element of each channel.")
global_avg_pool1d = _to_one("avg", 1, "Return the adaptive pool that leaves the mean of each channel.")
global_max_pool3d = _to_one("max", 3, "Return the adaptive pool that leaves the largest element of each channel.")
global_avg_pool3d = _to_one("avg", 3, "Return the adaptive pool that leaves the mean of each channel.")
