"""Resizing by interpolation: where a pixel of the result lies in the source, and which source pixels it mixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Dim

__all__ = ["Interpolation", "interpolated", "require_pixels", "resized"]

_METHODS = ("nearest_neighbor", "linear", "cubic")
_MODES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_EPSILON = 1e-5  # keeps a coordinate that should be a whole number from falling to its neighbour


@dataclass(frozen=True)
class Interpolation:
    """How a resize computes pixels.

    Attributes
    ----------
    method : str
        "nearest_neighbor", "linear" or "cubic".
    mode : str
        How a coordinate of the result becomes one of the source; the names are those of ONNX's Resize.
    rounding : str
        How "nearest_neighbor" rounds; "" is "round" for "align_corners" and "floor" otherwise.
    alpha : float
        The coefficient of the cubic spline.
    excludes_outside : bool
        Give pixels outside of the source no weight in "cubic".
    extrapolation : float
        The value outside of the region of interest in "tf_crop_and_resize".
    """

    method: str
    mode: str
    rounding: str = ""
    alpha: float = -0.5
    excludes_outside: bool = False
    extrapolation: float = 0.0

    @classmethod
    def of(cls, attrs: Any) -> Interpolation:
        """Read the attributes of a resize; TypeCheckError where they name no way of interpolating."""
        for value, allowed, name in (
            (attrs.method, _METHODS, "method"),
            (attrs.coordinate_transformation_mode, _MODES, "coordinate_transformation_mode"),
            (attrs.rounding_method, _ROUNDINGS, "rounding_method"),
        ):
            if value not in allowed:
                raise TypeCheckError(f"{name} must be one of {', '.join(repr(a) for a in allowed)}, not {value!r}")
        return cls(
            attrs.method,
            attrs.coordinate_transformation_mode,
            attrs.rounding_method,
            attrs.cubic_alpha,
            bool(attrs.cubic_exclude),
            attrs.extrapolation_value,
        )

    def source(self, index: Any, size: Any, target: Any, region: tuple[Any, Any], wide: str) -> Any:
        """Return the coordinate in a source axis of a size that an index of the result of size `target` stands for."""
        x, size_f, target_f = index.astype(wide), size.astype(wide), target.astype(wide)
        half, zero = tirx.const(0.5, wide), tirx.const(0, wide)
        steps = tirx.max(target - 1, 1).astype(wide)

        def scaled(value: Any) -> Any:
            # Rounding to the nearest wants exact halves: 3.5 * (4 / 7) is no 2, 3.5 * 4 / 7 is.
            return value * size_f / target_f if self.method == "nearest_neighbor" else value * (size_f / target_f)

        match self.mode:
            case "half_pixel":
                return scaled(x + half) - half
            case "align_corners":
                return x * ((size_f - 1) / steps)
            case "asymmetric":
                return scaled(x)
            case "pytorch_half_pixel":
                return tirx.Select(target > 1, scaled(x + half) - half, zero)
            case "tf_half_pixel_for_nn":
                return scaled(x + half)
            case _:
                start, end = region
                many = start * (size_f - 1) + x * (end - start) * (size_f - 1) / steps
                return tirx.Select(target > 1, many, half * (start + end) * (size_f - 1))

    def rounded(self, x: Any) -> Any:
        """Return the whole number that "nearest_neighbor" takes for a coordinate."""
        half, epsilon = tirx.const(0.5, str(x.ty.dtype)), tirx.const(_EPSILON, str(x.ty.dtype))
        match self.rounding or ("round" if self.mode == "align_corners" else "floor"):
            case "round_prefer_floor":
                x = tirx.ceil(x - half)
            case "floor":
                x = tirx.floor(x + epsilon)
            case "ceil":
                x = tirx.ceil(x - epsilon)
            case _:
                # "round" takes halves away from zero; below zero both end at the first pixel.
                x = tirx.floor(x + half)
        return x.astype("int32")

    def taps(self, index: Any, size: Any, target: Any, region: tuple[Any, Any], wide: str) -> tuple[list[Any], Any]:
        """Return the pixels of an axis that make up an index of the result, as (position, weight), and the coordinate.

        The weight of the one pixel of "nearest_neighbor" is None.
        """
        ratio = self._whole_ratio(size, target)
        if ratio is not None:
            return [(tirx.floordiv(index, ratio), None)], None
        x = self.source(index, size, target, region, wide)
        if self.method == "nearest_neighbor":
            return [(_inside(self.rounded(x), size), None)], x
        floor = tirx.floor(x)
        first, part = floor.astype("int32"), x - floor
        if self.method == "linear":
            return [(_inside(first, size), 1 - part), (_inside(first + 1, size), part)], x
        weights = self._cubic_weights(part, wide)
        if self.excludes_outside:
            zero = tirx.const(0, wide)
            weights = [
                tirx.Select(tirx.all(first + (i - 1) >= 0, first + (i - 1) < size), w, zero)
                for i, w in enumerate(weights)
            ]
            total = weights[0] + weights[1] + weights[2] + weights[3]
            weights = [w / total for w in weights]
        return [(_inside(first + (i - 1), size), w) for i, w in enumerate(weights)], x

    def _whole_ratio(self, size: Any, target: Any) -> int | None:
        """Return by how much nearest pixels are repeated, where that is a whole number and no coordinate is needed."""
        if self.method != "nearest_neighbor" or self.mode != "asymmetric" or self.rounding not in ("", "floor"):
            return None
        known, wanted = dims.simplify(size), dims.simplify(target)
        if isinstance(known, int) and isinstance(wanted, int):
            return wanted // known if known and wanted % known == 0 and wanted >= known else None
        return next((k for k in range(1, 17) if dims.equal(dims.mul(known, k), wanted)), None)

    def _cubic_weights(self, t: Any, wide: str) -> list[Any]:
        a, one = tirx.const(self.alpha, wide), tirx.const(1, wide)
        t2, t3 = t * t, t * t * t
        return [
            a * (t3 - 2 * t2 + t),
            (a + 2) * t3 - (a + 3) * t2 + one,
            -(a + 2) * t3 + (2 * a + 3) * t2 - a * t,
            a * t2 - a * t3,
        ]


def _inside(index: Any, size: Any) -> Any:
    return tirx.max(tirx.min(index.astype("int64"), size - 1), 0)


def interpolated(
    how: Interpolation,
    read: Any,
    indices: Sequence[Any],
    sizes: Sequence[Any],
    targets: Sequence[Any],
    regions: Sequence[tuple[Any, Any]],
    dtype: str,
    out_dtype: str,
) -> Any:
    """Return one pixel of a result.

    Parameters
    ----------
    how : Interpolation
        The way.
    read : callable
        ``read(positions)`` gives the source pixel at positions on the spatial axes.
    indices, sizes, targets : sequence of expression
        For each spatial axis the index, the size of the source and that of the result.
    regions : sequence of (start, end)
        For each spatial axis the region of interest.
    dtype, out_dtype : str
        The data types of the source and of the result.
    """
    wide = "float64" if dtype == "float64" else "float32"
    axes = [how.taps(*values, wide) for values in zip(indices, sizes, targets, regions, strict=True)]

    def mixed(axis: int, positions: list[Any]) -> Any:
        if axis == len(axes):
            # A pixel that is only moved keeps its data type, and so its value.
            return read(positions) if how.method == "nearest_neighbor" else read(positions).astype(wide)
        terms = []
        for position, weight in axes[axis][0]:
            term = mixed(axis + 1, [*positions, position])
            terms.append(term if weight is None else term * weight)
        return sum(terms[1:], terms[0])

    value = mixed(0, [])
    if how.mode == "tf_crop_and_resize":
        outside = [t for (_, x), size in zip(axes, sizes, strict=True) for t in (x < 0, x > (size - 1).astype(wide))]
        value = tirx.Select(tirx.any(*outside), tirx.const(how.extrapolation, str(value.ty.dtype)), value)
    return value.astype(out_dtype)


def resized(
    how: Interpolation,
    data: te.Tensor,
    axes: str,
    spatial: str,
    target: Sequence[Any],
    regions: Sequence[tuple[Any, Any]],
    out_dtype: str,
) -> te.Tensor:
    """Return a batch of images of other sizes, as one stage."""
    made = dict(zip(spatial, target, strict=True))
    places = [axes.index(a) for a in spatial]

    def element(*index: Any) -> Any:
        def read(positions: list[Any]) -> Any:
            at = dict(zip(spatial, positions, strict=True))
            return data(*[at.get(a, i) for a, i in zip(axes, index, strict=True)])

        return interpolated(
            how,
            read,
            [index[p] for p in places],
            [data.shape[p] for p in places],
            list(target),
            regions,
            str(data.dtype),
            out_dtype or str(data.dtype),
        )

    shape = [dims.as_expr(made.get(a, d)) for a, d in zip(axes, data.shape, strict=True)]
    return te.compute(shape, element, name="resize")


def require_pixels(context: Any, sizes: Sequence[Dim], targets: Sequence[Dim]) -> None:
    """Check at run time that every spatial axis of the source has a pixel, unless the result has none."""
    name = context.current.name
    for size, target in zip(sizes, targets, strict=True):
        message = f"{name}: an image without pixels cannot be resized"
        if not isinstance(size, int):
            context.require(tirx.any(size >= 1, dims.as_expr(target) == 0), message)
        elif size == 0:
            context.require_equal(target, 0, message)
