"""Pools: the largest or the mean element of a window that slides over the spatial axes."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Bool, Ints, Str, attrs_node
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .layout import SPATIAL, axes_of, ordered
from .precision import accumulator
from .window import extent, fitted, pad_spatial, padding_of, positive, require_fits, window_builder

__all__ = ["is_float", "pool_axes", "quotient", "require_same_layout", "sum_dtype"]


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


def require_same_layout(attrs: Any) -> None:
    """Check that the result is wanted in the order of the data."""
    if attrs.out_layout and attrs.out_layout != attrs.layout:
        raise TypeCheckError(
            f"out_layout {attrs.out_layout!r} differs from layout {attrs.layout!r}; use layout_transform for that"
        )


def _numbers(attrs: Any, rank: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return the kernel, strides, dilation and padding, each checked."""
    return (
        positive(attrs.pool_size, rank, "pool_size"),
        positive(attrs.strides, rank, "strides"),
        positive(attrs.dilation, rank, "dilation"),
        padding_of(attrs.padding, rank),
    )


def _pool_relation(rank: int) -> Any:
    def relation(attrs: Any, data: Type) -> Type:
        source = require_tensor(data, "data")
        axes = pool_axes(attrs.layout, rank, source)
        require_same_layout(attrs)
        kernel, strides, dilation, padding = _numbers(attrs, rank)
        windows = [extent(k, d) for k, d in zip(kernel, dilation, strict=True)]
        sizes = fitted(ordered(source.shape, axes, SPATIAL[rank]), padding, windows, strides, ceil=attrs.ceil_mode)
        made = dict(zip(SPATIAL[rank], sizes, strict=True))
        return TensorType([made.get(a, d) for a, d in zip(axes, source.shape, strict=True)], source.dtype)

    return relation


def _pool_lowering(rank: int, kind: str) -> Any:
    def lower(context: Any, attrs: Any, data: relax.Expr) -> Any:
        kernel, _, dilation, padding = _numbers(attrs, rank)
        sizes = ordered(context.shape(data), axes_of(attrs.layout), SPATIAL[rank])
        require_fits(context, sizes, padding, [extent(k, d) for k, d in zip(kernel, dilation, strict=True)])
        return context.te(lambda x: _pool(attrs, x, rank, kind), data)

    return lower


def _pool(attrs: Any, data: te.Tensor, rank: int, kind: str) -> te.Tensor:
    axes, spatial = axes_of(attrs.layout), SPATIAL[rank]
    kernel, strides, dilation, padding = _numbers(attrs, rank)
    shape = [dims.simplify(d) for d in data.shape]
    sizes = ordered(shape, axes, spatial)
    windows = [extent(k, d) for k, d in zip(kernel, dilation, strict=True)]
    result = dict(zip(spatial, fitted(sizes, padding, windows, strides, ceil=attrs.ceil_mode), strict=True))
    dtype = str(data.dtype)
    value = tirx.min_value(dtype) if kind == "max" else tirx.const(0, dtype)
    extra = [s - 1 for s in strides] if attrs.ceil_mode else None
    padded = pad_spatial(data, axes, spatial, padding, value, extra=extra)
    reduced = {a: te.reduce_axis((0, k), name=f"r{a.lower()}") for a, k in zip(spatial, kernel, strict=True)}
    sums = dtype if kind == "max" else sum_dtype(dtype)

    def element(*index: Any) -> Any:
        at = dict(zip(axes, index, strict=True))
        for a, stride, step in zip(spatial, strides, dilation, strict=True):
            at[a] = at[a] * stride + reduced[a] * step
        x, over = padded(*[at[a] for a in axes]), [reduced[a] for a in spatial]
        return te.max(x, axis=over) if kind == "max" else te.sum(x.astype(sums), axis=over)

    whole = [dims.as_expr(result.get(a, d)) for a, d in zip(axes, shape, strict=True)]
    pooled = te.compute(whole, element, name=f"pool_{kind}")
    if kind == "max":
        return pooled

    def mean(*index: Any) -> Any:
        at = dict(zip(axes, index, strict=True))
        count: Any = tirx.IntImm("int64", 1)
        for i, a in enumerate(spatial):
            bounds = (padding[i], padding[rank + i], sizes[i])
            count *= _counted(at[a], bounds, strides[i], dilation[i], windows[i], attrs.count_include_pad)
        return quotient(pooled(*index), count, dtype)

    return te.compute(whole, mean, name="pool_avg")


def sum_dtype(dtype: str) -> str:
    """Return the data type of a pool's sums: narrow integers must not wrap."""
    if dtype in ("int8", "int16", "uint8", "uint16"):
        return "int32"
    return accumulator(dtype)


