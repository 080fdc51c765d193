"""Convolutions and dense layers with a packed weight: what passes make of plain ones for a target's instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError, suggest
from ...kernels.packed_product.encodings import ENCODINGS, MARK, weight_to_json
from ...kernels.packed_product.shape import ProductShape
from ...kernels.packed_product.weight import PackedWeight
from ...relay.ir import dims
from ...relay.ir.types import Dim, TensorType, Type
from ...relay.op.attrs import Attrs, Int, Ints, Str, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.nn.window import fitted, require_fits
from ...relay.op.registry import OpPattern, operator

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__ = ["PackedProductAttrs", "packed_weight"]


@attrs_node("relay.attrs.PackedProductAttrs")
class PackedProductAttrs(Attrs):
    """Attributes of nn.contrib_packed_product.

    The encoding is one of those in :mod:`vmkit.kernels.packed_product.encodings`, and `extras` what it says of the
    weight: how many groups of inputs are there twice. A window has as many axes as the data
    has between its first and last; a dense layer has none.
    """

    encoding: Str
    extras: Int = 0
    channels: Int = 1
    units: Int = 1
    kernel_size: Ints = ()
    strides: Ints = ()
    dilation: Ints = ()
    padding: Ints = ()


def packed_weight(attrs: PackedProductAttrs) -> PackedWeight:
    """Return how the weight of a product is packed."""
    if attrs.encoding not in ENCODINGS:
        raise TypeCheckError(f"there is no encoding {attrs.encoding!r}{suggest(attrs.encoding, ENCODINGS)}")
    encoding, extras = ENCODINGS[attrs.encoding], int(attrs.extras)
    if extras < 0 or (extras and not encoding.has_extras):
        expected = "0 or more" if encoding.has_extras else "0"
        raise TypeCheckError(f"extras is {extras}, expected {expected} for the encoding {encoding.name!r}")
    window = attrs.kernel_size, attrs.strides, attrs.dilation, attrs.padding
    shape = ProductShape.of_window(attrs.channels, attrs.units, *window)
    return PackedWeight(shape, encoding, extras)


@operator(
    "nn.contrib_packed_product",
    "data",
    "weight",
    "*filler",
    attrs=PackedProductAttrs,
    level=10,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
)
class PackedProduct:
    """Convolution over channels-last data (NWC, NHWC), or product with a matrix, with a packed constant weight.

    The weight is that of :meth:`PackedWeight.pack`; the encoding also says of which types all are, and how exact the
    result is. Of integers the filler, a number, is what stands around the data; no zero point is subtracted from
    anything.
    """

    @staticmethod
    def relation(attrs: PackedProductAttrs, data: Type, weight: Type, *filler: Type) -> Type:
        source, filters = require_tensor(data, "data"), require_tensor(weight, "weight")
        packed, rank = packed_weight(attrs), len(attrs.kernel_size)
        encoding, channels = packed.encoding, packed.product.channels
        if source.dtype != encoding.data or filters.dtype != encoding.weight:
            raise TypeCheckError(
                f"data must be {encoding.data} and weight {encoding.weight}, not {source.dtype} and {filters.dtype}"
            )
        fillers = 1 if encoding.has_filler else 0
        if len(filler) != fillers:
            raise TypeCheckError(f"{encoding.name} takes {fillers} filler, not {len(filler)}")
        for around in (require_tensor(ty, "filler") for ty in filler):
            if around.dtype != encoding.data or around.shape:
                raise TypeCheckError(f"filler must be a scalar {encoding.data}, not {around}")
        if len(source.shape) != rank + 2 if rank else len(source.shape) < 1:
            raise TypeCheckError(f"data must have {rank + 2 if rank else '1 or more'} dimensions: {source}")
        if dims.equal(source.shape[-1], channels) is False:
            raise TypeCheckError(f"channels is {channels}, but data has {source.shape[-1]}")
        if len(filters.shape) != len(packed.shape) or not all(map(dims.equal, filters.shape, packed.shape)):
            raise TypeCheckError(f"weight must have the shape {packed.shape}, not {tuple(filters.shape)}")
        return TensorType(_shape(attrs, list(source.shape)), encoding.sums)

    @staticmethod
    def lower(
        context: LowerContext, attrs: PackedProductAttrs, data: relax.Expr, weight: relax.Expr, *filler: relax.Expr
    ) -> relax.Expr:
        shape = context.shape(data)
        context.require_equal(
            shape[-1],
            int(attrs.channels),
            "nn.contrib_packed_product: the data has {actual} channels, but the weight takes {expected}",
        )
        if len(attrs.kernel_size):
            require_fits(context, shape[1:-1], list(attrs.padding), _windows(attrs))
        return context.te(lambda *operands: _product(attrs, *operands), data, weight, *filler)


def _windows(attrs: PackedProductAttrs) -> list[Dim]:
    return [(int(k) - 1) * int(d) + 1 for k, d in zip(attrs.kernel_size, attrs.dilation, strict=True)]


def _shape(attrs: PackedProductAttrs, data: Sequence[Dim]) -> list[Dim]:
    if not len(attrs.kernel_size):
        return [*data[:-1], int(attrs.units)]
    sizes = fitted(data[1:-1], list(attrs.padding), _windows(attrs), list(attrs.strides))
    return [data[0], *sizes, int(attrs.units)]


def _product(attrs: PackedProductAttrs, data: te.Tensor, weight: te.Tensor, *filler: te.Tensor) -> te.Tensor:
    """Return the product as one sum, which a rule replaces with loops for the target's instructions."""
    packed = packed_weight(attrs)
    encoding = packed.encoding
    shape = [dims.as_expr(d) for d in _shape(attrs, [dims.simplify(d) for d in data.shape])]
    rank = len(attrs.kernel_size)
    terms = encoding.terms(packed, weight, rank)

    def element(*index: tirx.Var) -> tirx.Expr:
        *outer, unit = index
        at, inside = list(outer), []
        (row, column, channel), factor = terms.of(unit)
        for axis, reduced in enumerate((row, column)[2 - rank :]):
            place = outer[axis + 1] * int(attrs.strides[axis]) + reduced * int(attrs.dilation[axis])
            at[axis + 1] = place - int(attrs.padding[axis])
            inside += [at[axis + 1] >= 0, at[axis + 1] < data.shape[axis + 1]]
        x = data(*at, channel)
        if inside:
            around = filler[0]() if filler else tirx.const(0, encoding.data)
            x = tirx.if_then_else(tirx.all(*inside), x, around)
        return te.sum(x.astype(encoding.sums) * factor, axis=terms.axes)

    return te.compute(shape, element, name="T_packed_product", attrs={MARK: weight_to_json(packed)})
