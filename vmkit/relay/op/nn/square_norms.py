"""Normalizations by sums of squares: over axes (l2), or over neighbours on an axis (lrn)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import te, tirx, topi

from ....errors import TypeCheckError
from ...ir.types import Type
from ..attrs import Attrs, Float, Int, Ints, attrs_node
from ..axis import resolve_axes, resolve_axis
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .precision import accumulator

if TYPE_CHECKING:
    pass

__all__: list[str] = []


@attrs_node("relay.attrs.L2NormalizeAttrs")
class L2NormalizeAttrs(Attrs):
    """Attributes of nn.l2_normalize."""

    eps: Float
    axis: Ints | None = None


@operator(
    "nn.l2_normalize",
    "data",
    attrs=L2NormalizeAttrs,
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    mixed="never",
    layout="axes",
)
class L2Normalize:
    """The data divided by the square root of its sum of squares along the axes; that sum is eps at least."""

    @staticmethod
    def relation(attrs: L2NormalizeAttrs, data: Type) -> Type:
        source = require_tensor(data, "data")
        resolve_axes(attrs.axis, len(source.shape))
        return source

    @staticmethod
    def compute(attrs: L2NormalizeAttrs, data: te.Tensor) -> te.Tensor:
        axes, dtype = resolve_axes(attrs.axis, len(data.shape)), str(data.dtype)
        wide = accumulator(dtype)
        kept = [i for i in range(len(data.shape)) if i not in axes]
        over = {a: te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes}

        def squares(*index: tirx.Expr) -> tirx.Expr:
            known = dict(zip(kept, index, strict=True))
            x = data(*[over[i] if i in over else known[i] for i in range(len(data.shape))]).astype(wide)
            return te.sum(x * x, axis=list(over.values()))

        total = te.compute([data.shape[i] for i in kept], squares, name="squares")
        least = tirx.const(attrs.eps, wide)
        return te.compute(
            data.shape,
            lambda *i: (data(*i).astype(wide) / tirx.sqrt(tirx.max(total(*[i[k] for k in kept]), least))).astype(dtype),
            name="l2_normalize",
        )


@attrs_node("relay.attrs.LRNAttrs")
class LRNAttrs(Attrs):
    """Attributes of nn.lrn."""

    size: Int = 5
    axis: Int = 1
    bias: Float = 2
    alpha: Float = 0.0001
    beta: Float = 0.75


@operator("nn.lrn", "data", attrs=LRNAttrs, level=2, pattern=OpPattern.OUT_ELEMWISE_FUSABLE, layout="axis")
class LRN:
    """Local response normalization: ``x / (bias + alpha / size * sum of squares of size neighbours) ** beta``."""

    @staticmethod
    def relation(attrs: LRNAttrs, data: Type) -> Type:
        source = require_tensor(data, "data")
        resolve_axis(attrs.axis, len(source.shape))
        if attrs.size < 1:
            raise TypeCheckError(f"size must be positive, not {attrs.size}")
        return source

    @staticmethod
    def compute(attrs: LRNAttrs, data: te.Tensor) -> te.Tensor:
        at, dtype = resolve_axis(attrs.axis, len(data.shape)), str(data.dtype)
        wide = accumulator(dtype)
        # Of an even number of neighbours, one more lies behind than before, as in ONNX.
        before = [(attrs.size - 1) // 2 if i == at else 0 for i in range(len(data.shape))]
        after = [attrs.size // 2 if i == at else 0 for i in range(len(data.shape))]
        padded = topi.nn.pad(data, before, after, 0, name="pad_temp")
        k = te.reduce_axis((0, attrs.size), name="k")

        def squares(*index: tirx.Expr) -> tirx.Expr:
            x = padded(*index[:at], index[at] + k, *index[at + 1 :]).astype(wide)
            return te.sum(x * x, axis=k)

        total = te.compute(data.shape, squares, name="squares")
        bias, alpha = tirx.const(attrs.bias, wide), tirx.const(attrs.alpha / attrs.size, wide)
        return te.compute(
            data.shape,
            lambda *i: (data(*i).astype(wide) / _power(bias + alpha * total(*i), attrs.beta)).astype(dtype),
            name="lrn",
        )


def _power(base: tirx.Expr, exponent: float) -> tirx.Expr:
    """Return a power; of quarters up to one, by square roots, which vectors have."""
    match exponent:
        case 0.25:
            return tirx.sqrt(tirx.sqrt(base))
        case 0.5:
            return tirx.sqrt(base)
        case 0.75:
            return tirx.sqrt(base) * tirx.sqrt(tirx.sqrt(base))
        case 1.0:
            return base
    return tirx.power(base, tirx.const(exponent, str(base.ty.dtype)))