def _counted(index: Any, bounds: tuple[int, int, Any], stride: int, dilation: int, window: int, with_pad: bool) -> Any:
    """Return how many positions of a window on one axis count: those on the data, or on the padded data."""
    before, after, size = bounds
    first = index * stride - before
    end = dims.as_expr(size) + (after if with_pad else 0)
    last = tirx.min(first + (window - 1), end - 1)
    if not with_pad:
        # The first position of the window that is on the data.
        first = tirx.Select(first < 0, first + tirx.floordiv(-first + (dilation - 1), dilation) * dilation, first)
    return tirx.max(tirx.floordiv(last - first, dilation) + 1, 1)


def quotient(total: Any, count: Any, dtype: str) -> Any:
    """Return a mean; of integers, rounded towards zero."""
    if is_float(dtype):
        return (total / count.astype(str(total.ty.dtype))).astype(dtype)
    return tirx.truncdiv(total, count.astype(str(total.ty.dtype))).astype(dtype)


@attrs_node("relay.attrs.MaxPool1DAttrs")
class MaxPool1DAttrs(Attrs):
    """Attributes of nn.max_pool1d."""

    pool_size: Ints
    strides: Ints = (1,)
    dilation: Ints = (1,)
    padding: Ints = (0,)
    layout: Str = "NCW"
    out_layout: Str = ""
    ceil_mode: Bool = False


@attrs_node("relay.attrs.MaxPool2DAttrs")
class MaxPool2DAttrs(Attrs):
    """Attributes of nn.max_pool2d."""

    pool_size: Ints
    strides: Ints = (1, 1)
    dilation: Ints = (1, 1)
    padding: Ints = (0, 0)
    layout: Str = "NCHW"
    out_layout: Str = ""
    ceil_mode: Bool = False


@attrs_node("relay.attrs.MaxPool3DAttrs")
class MaxPool3DAttrs(Attrs):
    """Attributes of nn.max_pool3d."""

    pool_size: Ints
    strides: Ints = (1, 1, 1)
    dilation: Ints = (1, 1, 1)
    padding: Ints = (0, 0, 0)
    layout: Str = "NCDHW"
    out_layout: Str = ""
    ceil_mode: Bool = False


@attrs_node("relay.attrs.AvgPool1DAttrs")
class AvgPool1DAttrs(Attrs):
    """Attributes of nn.avg_pool1d."""

    pool_size: Ints
    strides: Ints = (1,)
    dilation: Ints = (1,)
    padding: Ints = (0,)
    layout: Str = "NCW"
    out_layout: Str = ""
    ceil_mode: Bool = False
    count_include_pad: Bool = False


@attrs_node("relay.attrs.AvgPool2DAttrs")
class AvgPool2DAttrs(Attrs):
    """Attributes of nn.avg_pool2d."""

    pool_size: Ints
    strides: Ints = (1, 1)
    dilation: Ints = (1, 1)
    padding: Ints = (0, 0)
    layout: Str = "NCHW"
    out_layout: Str = ""
    ceil_mode: Bool = False
    count_include_pad: Bool = False


@attrs_node("relay.attrs.AvgPool3DAttrs")
class AvgPool3DAttrs(Attrs):
    """Attributes of nn.avg_pool3d."""

    pool_size: Ints
    strides: Ints = (1, 1, 1)
    dilation: Ints = (1, 1, 1)
    padding: Ints = (0, 0, 0)
    layout: Str = "NCDHW"
    out_layout: Str = ""
    ceil_mode: Bool = False
    count_include_pad: Bool = False


def _register(rank: int, kind: str, attrs: type[Attrs]) -> None:
    """Register the pool of a kind over `rank` spatial axes."""
    name = f"nn.{kind}_pool{rank}d"
    parameters: dict[str, Any] = {
        "pool_size": (1,) * rank,
        "strides": (1,) * rank,
        "dilation": (1,) * rank,
        "padding": (0,) * rank,
        "layout": "NC" + SPATIAL[rank],
        "out_layout": "",
        "ceil_mode": False,
    }
    doc = f"The largest element of each window over {rank} spatial axes; padding never counts."
    if kind == "avg":
        parameters["count_include_pad"] = False
        doc = f"The mean of each window over {rank} spatial axes; padding counts only with count_include_pad."
    body = {
        "__doc__": doc,
        "build": staticmethod(window_builder(name, ("data",), rank, **parameters)),
        "relation": staticmethod(_pool_relation(rank)),
        "lower": staticmethod(_pool_lowering(rank, kind)),
    }
    operator(name, "data", attrs=attrs, level=2, pattern=OpPattern.OUT_ELEMWISE_FUSABLE)(type(name, (), body))


for _rank, _max, _avg in (
    (1, MaxPool1DAttrs, AvgPool1DAttrs),
    (2, MaxPool2DAttrs, AvgPool2DAttrs),
    (3, MaxPool3DAttrs, AvgPool3DAttrs),
):
    _register(_rank, "max", _max)
    _register(_rank, "avg", _avg)
