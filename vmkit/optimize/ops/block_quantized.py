"""Products with a packed weight of a few bits: what PackBlockQuantized makes of dense layers for a processor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError, suggest
from ...kernels.block_quantized.shape import BlockQuantizedShape
from ...kernels.block_quantized.ways import WAYS
from ...relay.ir import dims
from ...relay.ir.types import TensorType, Type
from ...relay.op.attrs import Attrs, Bool, Int, Str, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.registry import OpPattern, operator
from .kernel_calls import call_kernel

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__ = ["BlockQuantizedProductAttrs", "product_shape"]


@attrs_node("relay.attrs.BlockQuantizedProductAttrs")
class BlockQuantizedProductAttrs(Attrs):
    """Attributes of nn.contrib_block_quantized_product.

    way is one of those in :mod:`vmkit.kernels.block_quantized.ways`, lanes how many outputs a vector has, rows how many
    rows are computed at once; zeros is the data type of zero points, empty where there are none.
    """

    way: Str
    channels: Int
    units: Int
    bits: Int = 4
    block_size: Int = 32
    lanes: Int = 16
    rows: Int = 8
    zeros: Str = ""
    has_bias: Bool = False


def product_shape(attrs: BlockQuantizedProductAttrs) -> BlockQuantizedShape:
    """Return the sizes of a product."""
    return BlockQuantizedShape(
        channels=attrs.channels,
        units=attrs.units,
        bits=attrs.bits,
        block=attrs.block_size,
        lanes=attrs.lanes,
        zeros=attrs.zeros,
        has_bias=attrs.has_bias,
    )


@operator(
    "nn.contrib_block_quantized_product",
    "data",
    "weight",
    "scales",
    "*added",
    attrs=BlockQuantizedProductAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
)
class BlockQuantizedProduct:
    """``data @ ((codes - zeros) * scales).T + bias`` over the last axis of the data, on a CPU.

    The weight is that of :meth:`.Arithmetic.packed`, scales and zeros are (panels, blocks, lanes), the bias is (panels,
    lanes); zeros, if there are any, come before the bias.
    """

    @staticmethod
    def relation(attrs: BlockQuantizedProductAttrs, data: Type, weight: Type, scales: Type, *added: Type) -> Type:
        if attrs.way not in WAYS:
            raise TypeCheckError(f"there is no way of multiplying {attrs.way!r}{suggest(attrs.way, WAYS)}")
        s, way, source = product_shape(attrs), WAYS[attrs.way], require_tensor(data, "data")
        if source.dtype != "float32" or not source.shape or dims.equal(source.shape[-1], s.channels) is False:
            raise TypeCheckError(f"data must be float32 with {s.channels} channels, not {source}")
        once = (s.panels, s.blocks, s.lanes)
        wanted = [("weight", way.shape(s), f"uint{way.word}"), ("scales", once, "float32")]
        wanted += [("zeros", once, s.zeros)] * bool(s.zeros)
        wanted += [("bias", (s.panels, s.lanes), "float32")] * s.has_bias
        given = (weight, scales, *added)
        if len(given) != len(wanted):
            raise TypeCheckError(f"{len(wanted)} operands beside the data are needed, not {len(given)}")
        for ty, (name, shape, dtype) in zip(given, wanted, strict=True):
            tensor = require_tensor(ty, name)
            is_fit = len(tensor.shape) == len(shape) and all(map(dims.equal, tensor.shape, shape))
            if tensor.dtype != dtype or not is_fit:
                raise TypeCheckError(f"{name} must be {dtype} of shape {shape}, not {tensor}")
        return TensorType([*source.shape[:-1], s.units], "float32")

    @staticmethod
    def lower(
        context: LowerContext, attrs: BlockQuantizedProductAttrs, data: relax.Expr, *operands: relax.Expr
    ) -> relax.Expr:
        from ...kernels.block_quantized.product import block_quantized_product

        s, have = product_shape(attrs), context.shape(data)
        name = "nn.contrib_block_quantized_product"
        context.require_equal(have[-1], s.channels, f"{name}: the data has {{actual}} channels, expected {{expected}}")
        lead = have[:-1]
        known = [d if isinstance(d, int) else None for d in lead]
        write = partial(block_quantized_product, s, WAYS[attrs.way], known, attrs.rows)
        return call_kernel(context, write, "block_quantized_product", [data, *operands], [*lead, s.units])
