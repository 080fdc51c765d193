"""Fourier transforms along any axis, of any length, both of which may be read at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm
from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Any as AnyDim
from ..ir.types import Dim as Size
from ..ir.types import TensorType, Type
from .attrs import Attrs, Bool, Dim, attrs_node
from .create import fill, read_shape, shape_vector
from .elementwise import require_tensor
from .kernel import chosen, const, indexed, loops
from .registry import OpPattern, operator
from .shape import reshape_value
from .stockham import Stockham, rows_at_once, turns_of

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.ContribFourierAttrs")
class FourierAttrs(Attrs):
    """Attributes of contrib.fourier; axis and length are Any where they are read from the inputs."""

    axis: Dim
    length: Dim
    inverse: Bool = False
    onesided: Bool = False


@operator(
    "contrib.fourier", "data", "axis_value", "length_value", attrs=FourierAttrs, level=10, pattern=OpPattern.OPAQUE
)
class Fourier:
    """The discrete Fourier transform along an axis of numbers whose parts, real and imaginary, are the last dimension.

    A signal is cut or filled with zeros to `length` elements. The inverse divides by the length. The forward transform
    is onesided when it gives length // 2 + 1 frequencies, the inverse when it takes them, and gives real numbers.
    axis_value and length_value are vectors of one integer.
    """

    @staticmethod
    def relation(attrs: FourierAttrs, data: Type, axis_value: Type, length_value: Type) -> Type:
        source = require_tensor(data, "data")
        shape, rank = list(source.shape), len(source.shape)
        if rank < 2 or not source.dtype.startswith(("float", "bfloat")):
            raise TypeCheckError(f"data must hold signals of floats, the parts of a number last, not {source}")
        if isinstance(shape[-1], int) and shape[-1] not in (1, 2):
            raise TypeCheckError(f"a number has 1 part or 2; the last dimension of {source} has {shape[-1]}")
        for ty, name in ((axis_value, "axis_value"), (length_value, "length_value")):
            if shape_vector(ty, name) != 1:
                raise TypeCheckError(f"{name} must be a vector of one integer")
        if isinstance(attrs.length, int) and attrs.length < 1:
            raise TypeCheckError(f"length is {attrs.length}; it must be at least 1")
        parts = 1 if attrs.inverse and attrs.onesided else 2
        if dims.is_any(attrs.axis):
            return TensorType([AnyDim()] * (rank - 1) + [parts], source.dtype)
        if not isinstance(attrs.axis, int) or not 0 <= attrs.axis < rank - 1:
            raise TypeCheckError(f"axis is {attrs.axis}; it must be from 0 to {rank - 2}, before the parts of a number")
        if dims.equal(shape[attrs.axis], 0):
            raise TypeCheckError(f"the signals of {source} along dimension {attrs.axis} have no element")
        shape[attrs.axis], shape[-1] = _bins(attrs, attrs.length), parts
        return TensorType(shape, source.dtype)

    @staticmethod
    def lower(
        context: LowerContext, attrs: FourierAttrs, data: relax.Expr, axis_value: relax.Expr, length_value: relax.Expr
    ) -> relax.Expr:
        name, shape = context.operator, context.shape(data)
        *sizes, numbers = shape
        if not isinstance(numbers, int):
            number = dims.as_expr(numbers)
            context.require(tirx.any(number == 1, number == 2), f"{name}: a number of the data has 1 part or 2")
        (wanted,) = read_shape(context, length_value) if dims.is_any(attrs.length) else context.dims([attrs.length])
        parts, bins = (1 if attrs.inverse and attrs.onesided else 2), _bins(attrs, wanted)
        if dims.is_any(attrs.axis):
            before, extent, after, *result = _around(context, axis_value, sizes, bins)
        else:
            at = attrs.axis
            before, extent, after = dims.product(sizes[:at]), sizes[at], dims.product(sizes[at + 1 :])
            result = [*sizes[:at], bins, *sizes[at + 1 :]]
        result = [*result, parts]
        for what, size in (("the length", wanted), ("the signal", extent)):
            if not isinstance(size, int):
                context.require(dims.as_expr(size) >= 1, f"{name}: {what} has no element")
        dtype = str(data.ty.dtype)
        if any(isinstance(d, int) and d == 0 for d in result):
            return fill(context, result, 0.0, dtype)
        is_cpu = context.device == int(tvm.cpu().dlpack_device_type())
        # In float32, frequencies that cancel out are rounding alone and often exactly 0, both parts: the phase, which
        # exporters write as atan(im / re), is then NaN. GPUs have few units for float64.
        wide = "float64" if is_cpu or dtype == "float64" else "float32"
        x = reshape_value(context, data, [before, extent, after, numbers])
        results: list[Any] = [
            ([before, bins, after, parts], dtype),
            ([2, wanted, 2, rows_at_once(dims.mul(before, after))], wide),
            ([5], "int64"),
        ]

        def turns(given: list[tirx.Expr]) -> list[te.Tensor]:
            return turns_of(given[0], wide, inverse=attrs.inverse)

        def body(
            outputs: list[tirx.Buffer], x: tirx.Buffer, re: tirx.Buffer, im: tirx.Buffer, given: list[tirx.Expr]
        ) -> None:
            ways = {"inverse": attrs.inverse, "onesided": attrs.onesided, "has_vectors": is_cpu}
            Stockham(outputs, x, (re, im), given[0], **ways).write()

        length = [dims.as_expr(wanted)]
        re, im = context.fields(context.te(turns, length, name="turns"))
        y = loops(context, results, body, x, re, im, length)[0]
        return reshape_value(context, y, result)


def _bins(attrs: FourierAttrs, length: Size) -> Size:
    """Return how many elements a transformed signal has."""
    if dims.is_any(length):
        return AnyDim()
    return dims.add(dims.floordiv(length, 2), 1) if attrs.onesided and not attrs.inverse else length


def _around(context: LowerContext, axis: relax.Expr, sizes: list[Size], bins: Size) -> list[Size]:
    """Return how many elements are before, along and after an axis that is read at run time, and the sizes that result.

    A kernel computes them, of which each becomes a symbol of its own: expressions that choose among sizes are dear to
    whatever simplifies them.
    """
    rank = len(sizes)

    def element(i: tuple[tirx.Expr, ...], axis: te.Tensor, sizes: list[tirx.Expr], bins: list[tirx.Expr]) -> tirx.Expr:
        given = axis(const(0)).astype("int64")
        # The parts of a number are a dimension too.
        at = tirx.Select(given < 0, given + (rank + 1), given)
        before, own, after = const(1), const(1), const(1)
        for k, size in enumerate(sizes):
            before = before * tirx.Select(at > k, size, const(1))
            own = own * tirx.Select(at == k, size, const(1))
            after = after * tirx.Select(at < k, size, const(1))
        result = [tirx.Select(at == k, bins[0], size) for k, size in enumerate(sizes)]
        return chosen(i[0], [tirx.all(at >= 0, at < rank).astype("int64"), before, own, after, *result])

    lists = [[dims.as_expr(d) for d in values] for values in (sizes, [bins])]
    valid, *found = context.read_dims(indexed(context, [4 + rank], element, axis, *lists, name="around_axis"))
    message = f"{context.operator}: the axis is none of the {rank} dimensions before the parts of a number"
    context.require_equal(valid, 1, message)
    return found
