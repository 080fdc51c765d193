"""Resizing by interpolation: where a pixel of the result lies in the source, and which source pixels it mixes.

Where a pixel lies, and the weights of the pixels around it, are stages of their own: they are worked out once for a
place on an axis, and not again for every pixel and channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tvm import te, tirx

from ..._dataclasses import dataclass
from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Dim
from .attrs import Float, Int, Str
from .kernel import chosen

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = [
    "AxisTaps",
    "Interpolation",
    "ResizedAxis",
    "Taps",
    "cubic_weights",
    "interpolated",
    "mixed",
    "require_pixels",
    "resampled",
    "resized",
    "resized_axis",
    "wide_type",
]

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


# The pixels around a coordinate, as (position, weight); the weight is None where there is but one.
Taps: TypeAlias = "list[tuple[tirx.Expr, tirx.Expr | None]]"


class ResizeWay(Protocol):
    """What the attributes of a resize say of how it interpolates."""

    method: Str
    coordinate_transformation_mode: Str
    rounding_method: Str
    cubic_alpha: Float
    cubic_exclude: Int
    extrapolation_value: Float


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
    def of(cls, attrs: ResizeWay) -> Interpolation:
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

    def source(
        self,
        index: tirx.Expr,
        size: tirx.Expr,
        target: tirx.Expr,
        region: tuple[tirx.Expr, tirx.Expr],
        wide: str,
    ) -> tirx.Expr:
        """Return the coordinate in a source axis of a size that an index of the result of size `target` stands for."""
        x, size_f, target_f = index.astype(wide), size.astype(wide), target.astype(wide)
        half, zero = tirx.const(0.5, wide), tirx.const(0, wide)
        steps = tirx.max(target - 1, 1).astype(wide)

        def scaled(value: tirx.Expr) -> tirx.Expr:
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

    def rounded(self, x: tirx.Expr) -> tirx.Expr:
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
        return x.astype("int64")

    def repeats(self, size: tirx.Expr, target: tirx.Expr) -> int | None:
        """Return by how much nearest pixels are repeated, where that is a whole number and no coordinate is needed."""
        if self.method != "nearest_neighbor" or self.mode != "asymmetric" or self.rounding not in ("", "floor"):
            return None
        known, wanted = dims.simplify(size), dims.simplify(target)
        if isinstance(known, int) and isinstance(wanted, int):
            return wanted // known if known and wanted % known == 0 and wanted >= known else None
        return next((k for k in range(1, 17) if dims.equal(dims.mul(known, k), wanted)), None)

    def nearest(self, x: tirx.Expr) -> Taps:
        """Return the one pixel of "nearest_neighbor" at a coordinate; its weight is None."""
        return [(self.rounded(x), None)]

    def taps(self, x: tirx.Expr, size: tirx.Expr) -> Taps:
        """Return the pixels around a coordinate of an axis as (position, weight); positions may lie outside."""
        if self.method == "nearest_neighbor":
            return self.nearest(x)
        wide = str(x.ty.dtype)
        floor = tirx.floor(x)
        first, part = floor.astype("int64"), x - floor
        if self.method == "linear":
            return [(first, 1 - part), (first + 1, part)]
        places = [first + (i - 1) for i in range(4)]
        weights = cubic_weights(part, self.alpha)
        if self.excludes_outside:
            zero = tirx.const(0, wide)
            weights = [tirx.Select(tirx.all(p >= 0, p < size), w, zero) for p, w in zip(places, weights, strict=True)]
            total = weights[0] + weights[1] + weights[2] + weights[3]
            weights = [w / total for w in weights]
        return list(zip(places, weights, strict=True))


def cubic_weights(t: tirx.Expr, alpha: float) -> list[tirx.Expr]:
    """Return the weights of the four pixels around a coordinate that lies `t` behind the second of them."""
    wide = str(t.ty.dtype)
    a, one = tirx.const(alpha, wide), tirx.const(1, wide)
    t2, t3 = t * t, t * t * t
    return [
        a * (t3 - 2 * t2 + t),
        (a + 2) * t3 - (a + 3) * t2 + one,
        -(a + 2) * t3 + (2 * a + 3) * t2 - a * t,
        a * t2 - a * t3,
    ]


@dataclass(frozen=True)
class AxisTaps:
    """The source pixels of an axis that make up places of the result, as stages of a kernel.

    Attributes
    ----------
    count : int
        The number of pixels for a place.
    position : callable
        ``position(index, tap)`` gives the position of a pixel as an int64.
    weight : callable or None
        ``weight(index, tap)`` gives its weight; None where there is but one pixel and it counts wholly.
    """

    count: int
    position: Callable[[Sequence[Any], int], Any]
    weight: Callable[[Sequence[Any], int], Any] | None

    @classmethod
    def around(
        cls,
        coordinate: te.Tensor,
        taps: Callable[[tirx.Expr], Taps],
        placed: Callable[[tirx.Expr], tirx.Expr],
    ) -> AxisTaps:
        """Return the pixels that `taps` gives around the coordinates of a tensor.

        Parameters
        ----------
        coordinate : te.Tensor
            The coordinate at each place.
        taps : callable
            Gives (position, weight) for a coordinate.
        placed : callable
            Gives the position that is read for one that may lie outside.
        """
        shape = list(coordinate.shape)
        sample = taps(tirx.const(0, coordinate.dtype))
        count = len(sample)

        def position(*index: tirx.Expr) -> tirx.Expr:
            return chosen(index[-1], [placed(p).astype("int64") for p, _ in taps(coordinate(*index[:-1]))])

        positions = te.compute([*shape, count], position, name="positions")
        if sample[0][1] is None:
            return cls(count, lambda index, tap: positions(*index, tap), None)
        weights = te.compute(
            [*shape, count],
            lambda *i: chosen(i[-1], [w for _, w in taps(coordinate(*i[:-1])) if w is not None]),
            name="weights",
        )
        return cls(count, lambda index, tap: positions(*index, tap), lambda index, tap: weights(*index, tap))


def mixed(
    read: Callable[[list[tirx.Expr]], tirx.Expr],
    axes: Sequence[tuple[AxisTaps, Sequence[tirx.Expr]]],
    wide: str,
) -> tirx.Expr:
    """Return the weighted sum of the source pixels that make up one pixel of a result.

    Parameters
    ----------
    read : callable
        ``read(positions)`` gives the source pixel at positions on the spatial axes.
    axes : sequence of (AxisTaps, index)
        The pixels of each spatial axis, and the place among them.
    wide : str
        The data type of the sum.
    """

    def total(axis: int, positions: list[tirx.Expr]) -> tirx.Expr:
        if axis == len(axes):
            # A pixel that is only moved keeps its data type, and so its value.
            return read(positions) if all(t.weight is None for t, _ in axes) else read(positions).astype(wide)
        taps, index = axes[axis]
        terms = []
        for tap in range(taps.count):
            term = total(axis + 1, [*positions, taps.position(index, tap)])
            terms.append(term if taps.weight is None else term * taps.weight(index, tap))
        return reduce(add, terms)

    return total(0, [])


@dataclass(frozen=True)
class ResizedAxis:
    """One spatial axis of a resize: its pixels, and whether a place lies outside of the source."""

    taps: AxisTaps
    outside: Callable[[Sequence[Any]], Any] | None


def resized_axis(
    how: Interpolation,
    size: tirx.Expr,
    target: tirx.Expr,
    wide: str,
    region: Callable[..., tuple[tirx.Expr, tirx.Expr]],
    lead: Sequence[tirx.Expr] = (),
) -> ResizedAxis:
    """Return an axis of a size resized to `target`.

    Parameters
    ----------
    how : Interpolation
        The way.
    size, target : expression
        The sizes of the source and of the result.
    wide : str
        The data type of coordinates.
    region : callable
        Gives the start and the end of the region of interest for the indices of `lead`.
    lead : sequence of expression
        The extents of indices before that of the axis, on which the region depends.
    """
    ratio = how.repeats(size, target)
    if ratio is not None:
        return ResizedAxis(AxisTaps(1, lambda index, tap: tirx.floordiv(index[-1], ratio), None), None)
    coordinate = te.compute(
        [*lead, target], lambda *i: how.source(i[-1], size, target, region(*i[:-1]), wide), name="coordinates"
    )
    taps = AxisTaps.around(
        coordinate,
        lambda x: how.taps(x, size),
        lambda p: tirx.max(tirx.min(p.astype("int64"), size - 1), 0),
    )
    if how.mode != "tf_crop_and_resize":
        return ResizedAxis(taps, None)

    def outside(index: Sequence[tirx.Expr]) -> tirx.Expr:
        return tirx.any(coordinate(*index) < 0, coordinate(*index) > (size - 1).astype(wide))

    return ResizedAxis(taps, outside)


def interpolated(
    how: Interpolation,
    read: Callable[[list[tirx.Expr]], tirx.Expr],
    axes: Sequence[tuple[ResizedAxis, Sequence[tirx.Expr]]],
    wide: str,
    out_dtype: str,
) -> tirx.Expr:
    """Return one pixel of a resize; see :func:`mixed`."""
    value = mixed(read, [(axis.taps, index) for axis, index in axes], wide)
    outside = [axis.outside(index) for axis, index in axes if axis.outside is not None]
    if outside:
        value = tirx.Select(tirx.any(*outside), tirx.const(how.extrapolation, str(value.ty.dtype)), value)
    return value.astype(out_dtype)


def wide_type(dtype: str) -> str:
    """Return the data type in which pixels are mixed."""
    return "float64" if dtype == "float64" else "float32"


def resized(
    how: Interpolation,
    data: te.Tensor,
    axes: str,
    spatial: str,
    target: Sequence[tirx.Expr],
    regions: Sequence[tuple[tirx.Expr, tirx.Expr]],
    out_dtype: str,
) -> te.Tensor:
    """Return a batch of images of other sizes.

    Parameters
    ----------
    how : Interpolation
        The way.
    data : te.Tensor
        The images.
    axes, spatial : str
        The letters of all axes, and of the spatial ones.
    target : sequence of expression
        The size of each spatial axis of the result.
    regions : sequence of (start, end)
        The region of interest on each spatial axis.
    out_dtype : str
        The data type of the result; that of the data if empty.
    """
    made, wide = dict(zip(spatial, target, strict=True)), wide_type(str(data.dtype))
    sizes = {letter: data.shape[axes.index(letter)] for letter in spatial}
    resizings = [
        resized_axis(how, sizes[a], made[a], wide, lambda r=r: r) for a, r in zip(spatial, regions, strict=True)
    ]
    shape = [dims.as_expr(made.get(a, d)) for a, d in zip(axes, data.shape, strict=True)]
    return resampled(how, data, axes, dict(zip(spatial, resizings, strict=True)), shape, out_dtype)


def resampled(
    how: Interpolation,
    data: te.Tensor,
    axes: str,
    resizings: Mapping[str, ResizedAxis],
    shape: Sequence[tirx.Expr],
    out_dtype: str,
) -> te.Tensor:
    """Return a batch of images of which each pixel mixes those that `resizings` says of the axes named there.

    Parameters
    ----------
    how, data, axes, out_dtype
        As for :func:`resized`.
    resizings : mapping of str to ResizedAxis
        The spatial axes by their letters.
    shape : sequence of expression
        The shape of the result.
    """
    dtype = str(data.dtype)
    wide = wide_type(dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        at = dict(zip(axes, index, strict=True))

        def read(positions: list[tirx.Expr]) -> tirx.Expr:
            source = at | dict(zip(resizings, positions, strict=True))
            return data(*[source[a] for a in axes])

        places = [(axis, [at[letter]]) for letter, axis in resizings.items()]
        return interpolated(how, read, places, wide, out_dtype or dtype)

    return te.compute(list(shape), element, name="resize")


def require_pixels(context: LowerContext, sizes: Sequence[Dim], targets: Sequence[Dim]) -> None:
    """Check at run time that every spatial axis of the source has a pixel, unless the result has none."""
    name = context.operator
    for size, target in zip(sizes, targets, strict=True):
        message = f"{name}: an image without pixels cannot be resized"
        if not isinstance(size, int):
            context.require(tirx.any(size >= 1, dims.as_expr(target) == 0), message)
        elif size == 0:
            context.require_equal(target, 0, message)
