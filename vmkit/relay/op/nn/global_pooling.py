"""Pools whose windows follow from the size of the result: global and adaptive ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.types import Dim, TensorType, Type
from ..attrs import Attrs, Dims, Str, attrs_node
from ..elementwise import require_tensor
from ..registry import OpPattern, entry, operator
from .layout import SPATIAL, axes_of, ordered
from .pooling import pool_axes, quotient, require_same_layout, sum_dtype

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["global_avg_pool1d", "global_avg_pool3d", "global_max_pool1d", "global_max_pool3d"]


@attrs_node("relay.attrs.GlobalPool2DAttrs")
class GlobalPool2DAttrs(Attrs):
    """Attributes of the global pools."""

    layout: Str = "NCHW"
    out_layout: Str = ""


@attrs_node("relay.attrs.AdaptivePool1DAttrs")
class AdaptivePool1DAttrs(Attrs):
    """Attributes of the adaptive pools over one spatial axis."""

    output_size: Dims = ()
    layout: Str = "NCW"
    out_layout: Str = ""


@attrs_node("relay.attrs.AdaptivePool2DAttrs")
class AdaptivePool2DAttrs(Attrs):
    """Attributes of the adaptive pools over two spatial axes."""

    output_size: Dims = ()
    layout: Str = "NCHW"
    out_layout: Str = ""


@attrs_node("relay.attrs.AdaptivePool3DAttrs")
class AdaptivePool3DAttrs(Attrs):
    """Attributes of the adaptive pools over three spatial axes."""

    output_size: Dims = ()
    layout: Str = "NCDHW"
    out_layout: Str = ""


def _wanted(attrs: Any, rank: int, sizes: Sequence[Dim]) -> list[Dim]:
    """Return the spatial sizes of an adaptive pool's result; the global pools' are 1."""
    if isinstance(attrs, GlobalPool2DAttrs):
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


def _relation(rank: int) -> Any:
    def relation(attrs: Any, data: Type) -> Type:
        source = require_tensor(data, "data")
        axes = pool_axes(attrs.layout, rank, source)
        require_same_layout(attrs)
        sizes = ordered(source.shape, axes, SPATIAL[rank])
        made = dict(zip(SPATIAL[rank], _wanted(attrs, rank, sizes), strict=True))
        return TensorType([made.get(a, d) for a, d in zip(axes, source.shape, strict=True)], source.dtype)

    return relation


def _lowering(rank: int, kind: str) -> relax.Expr:
    def lower(context: LowerContext, attrs: Any, data: relax.Expr) -> relax.Expr:
        axes = axes_of(attrs.layout)
        sizes = ordered(context.shape(data), axes, SPATIAL[rank])
        result = [dims.as_expr(d) for d in context.dims(_wanted(attrs, rank, sizes))]
        return context.te(lambda x, made: _adaptive_pool(axes, SPATIAL[rank], x, made, kind), data, result)

    return lower


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

    def bounds(a: str, index: Any) -> tuple[Any, Any]:
        size, count = dims.as_expr(sizes[a]), dims.as_expr(made[a])
        return tirx.floordiv(index * size, count), tirx.floordiv((index + 1) * size + count - 1, count)

    def element(*index: tirx.PrimExpr) -> tirx.PrimExpr:
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

    def mean(*index: tirx.PrimExpr) -> tirx.PrimExpr:
        at, count = dict(zip(axes, index, strict=True)), tirx.IntImm("int64", 1)
        for a in spatial:
            first, end = bounds(a, at[a])
            count *= dims.as_expr(reach[a]) if even[a] else end - first
        return quotient(pooled(*index), count, dtype)

    return te.compute(whole, mean, name="adaptive_pool_mean")


def _global(kind: str, doc: str) -> None:
    body = {"__doc__": doc, "relation": staticmethod(_relation(2)), "lower": staticmethod(_lowering(2, kind))}
    register = operator(
        f"nn.global_{kind}_pool2d", "data", attrs=GlobalPool2DAttrs, level=2, pattern=OpPattern.OUT_ELEMWISE_FUSABLE
    )
    register(type(f"Global{kind.title()}Pool2D", (), body))


def _adaptive(rank: int, kind: str, attrs: type[Attrs], doc: str) -> None:
    name = f"nn.adaptive_{kind}_pool{rank}d"

    def build(data: Expr, output_size: Any = None, layout: str = "NC" + SPATIAL[rank], out_layout: str = "") -> Expr:
        wanted = () if output_size is None else output_size
        return entry(name).call(data, output_size=wanted, layout=layout, out_layout=out_layout)

    body = {
        "__doc__": doc,
        "build": staticmethod(build),
        "relation": staticmethod(_relation(rank)),
        "lower": staticmethod(_lowering(rank, kind)),
    }
    register = operator(name, "data", attrs=attrs, level=10, pattern=OpPattern.OUT_ELEMWISE_FUSABLE)
    register(type(f"Adaptive{kind.title()}Pool{rank}D", (), body))


_global("max", "The largest element of each channel; the spatial axes become 1.")
_global("avg", "The mean of each channel; the spatial axes become 1.")
for _rank, _attrs in ((1, AdaptivePool1DAttrs), (2, AdaptivePool2DAttrs), (3, AdaptivePool3DAttrs)):
    _adaptive(_rank, "max", _attrs, f"The largest element of each of output_size windows over {_rank} spatial axes.")
    _adaptive(_rank, "avg", _attrs, f"The mean of each of output_size windows over {_rank} spatial axes.")


def global_max_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Expr:
    """Return the adaptive pool that leaves the largest element of each channel of sequences."""
    return entry("nn.adaptive_max_pool1d").builder(data, [1], layout, out_layout)


def global_avg_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Expr:
    """Return the adaptive pool that leaves the mean of each channel of sequences."""
    return entry("nn.adaptive_avg_pool1d").builder(data, [1], layout, out_layout)


def global_max_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Expr:
    """Return the adaptive pool that leaves the largest element of each channel of volumes."""
    return entry("nn.adaptive_max_pool3d").builder(data, [1, 1, 1], layout, out_layout)


def global_avg_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Expr:
    """Return the adaptive pool that leaves the mean of each channel of volumes."""
    return entry("nn.adaptive_avg_pool3d").builder(data, [1, 1, 1], layout, out_layout)
