"""Pools: the largest or the mean element of a window that slides over the spatial axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim, TensorType, Type
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .layout import SPATIAL, axes_of, ordered
from .pool_attrs import AvgPoolAttrs, MaxPoolAttrs, MaxPoolWithIndicesAttrs, PoolAttrs, SizedPoolAttrs
from .precision import accumulator
from .window import extent, fitted, pad_spatial, padding_of, positive, require_fits

if TYPE_CHECKING:
    from ...lower.context import LowerContext

# A window that is longer than this may be meant to cover whatever there is; shorter ones are loops of a known length.
_LONG = 16

__all__ = ["Pool", "is_float", "pool_axes", "pool_type", "quotient", "require_same_layout", "sum_dtype"]


def is_float(dtype: str) -> bool:
    """Say whether a data type is a floating-point one."""
    return dtype.startswith(("float", "bfloat"))


def pool_axes(layout: str, rank: int, data: TensorType) -> str:
    """Return the axes of a pool's layout, which orders the spatial axes and any others."""
    axes, spatial = axes_of(layout), SPATIAL[rank]
    missing = [a for a in spatial if a not in axes]
    if missing or any(a.lower() in axes for a in spatial):
        raise TypeCheckError(f"layout {layout!r} must have the axes {', '.join(spatial)}, and these in one piece")
    if len(axes) != len(data.shape):
        raise TypeCheckError(f"layout {layout!r} has {len(axes)} axes, the data {len(data.shape)} dimensions: {data}")
    return axes


def require_same_layout(attrs: PoolAttrs | SizedPoolAttrs) -> None:
    """Check that the result is wanted in the order of the data."""
    if attrs.out_layout and attrs.out_layout != attrs.layout:
        raise TypeCheckError(
            f"out_layout {attrs.out_layout!r} differs from layout {attrs.layout!r}; use layout_transform for that"
        )


@dataclass(frozen=True)
class Pool:
    """The windows of a pool over data of a shape.

    Attributes
    ----------
    axes, spatial : str
        The letters of all dimensions and of the spatial ones.
    kernel, strides, dilation, padding, windows : list of int
        For each spatial axis; padding holds all beginnings, then all ends. A window is a dilated kernel.
    sizes, result : list of dimensions
        The spatial sizes of data and result.
    is_ceil : bool
        Whether a last window may reach past the end.
    """

    axes: str
    spatial: str
    kernel: list[int]
    strides: list[int]
    dilation: list[int]
    padding: list[int]
    windows: list[int]
    sizes: list[Dim]
    result: list[Dim]
    is_ceil: bool

    @classmethod
    def of(cls, attrs: PoolAttrs | MaxPoolWithIndicesAttrs, shape: Sequence[Dim]) -> Pool:
        """Read the attributes; TypeCheckError where a window does not fit."""
        axes, rank = axes_of(attrs.layout), attrs.rank or len(attrs.pool_size)
        spatial = SPATIAL[rank]
        kernel = positive(attrs.pool_size, rank, "pool_size")
        # TVM 0.14 wrote gradients of pools without one.
        dilation = positive(attrs.dilation or [1], rank, "dilation")
        strides, padding = positive(attrs.strides, rank, "strides"), padding_of(attrs.padding, rank)
        windows = [extent(k, d) for k, d in zip(kernel, dilation, strict=True)]
        sizes = ordered(shape, axes, spatial)
        result = fitted(sizes, padding, windows, strides, ceil=attrs.ceil_mode)
        return cls(axes, spatial, kernel, strides, dilation, padding, windows, sizes, result, attrs.ceil_mode)

    def shape(self, data: Sequence[Dim]) -> list[Dim]:
        """Return the shape of the result over data of a shape."""
        made = dict(zip(self.spatial, self.result, strict=True))
        return [made.get(a, d) for a, d in zip(self.axes, data, strict=True)]

    def reduced(self) -> dict[str, tirx.Expr]:
        """Return an axis of reduction over the kernel for each spatial axis."""
        reached = [dims.as_expr(self._reached(i)) if self._is_cut(i) else k for i, k in enumerate(self.kernel)]
        return {a: te.reduce_axis((0, k), name=f"r{a.lower()}") for a, k in zip(self.spatial, reached, strict=True)}

    def _is_cut(self, axis: int) -> bool:
        """Say whether a window may be longer than its axis, and by so much that it is not to run past the end."""
        is_long = self.is_ceil and self.windows[axis] > _LONG and self.dilation[axis] == 1
        return is_long and not dims.at_least(self._padded_size(axis), self.windows[axis])

    def _padded_size(self, axis: int) -> Dim:
        return dims.add(self.sizes[axis], self.padding[axis] + self.padding[len(self.spatial) + axis])

    def _reached(self, axis: int) -> Dim:
        return dims.minimum(self.kernel[axis], self._padded_size(axis))

    def _past(self, axis: int) -> Dim:
        """Return by how much the last window reaches past the end of a padded axis, at most."""
        if not self.is_ceil:
            return 0
        if not self._is_cut(axis):
            return self.strides[axis] - 1
        starts = dims.mul(dims.sub(self.result[axis], 1), self.strides[axis])
        return dims.maximum(dims.sub(dims.add(starts, self._reached(axis)), self._padded_size(axis)), 0)

    def padded(self, data: te.Tensor, value: tirx.Expr) -> te.Tensor:
        """Return the data padded so far that every window lies on it."""
        extra = [self._past(i) for i in range(len(self.spatial))]
        return pad_spatial(data, self.axes, self.spatial, self.padding, value, extra=extra)

    def read_at(self, index: Sequence[tirx.Expr], kernel: Mapping[str, tirx.Expr]) -> list[tirx.Expr]:
        """Return the index in the padded data of an element of the kernel, for the window at an index of the result."""
        at = dict(zip(self.axes, index, strict=True))
        for a, stride, step in zip(self.spatial, self.strides, self.dilation, strict=True):
            at[a] = at[a] * stride + kernel[a] * step
        return [at[a] for a in self.axes]

    def count(self, index: Sequence[tirx.Expr], with_pad: bool) -> tirx.Expr:
        """Return how many elements the mean at an index of the result is of: those on the data, or the padding too."""
        count = tirx.IntImm("int64", 1)
        at, rank = dict(zip(self.axes, index, strict=True)), len(self.spatial)
        for i, a in enumerate(self.spatial):
            bounds = (self.padding[i], self.padding[rank + i], self.sizes[i])
            count *= _counted(at[a], bounds, self.strides[i], self.dilation[i], self.windows[i], with_pad)
        return count


