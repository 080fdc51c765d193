"""Fourier transforms: of whole signals, and of the short windows of a long one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Call, Expr
from ..ir.tuple_wrapper import TupleWrapper
from ..ir.types import Dim, TensorType, TupleType, Type
from .agreement import may_agree
from .attrs import Attrs, Bool, Int, attrs_node, field
from .elementwise import require_tensor
from .fields import REQUIRED
from .kernel import const
from .registry import OpPattern, Parameters, build, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


def _require_float(ty: Type, name: str) -> TensorType:
    tensor = require_tensor(ty, name)
    if not tensor.dtype.startswith(("float", "bfloat")):
        raise TypeCheckError(f"{name} must be a tensor of floats, not {tensor}")
    return tensor


def _computed_in(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def _turn(step: tirx.Expr, period: tirx.Expr, dtype: str) -> tuple[tirx.Expr, tirx.Expr]:
    """Return cosine and sine of `step` / `period` of a full turn.

    The remainder is taken in integers: the angle stays in one turn, and is as exact for the last step as for the first.
    """
    angle = tirx.floormod(step, period).astype(dtype) * tirx.const(2 * math.pi, dtype) / period.astype(dtype)
    return tirx.cos(angle), tirx.sin(angle)


@attrs_node("relay.attrs.StftAttrs")
class StftAttrs(Attrs):
    """Attributes of stft."""

    n_fft: Int = field(-1, script=REQUIRED, doc="The number of elements that a transform is of.")
    hop_length: Int = field(-1, script=None, doc="Steps between the frames; a quarter of n_fft where it is None.")
    win_length: Int = field(-1, script=None, doc="Elements of a frame; n_fft where it is None.")
    normalized: Bool = field(False, doc="Whether the result is divided by the square root of n_fft.")
    onesided: Bool = field(True, doc="Whether the frequencies that repeat others are left out.")


@operator(
    "stft",
    "data",
    "window",
    attrs=StftAttrs,
    level=3,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("data n_fft hop_length win_length window normalized onesided", given={"window": None}),
)
class Stft:
    """The Fourier transforms of a signal's frames: (batch, frequency, frame, real and imaginary part).

    A frame begins at every hop_length-th element and takes win_length elements, weighted by window. There are as many
    frames as n_fft elements fit, n_fft // 2 + 1 frequencies when onesided and n_fft otherwise; normalized divides by
    the square root of n_fft. A signal without batch dimension gives a result without.
    """

    @staticmethod
    def make(
        data: Expr,
        n_fft: int,
        hop_length: int | None,
        win_length: int | None,
        window: Expr | None,
        **values: bool,
    ) -> Expr:
        return entry("stft").call(
            data,
            build("ones", [n_fft], "int32") if window is None else window,
            n_fft=n_fft,
            hop_length=n_fft // 4 if hop_length is None else hop_length,
            win_length=n_fft if win_length is None else win_length,
            **values,
        )

    @staticmethod
    def frames(attrs: StftAttrs, length: Dim) -> Dim:
        return dims.add(dims.floordiv(dims.sub(length, attrs.n_fft), attrs.hop_length), 1)

    @staticmethod
    def relation(attrs: StftAttrs, data: Type, window: Type) -> Type:
        source, weights = _require_float(data, "data"), require_tensor(window, "window")
        if len(source.shape) not in (1, 2):
            raise TypeCheckError(f"data must be a signal or a batch of them, with 1 or 2 dimensions, not {source}")
        for name in ("n_fft", "hop_length", "win_length"):
            if getattr(attrs, name) < 1:
                raise TypeCheckError(f"{name} is {getattr(attrs, name)}; it must be at least 1")
        if attrs.win_length > attrs.n_fft:
            raise TypeCheckError(f"win_length is {attrs.win_length}; it can be at most n_fft, {attrs.n_fft}")
        if len(weights.shape) != 1 or dims.at_least(weights.shape[0], attrs.win_length) is False:
            raise TypeCheckError(f"window must be a vector of at least {attrs.win_length} elements, not {weights}")
        *batch, length = source.shape
        if dims.at_least(length, attrs.n_fft) is False and isinstance(length, int):
            raise TypeCheckError(f"n_fft is {attrs.n_fft}, but the signal has only {length} elements")
        frequencies = attrs.n_fft // 2 + 1 if attrs.onesided else attrs.n_fft
        return TensorType([*batch, frequencies, Stft.frames(attrs, length), 2], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: StftAttrs, data: relax.Expr, window: relax.Expr) -> relax.Expr:
        *batch, length = context.shape(data)
        (weights,) = context.shape(window)
        if not isinstance(length, int):
            message = f"stft: n_fft is {attrs.n_fft}, but the signal has fewer elements"
            context.require(length >= attrs.n_fft, message)
        if not isinstance(weights, int):
            message = f"stft: win_length is {attrs.win_length}, but window has fewer elements"
            context.require(weights >= attrs.win_length, message)
        frequencies = attrs.n_fft // 2 + 1 if attrs.onesided else attrs.n_fft
        shape = [*batch, frequencies, Stft.frames(attrs, length), 2]
        dtype = str(data.ty.dtype)
        wide, period = _computed_in(dtype), const(attrs.win_length)

        def compute(data: te.Tensor, window: te.Tensor, whole: list[tirx.Expr]) -> te.Tensor:
            k = te.reduce_axis((0, attrs.win_length), name="k")

            def element(*i: tirx.Expr) -> tirx.Expr:
                *at, frequency, frame, part = i
                cosine, sine = _turn(frequency * k, period, wide)
                weighted = data(*at, frame * attrs.hop_length + k).astype(wide) * window(k).astype(wide)
                return te.sum(weighted * tirx.Select(part == 0, cosine, -sine), axis=k)

            sums = te.compute(whole, element, name="stft")
            factor = 1 / math.sqrt(attrs.n_fft) if attrs.normalized else 1.0
            return te.compute(whole, lambda *i: (sums(*i) * tirx.const(factor, wide)).astype(dtype), name="scaled")

        return context.te(compute, data, window, [dims.as_expr(d) for d in shape])


@attrs_node("relay.attrs.DFTAttrs")
class DFTAttrs(Attrs):
    """Attributes of dft."""

    inverse: Bool = field(False, doc="Whether the transform is undone.")


@operator("dft", "re_data", "im_data", attrs=DFTAttrs, level=3, pattern=OpPattern.OPAQUE)
class Dft:
    """The Fourier transform along the last dimension, as (real parts, imaginary parts).

    The inverse one divides by the number of elements.
    """

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        return TupleWrapper(call, 2)

    @staticmethod
    def relation(attrs: DFTAttrs, re_data: Type, im_data: Type) -> Type:
        real, imaginary = _require_float(re_data, "re_data"), _require_float(im_data, "im_data")
        if not len(real.shape) or not may_agree(real.shape, imaginary.shape) or real.dtype != imaginary.dtype:
            raise TypeCheckError(
                f"re_data and im_data must have one type with at least 1 dimension, not {real} and {imaginary}"
            )
        return TupleType([real, imaginary])

    @staticmethod
    def lower(
        context: LowerContext, attrs: DFTAttrs, re_data: relax.Expr, im_data: relax.Expr
    ) -> tuple[relax.Expr, ...]:
        shape = context.shape(re_data)
        for axis, (a, b) in enumerate(zip(context.shape(im_data), shape, strict=True)):
            context.require_equal(a, b, f"dft: dimension {axis} is {{actual}} in im_data and {{expected}} in re_data")
        dtype = str(re_data.ty.dtype)
        wide = _computed_in(dtype)

        def transformed(part: int) -> relax.Expr:
            def compute(re: te.Tensor, im: te.Tensor, whole: list[tirx.Expr]) -> te.Tensor:
                length = whole[-1]
                k = te.reduce_axis((0, length), name="k")

                def element(*i: tirx.Expr) -> tirx.Expr:
                    cosine, sine = _turn(i[-1] * k, length, wide)
                    # The forward transform turns backwards.
                    sine = sine if attrs.inverse else -sine
                    x, y = re(*i[:-1], k).astype(wide), im(*i[:-1], k).astype(wide)
                    return te.sum(x * sine + y * cosine if part else x * cosine - y * sine, axis=k)

                sums = te.compute(whole, element, name="dft")
                count = length.astype(wide) if attrs.inverse else tirx.const(1, wide)
                return te.compute(whole, lambda *i: (sums(*i) / count).astype(dtype), name="scaled")

            return context.te(compute, re_data, im_data, [dims.as_expr(d) for d in shape])

        return transformed(0), transformed(1)
