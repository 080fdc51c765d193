"""Rules of operators that limit numbers."""

from __future__ import annotations

import numpy as np

from ...ir import AffineType, Call, Constant, RelayExpr, TensorAffineType, const
from ...op.attached import register_fake_quantization_to_integer
from ...op.registry import build
from .affine import TypeMap, is_per_tensor, rank_of

__all__: list[str] = []


@register_fake_quantization_to_integer("clip")
def _clip(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    data = expr.args[0]
    ty = types[data]
    if is_per_tensor(ty) and isinstance(ty.scale, Constant) and isinstance(ty.zero_point, Constant):
        least, most = (_integer(real, ty) for real in (expr.attrs.a_min, expr.attrs.a_max))
        return [build("clip", data, a_min=least, a_max=most), ty]
    low, high = (_bound(real, ty, rank_of(data)) for real in (expr.attrs.a_min, expr.attrs.a_max))
    return [build("minimum", build("maximum", data, low), high), ty]


def _integer(real: float, ty: TensorAffineType) -> float:
    """Return the integer of a constant affine type that is next to a real."""
    scaled = real / ty.scale.data.numpy().item()
    limits = np.iinfo(ty.dtype)
    if not np.isfinite(scaled):
        return float(limits.min if scaled < 0 else limits.max)
    integer = np.sign(scaled) * np.floor(abs(scaled) + 0.5) + ty.zero_point.data.numpy().item()
    return float(np.clip(integer, limits.min, limits.max))


def _bound(real: float, ty: TensorAffineType, rank: int) -> RelayExpr:
    """Return the integers of a real, in a shape that broadcasts against a tensor of a rank."""
    if is_per_tensor(ty):
        return build("qnn.quantize", const(np.float32(real)), ty.scale, ty.zero_point, out_dtype=ty.dtype)
    vector = ty.zero_point if isinstance(ty.scale, Constant) and ty.scale.data.numpy().size == 1 else ty.scale
    reals = build("full_like", build("cast", vector, dtype="float32"), const(np.float32(real)))
    integers = build("qnn.quantize", reals, ty.scale, ty.zero_point, axis=0, out_dtype=ty.dtype)
    after = rank - 1 - ty.axis % rank
    return build("expand_dims", integers, axis=1, num_newaxis=after) if after else integers


@register_fake_quantization_to_integer("nn.relu")
def _relu(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    ty = types[expr.args[0]]
    rank = rank_of(expr.args[0])
    zero = ty.zero_point
    if isinstance(zero, Constant):
        array = zero.data.numpy().astype(ty.dtype)
        shape = () if array.size == 1 else (-1, *[1] * (rank - 1 - ty.axis % rank))
        zero = const(array.reshape(shape))
    else:
        zero = build("cast", zero, dtype=ty.dtype)
        after = rank - 1 - ty.axis % rank
        zero = build("expand_dims", zero, axis=1, num_newaxis=after) if rank_of(zero) and after else zero
    return [build("maximum", expr.args[0], zero), ty]
