"""Codes of a few bits, in blocks that share a scale and a zero point: made floats, and as weights of dense layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim, TensorType, Type
from ..attrs import Attrs, Bool, Int, attrs_node, field
from ..elementwise import require_tensor
from ..registry import OpPattern, operator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = [
    "BlockDequantizeAttrs",
    "BlockQuantizedDenseAttrs",
    "dequantized",
    "dequantized_weight",
    "packed_codes",
    "unpacked_codes",
]

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


def dequantized(attrs: BlockDequantizeAttrs, packed: Array, scales: Array, zeros: Array | None = None) -> Array:
    """Return what nn.contrib_block_dequantize computes, as an array."""
    codes = unpacked_codes(packed, attrs.bits).astype("float32")
    axis, own = attrs.axis % codes.ndim, np.arange(codes.shape[attrs.axis]) // attrs.block_size

    def of_elements(values: Array) -> Array:
        return values if values.shape[axis] == 1 else values.take(own, axis)

    zero = np.float32(1 << (attrs.bits - 1)) if zeros is None else of_elements(zeros.astype("float32"))
    return (codes - zero) * of_elements(scales)


def dequantized_weight(attrs: BlockQuantizedDenseAttrs, packed: Array, scales: Array, zeros: Array | None) -> Array:
    """Return the weight (units, channels) in float32."""
    codes = unpacked_codes(packed, attrs.bits).astype("float32")
    zero = np.float32(1 << (attrs.bits - 1)) if zeros is None else zeros.astype("float32")[..., None]
    whole = (codes - zero) * scales.astype("float32")[..., None]
    return np.ascontiguousarray(whole.reshape(attrs.units, -1)[:, : attrs.channels])


@attrs_node("relay.attrs.BlockDequantizeAttrs")
class BlockDequantizeAttrs(Attrs):
    """Attributes of nn.contrib_block_dequantize."""

    bits: Int = field(4, doc="Of a code: 2, 4 or 8.")
    axis: Int = field(-1, doc="Along which axis elements share a scale and a zero point.")
    block_size: Int = field(32, doc="How many elements along the axis do.")


@operator(
    "nn.contrib_block_dequantize",
    "data",
    "scales",
    "*zeros",
    attrs=BlockDequantizeAttrs,
    level=10,
    pattern=OpPattern.INJECTIVE,
)
class BlockDequantize:
    """``(codes - zeros) * scales`` in float32, of codes that are packed along the last axis.

    The data are uint8, each byte's lowest bits its first code. Scales, in float32, and zero points, in uint8 or
    float32, have the rank of the data: along the axis one for each block, along others one for each element; or one for
    all. Without zero points they are the middle of the codes.
    """

    @staticmethod
    def relation(attrs: BlockDequantizeAttrs, data: Type, scales: Type, *zeros: Type) -> Type:
        if attrs.bits not in (2, 4, 8) or attrs.block_size < 1:
            raise TypeCheckError(
                f"bits is {attrs.bits} and block_size {attrs.block_size}; 2, 4 or 8 and at least 1 are needed"
            )
        if len(zeros) > 1:
            raise TypeCheckError(f"there is one tensor of zero points at most, not {len(zeros)}")
        source = require_tensor(data, "data")
        if source.dtype != "uint8" or not -len(source.shape) <= attrs.axis < len(source.shape):
            raise TypeCheckError(f"data must be uint8 with an axis {attrs.axis}, not {source}")
        *outer, last = source.shape
        shape = [*outer, last * (8 // attrs.bits)]
        once, axis = list(shape), attrs.axis % len(shape)
        once[axis] = (shape[axis] + (attrs.block_size - 1)) // attrs.block_size
        _require(scales, "scales", once, "float32", may_be_one=True)
        for each in zeros:
            _require(each, "zeros", once, "uint8", "float32", may_be_one=True)
        return TensorType(shape, "float32")

    @staticmethod
    def lower(
        context: LowerContext, attrs: BlockDequantizeAttrs, data: relax.Expr, *operands: relax.Expr
    ) -> relax.Expr:
        return context.te(lambda x, *others: _elements(attrs, x, *others), data, *operands)

    @staticmethod
    def on_arrays(attrs: BlockDequantizeAttrs, data: Array, *operands: Array) -> Array:
        return dequantized(attrs, data, *operands)


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


def _require(ty: Type, name: str, shape: Sequence[Dim], *dtypes: str, may_be_one: bool = False) -> None:
    tensor = require_tensor(ty, name)
    is_fit = len(tensor.shape) == len(shape) and not any(
        dims.equal(a, b) is False and not (may_be_one and dims.equal(a, 1))
        for a, b in zip(tensor.shape, shape, strict=True)
    )
    if not is_fit or tensor.dtype not in dtypes:
        or_one = ", or 1 on any axis" if may_be_one else ""
        raise TypeCheckError(f"{name} must be {' or '.join(dtypes)} of shape {tuple(shape)}{or_one}, not {tensor}")


def _code(bits: int, packed: te.Tensor, *index: tirx.Expr) -> tirx.Expr:
    """Return a code, in float32, by its place along the last axis."""
    *outer, place = index
    byte = packed(*outer, tirx.floordiv(place, 8 // bits)).astype("int32")
    shift = (tirx.floormod(place, 8 // bits) * bits).astype("int32")
    return tirx.bitwise_and(tirx.shift_right(byte, shift), tirx.const((1 << bits) - 1, "int32")).astype("float32")


def _zero(bits: int, zeros: Sequence[te.Tensor], *index: tirx.Expr) -> tirx.Expr:
    return zeros[0](*index).astype("float32") if zeros else tirx.const(float(1 << (bits - 1)), "float32")


def _elements(attrs: BlockDequantizeAttrs, data: te.Tensor, scales: te.Tensor, *zeros: te.Tensor) -> te.Tensor:
    axis = int(attrs.axis) % len(data.shape)
    *outer, last = data.shape

    def of(values: te.Tensor, index: Sequence[tirx.Var]) -> list[tirx.Expr]:
        places = [tirx.floordiv(i, attrs.block_size) if at == axis else i for at, i in enumerate(index)]
        return [
            tirx.IntImm("int64", 0) if dims.equal(d, 1) else place
            for d, place in zip(values.shape, places, strict=True)
        ]

    def element(*index: tirx.Var) -> tirx.Expr:
        zero = _zero(attrs.bits, zeros, *(of(zeros[0], index) if zeros else ()))
        return (_code(attrs.bits, data, *index) - zero) * scales(*of(scales, index))

    return te.compute([*outer, last * (8 // attrs.bits)], element, name="T_block_dequantize")


def _product(
    attrs: BlockQuantizedDenseAttrs, data: te.Tensor, weight: te.Tensor, scales: te.Tensor, *zeros: te.Tensor
) -> te.Tensor:
    """Return the product as one sum, for kernels that no other pass has taken."""
    channel = te.reduce_axis((0, int(attrs.channels)), name="c")

    def element(*index: tirx.Var) -> tirx.Expr:
        *outer, unit = index
        block, place = tirx.floordiv(channel, attrs.block_size), tirx.floormod(channel, attrs.block_size)
        centred = _code(attrs.bits, weight, unit, block, place) - _zero(attrs.bits, zeros, unit, block)
        return te.sum(data(*outer, channel) * (centred * scales(unit, block)), axis=channel)

    return te.compute([*data.shape[:-1], int(attrs.units)], element, name="T_block_quantized_dense")
