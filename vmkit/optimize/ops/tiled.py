"""Convolutions and dense layers whose weight is packed for a matrix unit: what PackTiles makes of the plain ones."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ...kernels.tiled_weight import MARK, PARTS, TiledWeight
from ...relay.ir import dims
from ...relay.ir.types import TensorType, Type
from ...relay.op.attrs import Attrs, Int, Ints, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.nn.window import fitted, require_fits
from ...relay.op.registry import OpPattern, operator

__all__ = ["TiledProductAttrs", "tiled_weight"]


@attrs_node("relay.attrs.TiledProductAttrs")
class TiledProductAttrs(Attrs):
    """Attributes of nn.contrib_tiled_product.

    A window has as many axes as the data has between its first and last; a dense layer has none.
    """

    channels: Int = 1
    units: Int = 1
    kernel_size: Ints = ()
    strides: Ints = ()
    dilation: Ints = ()
    padding: Ints = ()


def tiled_weight(attrs: TiledProductAttrs) -> TiledWeight:
    """Return how the weight of a product is packed."""

    def two(values: Any, filler: int) -> tuple[int, int]:
        listed = [int(v) for v in values]
        first, second = [filler] * (2 - len(listed)) + listed
        return first, second

    before = list(attrs.padding)[: len(attrs.kernel_size)]
    return TiledWeight(
        channels=int(attrs.channels),
        units=int(attrs.units),
        kernel=two(attrs.kernel_size, 1),
        strides=two(attrs.strides, 1),
        dilation=two(attrs.dilation, 1),
        padding=two(before, 0),
    )


@operator(
    "nn.contrib_tiled_product",
    "data",
    "weight",
    attrs=TiledProductAttrs,
    level=10,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
)
class TiledProduct:
    """Convolution over channels-last data (NWC, NHWC), or product with a matrix, with a weight in bfloat16 parts.

    The weight is that of :meth:`TiledWeight.pack`, which also says how exact the result is.
    """

    @staticmethod
    def relation(attrs: TiledProductAttrs, data: Type, weight: Type) -> Type:
        source, filters = require_tensor(data, "data"), require_tensor(weight, "weight")
        packed, rank = tiled_weight(attrs), len(attrs.kernel_size)
        if source.dtype != "float32" or filters.dtype != "uint16":
            raise TypeCheckError(f"data must be float32 and weight uint16, not {source.dtype} and {filters.dtype}")
        if len(source.shape) != rank + 2 if rank else len(source.shape) < 1:
            raise TypeCheckError(f"data must have {rank + 2 if rank else '1 or more'} dimensions: {source}")
        if dims.equal(source.shape[-1], packed.channels) is False:
            raise TypeCheckError(f"channels is {packed.channels}, but data has {source.shape[-1]}")
        if len(filters.shape) != len(packed.shape) or not all(map(dims.equal, filters.shape, packed.shape)):
            raise TypeCheckError(f"weight must have the shape {packed.shape}, not {tuple(filters.shape)}")
        return TensorType(_shape(attrs, list(source.shape)), "float32")

    @staticmethod
    def lower(context: Any, attrs: TiledProductAttrs, data: relax.Expr, weight: relax.Expr) -> Any:
        shape, name = context.shape(data), context.current.name
        context.require_equal(
            shape[-1],
            int(attrs.channels),
            f"{name}: the data has {{actual}} channels, but the weight takes {{expected}}",
        )
        if len(attrs.kernel_size):
            require_fits(context, shape[1:-1], list(attrs.padding), _windows(attrs))
        return context.te(lambda x, w: _product(attrs, x, w), data, weight)


def _windows(attrs: TiledProductAttrs) -> list[Any]:
    return [(int(k) - 1) * int(d) + 1 for k, d in zip(attrs.kernel_size, attrs.dilation, strict=True)]


def _shape(attrs: TiledProductAttrs, data: list[Any]) -> list[Any]:
    if not len(attrs.kernel_size):
        return [*data[:-1], int(attrs.units)]
    sizes = fitted(data[1:-1], list(attrs.padding), _windows(attrs), list(attrs.strides))
    return [data[0], *sizes, int(attrs.units)]


def _product(attrs: TiledProductAttrs, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """Return the product as one sum, which a rule replaces with loops for the matrix unit."""
    packed = tiled_weight(attrs)
    sizes = [dims.simplify(d) for d in data.shape]
    shape = [dims.as_expr(d) for d in _shape(attrs, sizes)]
    window = [te.reduce_axis((0, int(k)), name=f"k{i}") for i, k in enumerate(attrs.kernel_size)]
    channel = te.reduce_axis((0, packed.channels), name="c")

    def element(*index: Any) -> Any:
        *outer, unit = index
        at, inside = list(outer), []
        for axis, reduced in enumerate(window):
            place = outer[axis + 1] * int(attrs.strides[axis]) + reduced * int(attrs.dilation[axis])
            at[axis + 1] = place - int(attrs.padding[axis])
            inside += [at[axis + 1] >= 0, at[axis + 1] < data.shape[axis + 1]]
        x = data(*at, channel)
        if inside:
            x = tirx.if_then_else(tirx.all(*inside), x, tirx.const(0, "float32"))
        row, column = [0, 0, *window][-2:]
        parts = [_float32(weight(*packed.index(part, row, column, channel, unit))) for part in range(PARTS)]
        return te.sum(x * sum(parts[1:], parts[0]), axis=[*window, channel])

    return te.compute(shape, element, name="T_tiled_product", attrs={MARK: packed.to_json()})


def _float32(bits: Any) -> Any:
    """Return the float32 of the bits of a bfloat16."""
    return tirx.reinterpret("float32", bits.astype("uint32") << tirx.const(16, "uint32"))
