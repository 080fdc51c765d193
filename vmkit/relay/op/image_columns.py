"""Images put together from the windows that were cut out of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Dims, Ints, attrs_node
from .create import read_shape, shape_vector
from .elementwise import require_tensor
from .kernel import const, grid, loops
from .nn.layout import require_rank
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []

_FEW = 8  # elements of a row of a block


@attrs_node("relay.attrs.ContribCol2ImAttrs")
class Col2ImAttrs(Attrs):
    """Attributes of image.contrib_col2im; sizes are Any where they are to be read from the inputs."""

    image: Dims
    block: Dims
    strides: Ints
    dilations: Ints
    padding: Ints


@operator(
    "image.contrib_col2im", "data", "image_shape", "block_shape", attrs=Col2ImAttrs, level=10, pattern=OpPattern.OPAQUE
)
class Col2Im:
    """Images (batch, channels, ...) of columns (batch, channels * elements of a block, blocks): what overlaps is added.

    padding holds all beginnings, then all ends.
    """

    @staticmethod
    def relation(attrs: Col2ImAttrs, data: Type, image_shape: Type, block_shape: Type) -> Type:
        source, rank = require_tensor(data), shape_vector(image_shape, "image_shape")
        require_rank(source, 3, "data")
        if shape_vector(block_shape, "block_shape") != rank or len(attrs.image) != rank or len(attrs.block) != rank:
            raise TypeCheckError(f"image_shape and block_shape must be of one length, {rank}")
        lengths = {"strides": (attrs.strides, rank), "dilations": (attrs.dilations, rank)}
        for name, (values, count) in (lengths | {"padding": (attrs.padding, 2 * rank)}).items():
            if len(values) != count:
                raise TypeCheckError(f"{name} must have {count} values, not {len(values)}")
        if any(s < 1 for s in (*attrs.strides, *attrs.dilations)):
            raise TypeCheckError("strides and dilations must be positive")
        block = dims.product(attrs.block)
        channels = AnyDim() if dims.is_any(block) else dims.floordiv(source.shape[1], block)
        return TensorType([source.shape[0], channels, *attrs.image], source.dtype)

    @staticmethod
    def lower(
        context: LowerContext, attrs: Col2ImAttrs, data: relax.Expr, image_shape: relax.Expr, block_shape: relax.Expr
    ) -> relax.Expr:
        batch, rows, columns = context.shape(data)
        image = _sizes(context, attrs.image, image_shape)
        block = _sizes(context, attrs.block, block_shape)
        rank = len(image)
        blocks = [_count(attrs, k, image[k], block[k]) for k in range(rank)]
        name, area = context.operator, dims.product(block)
        context.require_equal(
            columns, dims.product(blocks), f"{name}: there are {{actual}} columns for {{expected}} blocks"
        )
        if not isinstance(area, int):
            context.require(dims.as_expr(area) >= 1, f"{name}: a block holds nothing")
        # Sizes are computed before they are required to be what they must: nothing may be divided by 0.
        channels = dims.floordiv(rows, dims.maximum(area, 1))
        message = f"{name}: {{expected}} rows are no whole number of blocks"
        context.require_equal(dims.mul(channels, area), rows, message)
        shape, dtype = [batch, channels, *image], str(data.ty.dtype)

        def body(
            outputs: list[tirx.Buffer],
            x: tirx.Buffer,
            whole: list[tirx.Expr],
            kernel: list[tirx.Expr],
            counts: list[tirx.Expr],
        ) -> None:
            (out,) = outputs
            # By element of a block, so that elements of a row lie evenly apart, and sums are in the order of elements.
            with grid(whole[:2]) as (n, c):
                with grid(whole[2:]) as place:
                    T.buffer_store(out, tirx.const(0, dtype), [n, c, *place])
                with grid(kernel[:-1]) as above, _written_out(kernel[-1]) as last_of:
                    k = [*above, last_of]
                    row = c * reduce(mul, kernel, const(1)) + _flat(k, kernel)
                    starts = [k[a] * attrs.dilations[a] - attrs.padding[a] for a in range(rank)]
                    first, last = _inside(starts[-1], attrs.strides[-1], whole[-1], counts[-1])
                    with grid(counts[:-1]) as outer:
                        pairs = zip(outer, attrs.strides[:-1], starts[:-1], strict=True)
                        far = [at * stride + start for at, stride, start in pairs]
                        tests = [tirx.all(p >= 0, p < n) for p, n in zip(far, whole[2:-1], strict=True)]
                        is_inside = reduce(tirx.And, tests, tirx.const(True, "bool"))
                        with T.If(is_inside), T.Then(), T.serial(tirx.max(last - first, 0)) as step:
                            at = first + step
                            place = [n, c, *far, at * attrs.strides[-1] + starts[-1]]
                            value = x[n, row, _flat([*outer, at], counts)]
                            T.buffer_store(out, out[tuple(place)] + value, place)

        lists = [[dims.as_expr(d) for d in values] for values in (shape, block, blocks)]
        return loops(context, [(shape, dtype)], body, data, *lists)


def _sizes(context: LowerContext, known: Sequence[Dim], vector: relax.Expr) -> list[Dim]:
    if any(dims.is_any(d) for d in known):
        return read_shape(context, vector)
    return context.dims(list(known))


def _count(attrs: Col2ImAttrs, axis: int, size: Dim, block: Dim) -> Dim:
    """Return the number of blocks along an axis."""
    rank = len(attrs.strides)
    window = dims.add(dims.mul(dims.sub(block, 1), attrs.dilations[axis]), 1)
    room = dims.sub(dims.add(size, attrs.padding[axis] + attrs.padding[rank + axis]), window)
    return dims.add(dims.floordiv(room, attrs.strides[axis]), 1)


def _written_out(count: tirx.Expr) -> AbstractContextManager[tirx.Var]:
    """Open a loop whose iterations are written out if they are few, so that what they compute of sizes is known."""
    return T.unroll(count) if isinstance(count, tirx.IntImm) and int(count) <= _FEW else T.serial(count)


def _inside(start: tirx.Expr, stride: int, size: tirx.Expr, count: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
    """Return which of some places, so far apart from a start on, are the first in a size and the first behind it."""
    first = tirx.max(tirx.floordiv(stride - 1 - start, stride), 0)
    return first, tirx.min(tirx.floordiv(size - start + (stride - 1), stride), count)


def _flat(index: Sequence[tirx.Expr], extents: Sequence[tirx.Expr]) -> tirx.Expr:
    return reduce(lambda flat, pair: flat * pair[1] + pair[0], zip(index, extents, strict=True), const(0))
