"""Dense layers whose weight is codes of a few bits, in blocks that share a scale and a zero point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Bool, Int, attrs_node, field
from ..elementwise import require_tensor
from ..registry import OpPattern, operator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["BlockQuantizedDenseAttrs", "dequantized_weight", "packed_codes", "unpacked_codes"]

Array = np.ndarray[Any, Any]


@attrs_node("relay.attrs.BlockQuantizedDenseAttrs")
class BlockQuantizedDenseAttrs(Attrs):
    """Attributes of nn.contrib_block_quantized_dense."""

    channels: Int = field(1, doc="How many inputs a row of the data has.")
    units: Int = field(1, doc="Columns of the result.")
    bits: Int = field(4, doc="Of a code: 2, 4 or 8.")
    block_size: Int = field(32, doc="How many inputs of an output share a scale and a zero point; a multiple of 8.")
    rounds_data: Bool = field(False, doc="Whether a kernel may round the data to int8, with a scale for each block.")


def unpacked_codes(packed: Array, bits: int) -> Array:
    """Return the codes of so many bits in bytes, the lowest bits first, along the last axis."""
    parts = [(packed >> np.uint8(shift)) & np.uint8((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1)


def packed_codes(codes: Array, bits: int) -> Array:
    """Return codes as bytes that :func:`unpacked_codes` takes apart."""
    parts = codes.reshape(*codes.shape[:-1], -1, 8 // bits) << np.arange(0, 8, bits, dtype="uint8")
    return np.bitwise_or.reduce(parts, -1, dtype="uint8")


def dequantized_weight(attrs: BlockQuantizedDenseAttrs, packed: Array, scales: Array, zeros: Array | None) -> Array:
    """Return the weight (units, channels) in float32."""
    codes = unpacked_codes(packed, attrs.bits).astype("float32")
    zero = np.float32(1 << (attrs.bits - 1)) if zeros is None else zeros.astype("float32")[..., None]
    whole = (codes - zero) * scales.astype("float32")[..., None]
    return np.ascontiguousarray(whole.reshape(attrs.units, -1)[:, : attrs.channels])


@operator(
    "nn.contrib_block_quantized_dense",
    "data",
    "weight",
    "scales",
    "*zeros",
    attrs=BlockQuantizedDenseAttrs,
    level=10,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
)
class BlockQuantizedDense:
    """Product of the data's last dimension with ``(codes - zeros) * scales``, a matrix (units, channels), in float32.

    The weight is (units, blocks, bytes of a block), uint8, each byte's lowest bits its first code; scales are (units,
    blocks) in float32, and so are the zero points, in uint8 or float32; without them they are the middle of the codes.
    """

    @staticmethod
    def relation(attrs: BlockQuantizedDenseAttrs, data: Type, weight: Type, scales: Type, *zeros: Type) -> Type:
        if attrs.bits not in (2, 4, 8) or attrs.block_size < 8 or attrs.block_size % 8:
            raise TypeCheckError(
                f"bits is {attrs.bits} and block_size {attrs.block_size}; 2, 4 or 8 and a multiple of 8 are needed"
            )
        if len(zeros) > 1:
            raise TypeCheckError(f"there is one tensor of zero points at most, not {len(zeros)}")
        source, blocks = require_tensor(data, "data"), -(-attrs.channels // attrs.block_size)
        if source.dtype != "float32" or not source.shape or dims.equal(source.shape[-1], attrs.channels) is False:
            raise TypeCheckError(f"data must be float32 with {attrs.channels} channels, not {source}")
        once = [attrs.units, blocks]
        _require(weight, "weight", [*once, attrs.block_size * attrs.bits // 8], "uint8")
        _require(scales, "scales", once, "float32")
        for each in zeros:
            _require(each, "zeros", once, "uint8", "float32")
        return TensorType([*source.shape[:-1], attrs.units], "float32")

    @staticmethod
    def lower(
        context: LowerContext, attrs: BlockQuantizedDenseAttrs, data: relax.Expr, *operands: relax.Expr
    ) -> relax.Expr:
        name = context.operator
        have = context.shape(data)[-1]
        context.require_equal(have, attrs.channels, f"{name}: the data has {{actual}} channels, expected {{expected}}")
        return context.te(lambda x, *others: _product(attrs, x, *others), data, *operands)


def _require(ty: Type, name: str, shape: list[int], *dtypes: str) -> None:
    tensor = require_tensor(ty, name)
    is_fit = len(tensor.shape) == len(shape) and not any(
        dims.equal(a, b) is False for a, b in zip(tensor.shape, shape, strict=True)
    )
    if not is_fit or tensor.dtype not in dtypes:
        raise TypeCheckError(f"{name} must be {' or '.join(dtypes)} of shape {tuple(shape)}, not {tensor}")


def _product(
    attrs: BlockQuantizedDenseAttrs, data: te.Tensor, weight: te.Tensor, scales: te.Tensor, *zeros: te.Tensor
) -> te.Tensor:
    """Return the product as one sum, for kernels that no other pass has taken."""
    of_byte, channel = 8 // attrs.bits, te.reduce_axis((0, int(attrs.channels)), name="c")

    def element(*index: tirx.Var) -> tirx.Expr:
        *outer, unit = index
        block, place = tirx.floordiv(channel, attrs.block_size), tirx.floormod(channel, attrs.block_size)
        byte = weight(unit, block, tirx.floordiv(place, of_byte)).astype("int32")
        shift = (tirx.floormod(place, of_byte) * attrs.bits).astype("int32")
        code = tirx.bitwise_and(tirx.shift_right(byte, shift), tirx.const((1 << attrs.bits) - 1, "int32"))
        middle = tirx.const(float(1 << (attrs.bits - 1)), "float32")
        zero = zeros[0](unit, block).astype("float32") if zeros else middle
        return te.sum(data(*outer, channel) * ((code.astype("float32") - zero) * scales(unit, block)), axis=channel)

    return te.compute([*data.shape[:-1], int(attrs.units)], element, name="T_block_quantized_dense")
