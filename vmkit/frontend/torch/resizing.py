"""Resizing of images of PyTorch to other sizes, or by factors, which say where pixels lie where sizes are rounded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...relax.guards import ASKED
from ...relay.ir import dims
from ...relay.op.interpolate import AxisTaps, Interpolation, ResizedAxis, Taps, resampled, wide_type
from .arguments import Converter, Importing, arguments_of, cast_to, refused
from .formulas import known_sizes
from .relay_operators import lowered

if TYPE_CHECKING:
    from torch import fx

__all__ = ["RESIZING"]

_AXES = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_CUBIC = -0.75  # the coefficient of PyTorch's spline
_SMOOTH_CUBIC = -0.5  # that with antialias


def _resized(importer: Importing, node: fx.Node, *, method: str, is_centred: bool = False) -> relax.Expr:
    """Return images resized; `is_centred` says that the nearest pixel is that of a pixel's centre."""
    data, _, *options = arguments_of(node)
    *aligned, factors = options
    mode = "align_corners" if aligned and aligned[0] else "half_pixel" if aligned or is_centred else "asymmetric"
    how = Interpolation(method, mode, "floor" if method == "nearest_neighbor" else "", _CUBIC)
    tensor = importer.env[data]
    rank = tensor.ty.ndim - 2
    sizes = known_sizes(importer, node)[2:]
    scales = [float(f) for f in factors] if factors else [None] * rank
    axes = _AXES[rank]

    def kernel(x: te.Tensor, sizes: Sequence[tirx.Expr]) -> te.Tensor:
        wide, sides = wide_type(x.dtype), zip(axes[2:], x.shape[2:], sizes, scales, strict=True)
        resizings = {letter: _axis(how, size, target, factor, wide) for letter, size, target, factor in sides}
        return resampled(how, x, axes, resizings, [*x.shape[:2], *sizes], "")

    return importer.block_builder.emit_te(kernel, tensor, sizes, primfunc_name_hint="resize", primfunc_attrs={ASKED: 1})


def _axis(how: Interpolation, size: tirx.Expr, target: tirx.Expr, factor: float | None, wide: str) -> ResizedAxis:
    """Return an axis resized to `target`, coordinates of the result divided by the factor where there is one."""
    if how.method == "nearest_neighbor" and (factor is None or factor.is_integer()):
        plain = Interpolation(how.method, "asymmetric", how.rounding)
        ratio = plain.repeats(size, target)
        if ratio is not None:
            return ResizedAxis(AxisTaps(1, lambda index, tap: tirx.floordiv(index[-1], ratio), None), None)
    is_rounded = factor is not None and how.mode != "align_corners"
    before = tirx.const(1, wide) if is_rounded else size
    after = tirx.const(factor, wide) if is_rounded else target
    nowhere = tirx.const(0, wide), tirx.const(0, wide)

    def source(index: tirx.Expr) -> tirx.Expr:
        if how.method != "nearest_neighbor":
            return how.source(index, before, after, nowhere, wide)
        # PyTorch multiplies by a ratio that is rounded, and takes what is below without any tolerance.
        start = index.astype(wide) + tirx.const(0.5 if how.mode == "half_pixel" else 0, wide)
        return start * (before.astype(wide) / after.astype(wide))

    def taps(x: tirx.Expr) -> Taps:
        return [(tirx.floor(x).astype("int64"), None)] if how.method == "nearest_neighbor" else how.taps(x, size)

    coordinate = te.compute([target], source, name="coordinates")
    return ResizedAxis(AxisTaps.around(coordinate, taps, lambda p: tirx.max(tirx.min(p, size - 1), 0)), None)


def _smoothed(importer: Importing, node: fx.Node, *, method: str) -> relax.Expr:
    """Return images resized by filters that are as much wider as images become smaller."""
    data, _, is_aligned, factors = arguments_of(node)
    value = importer.env[data]
    dtype = str(value.ty.dtype)
    if is_aligned:
        raise refused(node, "resizes with antialias and align_corners; there is no filter for both")
    wide = cast_to(importer, value, "float64" if dtype == "float64" else "float32")
    sizes, target = list(value.ty.shape)[2:], known_sizes(importer, node)[2:]
    ways = {"method": method, "coordinate_transformation_mode": "half_pixel", "antialias": True}
    for k, (size, wanted) in enumerate(zip(sizes, target, strict=True)):
        factor = float(factors[k]) if factors else 0.0

        def placed(size: tirx.Expr, wanted: tirx.Expr, factor: float = factor) -> te.Tensor:
            own, given = size.astype("float64"), tirx.const(factor, "float64")
            scale = given if factor else wanted.astype("float64") / tirx.max(own, tirx.const(1, "float64"))
            length, nowhere = own * scale, tirx.const(0, "float64")
            return te.compute([4], lambda i: tirx.Select(i == 0, scale, tirx.Select(i == 1, length, nowhere)))

        place = importer.block_builder.emit_te(placed, size, wanted, primfunc_name_hint="placement")
        extent = importer.block_builder.emit(relax.op.shape_to_tensor(relax.ShapeExpr([wanted])))
        options = {"axis": k + 2, "size": dims.simplify(wanted), "cubic_alpha": _SMOOTH_CUBIC, "cubic_exclude": 1}
        wide = lowered(importer, "image.contrib_resize_axis", wide, extent, place, **ways, **options)
    return cast_to(importer, wide, dtype)


RESIZING: dict[str, Converter] = {
    "_upsample_bicubic2d_aa.vec": partial(_smoothed, method="cubic"),
    "_upsample_bilinear2d_aa.vec": partial(_smoothed, method="linear"),
    **{f"upsample_nearest{n}d.vec": partial(_resized, method="nearest_neighbor") for n in _AXES},
    **{
        f"_upsample_nearest_exact{n}d.vec": partial(_resized, method="nearest_neighbor", is_centred=True) for n in _AXES
    },
    **{
        f"upsample_{name}{n}d.vec": partial(_resized, method="linear")
        for n, name in ((1, "linear"), (2, "bilinear"), (3, "trilinear"))
    },
    "upsample_bicubic2d.vec": partial(_resized, method="cubic"),
}
"""The converters, by the names of PyTorch's operators."""
