"""Rules of means: over windows, over all there is, along axes."""

from __future__ import annotations

import numpy as np

from ...ir import AffineType, Call, RelayExpr, TensorAffineType, const
from ...op.attached import register_fake_quantization_to_integer
from ...op.registry import build, entry
from .affine import TypeMap, attributes, is_zero, requantized, require_per_tensor

__all__: list[str] = []


def _mean(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    source, wanted = types[expr.args[0]], types[expr]
    require_per_tensor(expr, wanted)
    # Without a zero point: padding that is counted is 0, as it is among the reals. The mean is taken of integers in
    # the scale of the result, and rounded towards 0.
    centred = TensorAffineType(wanted.scale, const(0, "int32"), "int32")
    out = entry(expr.op.name).call(requantized(expr.args[0], source, centred), **attributes(expr))
    if not is_zero(wanted.zero_point):
        out = build("add", out, wanted.zero_point)
    if wanted.dtype != "int32":
        limits = np.iinfo(wanted.dtype)
        out = build("cast", build("clip", out, a_min=limits.min, a_max=limits.max), dtype=wanted.dtype)
    return [out, wanted]


for _name in ("mean", "nn.adaptive_avg_pool1d", "nn.avg_pool2d", "nn.global_avg_pool2d"):
    register_fake_quantization_to_integer(_name, _mean)
