"""Bits packed into words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Dim, DType, Int, Str, attrs_node, field
from ..axis import resolve_axis
from ..index import require_integers
from ..registry import OpPattern, operator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["WIDTHS", "pack", "require_bits", "require_width", "require_words", "word_count"]

WIDTHS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_MOST_BITS = 8


@attrs_node("relay.attrs.BitPackAttrs")
class BitPackAttrs(Attrs):
    """Attributes of nn.bitpack."""

    bits: Int = field(1, doc="How many bits of each integer are packed.")
    pack_axis: Int = field(1, doc="The axis whose integers share a word.")
    bit_axis: Int = field(-1, script=2, doc="Where the axis of the bits is put.")
    pack_type: DType = field("", script="uint32", doc="Data type of the words.")
    name: Str = field("BitPack", doc="What Relay called the kernel; nothing depends on it.")


def require_width(pack_type: str, name: str = "pack_dtype") -> int:
    """Return how many bits a word has; TypeCheckError where the data type is none of words."""
    if pack_type not in WIDTHS:
        raise TypeCheckError(f"{name} is {pack_type!r}; it is one of {', '.join(WIDTHS)}")
    return WIDTHS[pack_type]


def require_bits(bits: int, name: str) -> None:
    """Check how many bits of an integer are packed; TypeCheckError otherwise."""
    if not 1 <= bits <= _MOST_BITS:
        raise TypeCheckError(f"{name} is {bits}; it is 1 to {_MOST_BITS}")


def word_count(size: Dim, width: int, what: str) -> Dim:
    """Return how many words a dimension is packed into; TypeCheckError where some bits would be left over."""
    if isinstance(size, int) and size % width:
        raise TypeCheckError(f"{what} is {size}, which is no multiple of the {width} bits of a word")
    return dims.floordiv(size, width)


def require_words(context: LowerContext, size: Dim, width: int, what: str) -> None:
    """Check at run time that a dimension fills whole words."""
    if not isinstance(size, int):
        message = f"{context.operator}: {what} is {{actual}}, which is no multiple of the {width} bits of a word"
        context.require_equal(size, dims.mul(dims.floordiv(size, width), width), message)


def pack(data: te.Tensor, bits: int, pack_axis: int, bit_axis: int, pack_type: str) -> te.Tensor:
    """Return words of the bits along an axis, the first in the highest bit; a new axis says which bit they are of."""
    width = WIDTHS[pack_type]
    shape = [dims.floordiv(dims.simplify(d), width) if a == pack_axis else d for a, d in enumerate(data.shape)]
    shape.insert(bit_axis, bits)
    k = te.reduce_axis((0, width), name="k")

    def element(*index: tirx.Expr) -> tirx.Expr:
        at = list(index)
        bit = at.pop(bit_axis)
        at[pack_axis] = at[pack_axis] * width + (width - 1 - k)
        value = (data(*at).astype("int32") >> bit.astype("int32")) & tirx.const(1, "int32")
        return te.sum(value.astype(pack_type) << k.astype(pack_type), axis=k)

    return te.compute([dims.as_expr(d) for d in shape], element, name="bitpack")


@operator("nn.bitpack", "data", attrs=BitPackAttrs, level=2, pattern=OpPattern.INJECTIVE)
class BitPack:
    """The lowest bits of the integers along pack_axis packed into words, bit by bit along a new axis at bit_axis.

    The first integer is in the highest bit of a word.
    """

    @staticmethod
    def axes(attrs: BitPackAttrs, rank: int) -> tuple[int, int]:
        return resolve_axis(attrs.pack_axis, rank, "pack_axis"), resolve_axis(attrs.bit_axis, rank + 1, "bit_axis")

    @staticmethod
    def relation(attrs: BitPackAttrs, data: Type) -> Type:
        source = require_integers(data, "data")
        width = require_width(attrs.pack_type, "pack_type")
        require_bits(attrs.bits, "bits")
        pack_axis, bit_axis = BitPack.axes(attrs, len(source.shape))
        shape = list(source.shape)
        shape[pack_axis] = word_count(shape[pack_axis], width, f"dimension {pack_axis}")
        return TensorType([*shape[:bit_axis], attrs.bits, *shape[bit_axis:]], attrs.pack_type)

    @staticmethod
    def lower(context: LowerContext, attrs: BitPackAttrs, data: relax.Expr) -> relax.Expr:
        shape = context.shape(data)
        axes = BitPack.axes(attrs, len(shape))
        require_words(context, shape[axes[0]], WIDTHS[attrs.pack_type], f"dimension {axes[0]}")
        return context.te(lambda x: pack(x, attrs.bits, *axes, attrs.pack_type), data, pattern=OpPattern.OPAQUE)
