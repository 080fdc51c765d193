"""Winograd's convolution and what follows it as one operator: what UseWinograd makes of convolutions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ...kernels.winograd_points import PAIRS
from ...relay.ir import dims
from ...relay.ir.types import TensorType, Type
from ...relay.op.attrs import Attrs, Bool, Float, Int, Ints, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.nn.layout import require_rank
from ...relay.op.nn.window import fitted, padding_of, require_fits
from ...relay.op.registry import OpPattern, operator
from .epilogue import require_added, require_added_at_run_time
from .kernel_calls import call_kernel

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.Conv2DWinogradFusedAttrs")
class Conv2DWinogradFusedAttrs(Attrs):
    """Attributes of nn.contrib_conv2d_winograd_fused.

    kernel is the height and width of the kernel, tile how many results on either axis come from one tile, lanes how
    many float32 a vector has; a_min and a_max are what results are raised and lowered to; rows, count and
    is_parallel_over_tiles are the fields of vmkit.kernels.winograd_shape.WinogradPlan.
    """

    kernel: Ints
    tile: Ints
    rows: Int
    count: Int
    lanes: Int
    padding: Ints = (0, 0, 0, 0)
    is_parallel_over_tiles: Bool = True
    has_bias: Bool = False
    a_min: Float | None = None
    a_max: Float | None = None


@operator(
    "nn.contrib_conv2d_winograd_fused",
    "data",
    "weight",
    "*added",
    attrs=Conv2DWinogradFusedAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
)
class Conv2DWinogradFused:
    """``clip(conv2d(data, weight) + bias + residual)`` at every position, on a CPU in float32.

    data is (batch, height, width, channels), weight the transformed one (blocks, products, channels, output channels of
    a block); then comes the bias (output channels,) if has_bias, and the residual, like the result, if there is one.
    """

    @staticmethod
    def relation(attrs: Conv2DWinogradFusedAttrs, data: Type, weight: Type, *added: Type) -> Type:
        tensors = [require_tensor(ty, "an input") for ty in (data, weight, *added)]
        source, filters, *others = tensors
        require_rank(source, 4, "data")
        require_rank(filters, 4, "weight")
        if any(t.dtype != "float32" for t in tensors):
            raise TypeCheckError(f"all inputs must be float32, not {', '.join(t.dtype for t in tensors)}")
        blocks, points, inner, block = filters.shape
        if not len(attrs.kernel) == len(attrs.tile) == 2:
            raise TypeCheckError(f"kernel and tile have two values each, not {attrs.kernel} and {attrs.tile}")
        (height, width), (down, across) = attrs.kernel, attrs.tile
        reach = [down + height - 1, across + width - 1]
        has_points = all(r in PAIRS or (r, k) == (1, 1) for r, k in zip(reach, (height, width), strict=True))
        if not has_points or points != reach[0] * reach[1] or dims.equal(source.shape[3], inner) is False:
            how = f"tiles of {list(attrs.tile)} by a kernel of {list(attrs.kernel)}"
            raise TypeCheckError(f"{how} and {filters} do not fit {source}")
        if not (isinstance(inner, int) and isinstance(block, int)) or inner % attrs.lanes or block % attrs.lanes:
            raise TypeCheckError(f"channels must be known multiples of {attrs.lanes}, not {inner} and {block}")
        if not isinstance(blocks, int):
            raise TypeCheckError(f"how many blocks the weight has must be known: {filters}")
        sizes = fitted(source.shape[1:3], padding_of(attrs.padding, 2), attrs.kernel, (1, 1))
        result = [source.shape[0], *sizes, blocks * block]
        require_added(others, attrs.has_bias, result)
        return TensorType(result, "float32")

    @staticmethod
    def lower(
        context: LowerContext, attrs: Conv2DWinogradFusedAttrs, data: relax.Expr, weight: relax.Expr, *added: relax.Expr
    ) -> relax.Expr:
        from ...kernels.winograd import winograd
        from ...kernels.winograd_shape import WinogradPlan, WinogradShape

        have, (blocks, _, inner, block) = context.shape(data), (int(d) for d in context.shape(weight))
        padding, kernel, tile = padding_of(attrs.padding, 2), attrs.kernel, attrs.tile
        require_fits(context, have[1:3], padding, kernel)
        name = "nn.contrib_conv2d_winograd_fused"
        context.require_equal(have[3], inner, f"{name}: the data has {{actual}} channels, expected {{expected}}")
        result = [have[0], *fitted(have[1:3], padding, kernel, (1, 1)), blocks * block]
        require_added_at_run_time(context, name, added, attrs.has_bias, result)
        batch, height, width = (d if isinstance(d, int) else None for d in have[:3])
        top, left, bottom, right = padding
        what = WinogradShape(
            kernel=(kernel[0], kernel[1]),
            tile=(tile[0], tile[1]),
            batch=batch,
            height=height,
            width=width,
            inner=inner,
            outer=blocks * block,
            padding=(top, left, bottom, right),
            block=block,
            lanes=attrs.lanes,
            has_bias=attrs.has_bias,
            has_residual=len(added) > attrs.has_bias,
            low=attrs.a_min,
            high=attrs.a_max,
        )
        # Steps of short vectors are short themselves, beside what each round of them takes.
        unrolled = 4 if attrs.lanes <= 8 else 2
        plan = WinogradPlan(attrs.rows, attrs.count, unrolled, attrs.is_parallel_over_tiles)
        return call_kernel(context, partial(winograd, what, plan), "conv2d_winograd", [data, weight, *added], result)