def pool_type(attrs: PoolAttrs, data: Type) -> TensorType:
    """Return the type of a pool's result."""
    source = require_tensor(data, "data")
    pool_axes(attrs.layout, attrs.rank, source)
    require_same_layout(attrs)
    return TensorType(Pool.of(attrs, source.shape).shape(source.shape), source.dtype)


def _pool(attrs: PoolAttrs, data: te.Tensor) -> te.Tensor:
    kind = "avg" if isinstance(attrs, AvgPoolAttrs) else "max"
    shape, dtype = [dims.simplify(d) for d in data.shape], str(data.dtype)
    pool = Pool.of(attrs, shape)
    padded = pool.padded(data, tirx.min_value(dtype) if kind == "max" else tirx.const(0, dtype))
    reduced, sums = pool.reduced(), dtype if kind == "max" else sum_dtype(dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        x, over = padded(*pool.read_at(index, reduced)), list(reduced.values())
        return te.max(x, axis=over) if kind == "max" else te.sum(x.astype(sums), axis=over)

    whole = [dims.as_expr(d) for d in pool.shape(shape)]
    pooled = te.compute(whole, element, name=f"pool_{kind}")
    if kind == "max":
        return pooled
    return te.compute(
        whole, lambda *i: quotient(pooled(*i), pool.count(i, attrs.count_include_pad), dtype), name="pool_avg"
    )


def sum_dtype(dtype: str) -> str:
    """Return the data type of a pool's sums: narrow integers must not wrap."""
    if dtype in ("int8", "int16", "uint8", "uint16"):
        return "int32"
    return accumulator(dtype)


def _counted(
    index: tirx.Expr, bounds: tuple[int, int, Dim], stride: int, dilation: int, window: int, with_pad: bool
) -> tirx.Expr:
    """Return how many positions of a window on one axis count: those on the data, or on the padded data."""
    before, after, size = bounds
    first = index * stride - before
    end = dims.as_expr(size) + (after if with_pad else 0)
    last = tirx.min(first + (window - 1), end - 1)
    if not with_pad:
        # The first position of the window that is on the data.
        first = tirx.Select(first < 0, first + tirx.floordiv(-first + (dilation - 1), dilation) * dilation, first)
    return tirx.max(tirx.floordiv(last - first, dilation) + 1, 1)


def quotient(total: tirx.Expr, count: tirx.Expr, dtype: str) -> tirx.Expr:
    """Return a mean; of integers, rounded towards zero."""
    if is_float(dtype):
        return (total / count.astype(str(total.ty.dtype))).astype(dtype)
    return tirx.truncdiv(total, count.astype(str(total.ty.dtype))).astype(dtype)


class _Pool:
    @staticmethod
    def relation(attrs: PoolAttrs, data: Type) -> Type:
        return pool_type(attrs, data)

    @staticmethod
    def lower(context: LowerContext, attrs: PoolAttrs, data: relax.Expr) -> relax.Expr:
        pool = Pool.of(attrs, context.shape(data))
        past = [2 * s - 1 for s in pool.strides] if pool.is_ceil else None
        require_fits(context, pool.sizes, pool.padding, pool.windows, past, None if pool.is_ceil else pool.strides)
        return context.te(lambda x: _pool(attrs, x), data)


@operator(
    "nn.max_pool{rank}d",
    "data",
    attrs=MaxPoolAttrs,
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    mixed="follow",
    layout="layout",
)
class MaxPool(_Pool):
    """The largest element of each window over {axes}; padding never counts."""


@operator(
    "nn.avg_pool{rank}d",
    "data",
    attrs=AvgPoolAttrs,
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    mixed="follow",
    layout="layout",
)
class AvgPool(_Pool):
    """The mean of each window over {axes}; padding counts only with count_include_pad."""
