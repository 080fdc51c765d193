"""Products of small integers bit by bit: bits are packed into words, and words are multiplied by counting bits.

The product of a number with bits a_i and one with bits b_j is the sum of a_i * b_j * 2**(i + j); for a whole word of
numbers, the sum of a_i * b_j is how many bits ``a & b`` has. In unipolar form a bit of the weight that is 0 counts as
-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..agreement import may_agree, require_agreed
from ..attrs import Attrs, Bool, Dim, Dims, DType, Int, Ints, Str, attrs_node, field
from ..index import require_integers
from ..registry import OpPattern, Parameters, operator
from .bitpack import WIDTHS, pack, require_bits, require_width, require_words, word_count
from .layout import ordered, require_rank
from .window import fitted, pad_spatial, padding_of, positive, require_fits
from .window_fields import each_axis, each_side, in_order

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

# The order of the axes of a weight, by that of the data; a packed weight has its bits behind them.
_KERNELS = {"NCHW": "OIHW", "NHWC": "HWIO"}

_WEIGHT_BITS = "Bits of the weight."
_PACK_DTYPE = "Data type of the words."
_OUT_DTYPE = "Data type of the result; that of the data where it is empty."
_UNIPOLAR = "Whether a bit of the weight that is 0 counts as -1."


def _counted(data: tirx.Expr, weight: tirx.Expr, shift: tirx.Expr, unipolar: bool, dtype: str) -> tirx.Expr:
    """Return what a word of data and one of the weight contribute, for bits that together stand for 2**shift."""
    count = tirx.popcount(data & weight).astype("int32")
    if unipolar:
        count = count - tirx.popcount(data & tirx.bitwise_not(weight)).astype("int32")
    return (count << shift.astype("int32")).astype(dtype)


def _require_weight(weight: TensorType, expected: Sequence[Dim], packed: Sequence[Dim], pack_dtype: str) -> None:
    """Check that a weight has the expected shape, or that of a packed one."""
    wanted = expected if len(weight.shape) == len(expected) else packed
    if not may_agree(weight.shape, wanted):
        plain, words = (TensorType(list(s), t) for s, t in ((expected, weight.dtype), (packed, pack_dtype)))
        raise TypeCheckError(f"weight must be {plain}, or packed {words}, not {weight}")
    if wanted is packed and weight.dtype != pack_dtype:
        raise TypeCheckError(f"a packed weight must be {pack_dtype}, not {weight.dtype}")


@attrs_node("relay.attrs.BinaryConv{rank}DAttrs", ranks=(2,))
class BinaryConvAttrs(Attrs):
    """Attributes of nn.bitserial_conv{rank}d."""

    strides: Ints = each_axis(1, "Steps of the window.")
    padding: Ints = each_side(0, "Elements added on each side: before all axes, then behind.")
    kernel_size: Dims = each_axis(3, "Size of the window.")
    channels: Dim | None = field(None, doc="Channels of the result, which have to be given.")
    activation_bits: Int = field(1, doc="Bits of the data.")
    weight_bits: Int = field(1, doc=_WEIGHT_BITS)
    data_layout: Str = in_order("NC", "Order of the data's axes.")
    kernel_layout: Str = in_order("OI", "Order of the weight's axes.")
    pack_dtype: DType = field("", script="uint32", doc=_PACK_DTYPE)
    out_dtype: DType = field("", script="int16", doc=_OUT_DTYPE)
    unipolar: Bool = field(True, doc=_UNIPOLAR)


@operator(
    "nn.bitserial_conv2d",
    "data",
    "weight",
    attrs=BinaryConvAttrs.over(2),
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters(
        "data weight strides padding channels kernel_size activation_bits weight_bits data_layout kernel_layout "
        "pack_dtype out_dtype unipolar"
    ),
)
class BitserialConv2D:
    """Convolution of the lowest bits of the data by those of the weight.

    The weight is OIHW for data in NCHW and HWIO for NHWC, or packed already, OIHWi and HWIOi, i being the bits.
    """

    @staticmethod
    def weights(attrs: BinaryConvAttrs, channels: Dim) -> tuple[list[Dim], list[Dim]]:
        """Return the shapes of a plain and of a packed weight."""
        layout = _KERNELS[attrs.data_layout]
        words = word_count(channels, WIDTHS[attrs.pack_dtype], "the number of channels")
        plain, packed = (ordered([attrs.channels, c, *attrs.kernel_size], "OIHW", layout) for c in (channels, words))
        return plain, [*packed, attrs.weight_bits]

    @staticmethod
    def relation(attrs: BinaryConvAttrs, data: Type, weight: Type) -> Type:
        source, filters = require_integers(data, "data"), require_integers(weight, "weight")
        if attrs.data_layout not in _KERNELS:
            raise TypeCheckError(f"data_layout is {attrs.data_layout!r}; it is 'NCHW' or 'NHWC'")
        # The default stands for whatever goes with the data.
        if attrs.kernel_layout not in ("", "OIHW", _KERNELS[attrs.data_layout]):
            raise TypeCheckError(
                f"kernel_layout is {attrs.kernel_layout!r}; for data in {attrs.data_layout} it is "
                f"{_KERNELS[attrs.data_layout]!r}"
            )
        require_width(attrs.pack_dtype)
        require_bits(attrs.activation_bits, "activation_bits")
        require_bits(attrs.weight_bits, "weight_bits")
        require_rank(source, 4, "data")
        if attrs.channels is None or len(attrs.kernel_size) != 2:
            raise TypeCheckError("channels and the 2 values of kernel_size must be given")
        batch, channels, *sizes = ordered(source.shape, attrs.data_layout, "NCHW")
        _require_weight(filters, *BitserialConv2D.weights(attrs, channels), attrs.pack_dtype)
        result = fitted(sizes, padding_of(attrs.padding, 2), attrs.kernel_size, positive(attrs.strides, 2, "strides"))
        shape = ordered([batch, attrs.channels, *result], "NCHW", attrs.data_layout)
        return TensorType(shape, attrs.out_dtype or source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: BinaryConvAttrs, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
        _, channels, *sizes = ordered(context.shape(data), attrs.data_layout, "NCHW")
        have = context.shape(weight)
        require_words(context, channels, WIDTHS[attrs.pack_dtype], "the number of channels")
        plain, packed = (context.dims(s) for s in BitserialConv2D.weights(attrs, channels))
        require_agreed(context, have, plain if len(have) == 4 else packed, "the weight")
        require_fits(context, sizes, padding_of(attrs.padding, 2), attrs.kernel_size)
        return context.te(lambda x, w: _convolved(attrs, x, w), data, weight)


def _convolved(attrs: BinaryConvAttrs, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    layout, kernel = attrs.data_layout, _KERNELS[attrs.data_layout]
    out_dtype, padding = attrs.out_dtype or str(data.dtype), padding_of(attrs.padding, 2)
    words = pack(data, attrs.activation_bits, layout.index("C"), 4, attrs.pack_dtype)
    if len(weight.shape) == 4:
        weight = pack(weight, attrs.weight_bits, kernel.index("I"), 4, attrs.pack_dtype)
    batch, _, *sizes = ordered([dims.simplify(d) for d in data.shape], layout, "NCHW")
    outputs, inputs, *window = ordered([dims.simplify(d) for d in weight.shape[:4]], kernel, "OIHW")
    padded = pad_spatial(words, layout + "b", "HW", padding, 0)
    strides = positive(attrs.strides, 2, "strides")
    c = te.reduce_axis((0, inputs), name="rc")
    y, x = (te.reduce_axis((0, w), name=n) for w, n in zip(window, ("ry", "rx"), strict=True))
    a, b = te.reduce_axis((0, attrs.activation_bits), name="a"), te.reduce_axis((0, attrs.weight_bits), name="b")

    def element(*index: tirx.Expr) -> tirx.Expr:
        n, o, row, column = ordered(index, layout, "NCHW")
        of_data = ordered([n, c, row * strides[0] + y, column * strides[1] + x], "NCHW", layout)
        of_weight = ordered([o, c, y, x], "OIHW", kernel)
        product = _counted(padded(*of_data, a), weight(*of_weight, b), a + b, attrs.unipolar, out_dtype)
        return te.sum(product, axis=[c, y, x, a, b])

    shape = ordered([batch, outputs, *fitted(sizes, padding, window, strides)], "NCHW", layout)
    return te.compute([dims.as_expr(d) for d in shape], element, name="bitserial_conv2d")


@attrs_node("relay.attrs.BinaryDenseAttrs")
class BinaryDenseAttrs(Attrs):
    """Attributes of nn.bitserial_dense."""

    units: Dim = field(script=None, doc="Elements of a row of the result.")
    data_bits: Int = field(1, doc="Bits of the data.")
    weight_bits: Int = field(1, doc=_WEIGHT_BITS)
    pack_dtype: DType = field("", script="uint32", doc=_PACK_DTYPE)
    out_dtype: DType = field("", script="int16", doc=_OUT_DTYPE)
    unipolar: Bool = field(True, doc=_UNIPOLAR)


@operator(
    "nn.bitserial_dense", "data", "weight", attrs=BinaryDenseAttrs, level=1, pattern=OpPattern.OUT_ELEMWISE_FUSABLE
)
class BitserialDense:
    """The product ``data @ weight.T`` of the lowest bits of both.

    The weight is (units, inputs), or packed already: (units, bits, words).
    """

    @staticmethod
    def weights(attrs: BinaryDenseAttrs, inputs: Dim) -> tuple[list[Dim], list[Dim]]:
        """Return the shapes of a plain and of a packed weight."""
        words = word_count(inputs, WIDTHS[attrs.pack_dtype], "the number of inputs")
        return [attrs.units, inputs], [attrs.units, attrs.weight_bits, words]

    @staticmethod
    def relation(attrs: BinaryDenseAttrs, data: Type, weight: Type) -> Type:
        source, filters = require_integers(data, "data"), require_integers(weight, "weight")
        require_width(attrs.pack_dtype)
        require_bits(attrs.data_bits, "data_bits")
        require_bits(attrs.weight_bits, "weight_bits")
        require_rank(source, 2, "data")
        _require_weight(filters, *BitserialDense.weights(attrs, source.shape[1]), attrs.pack_dtype)
        return TensorType([source.shape[0], attrs.units], attrs.out_dtype or source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: BinaryDenseAttrs, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
        (_, inputs), have = context.shape(data), context.shape(weight)
        require_words(context, inputs, WIDTHS[attrs.pack_dtype], "the number of inputs")
        plain, packed = (context.dims(s) for s in BitserialDense.weights(attrs, inputs))
        require_agreed(context, have, plain if len(have) == 2 else packed, "the weight")
        out_dtype = attrs.out_dtype or str(data.ty.dtype)

        def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
            rows = pack(x, attrs.data_bits, 1, 1, attrs.pack_dtype)
            columns = pack(w, attrs.weight_bits, 1, 1, attrs.pack_dtype) if len(w.shape) == 2 else w
            a = te.reduce_axis((0, rows.shape[1]), name="a")
            b, k = te.reduce_axis((0, columns.shape[1]), name="b"), te.reduce_axis((0, columns.shape[2]), name="k")

            def element(i: tirx.Expr, j: tirx.Expr) -> tirx.Expr:
                product = _counted(rows(i, a, k), columns(j, b, k), a + b, attrs.unipolar, out_dtype)
                return te.sum(product, axis=[b, a, k])

            return te.compute((x.shape[0], w.shape[0]), element, name="bitserial_dense")

        return context.te(compute, data, weight)
