"""Convolutions and dense layers of integers with a packed weight: what IntegerProducts makes of the plain ones."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ...kernels.integer_weight import INTEGER_MARK, IntegerWeight
from ...relay.ir import dims
from ...relay.ir.types import TensorType, Type
from ...relay.op.attrs import Attrs, Int, Ints, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.nn.window import fitted, require_fits
from ...relay.op.registry import OpPattern, operator

__all__ = ["IntegerProductAttrs", "integer_weight"]


@attrs_node("relay.attrs.IntegerProductAttrs")
class IntegerProductAttrs(Attrs):
    """Attributes of nn.contrib_integer_product.

    A window has as many axes as the data has between its first and last; a dense layer has none.
    """

    channels: Int = 1
    units: Int = 1
    group: Int = 4
    multiple: Int = 4
    kernel_size: Ints = ()
    strides: Ints = ()
    dilation: Ints = ()
    padding: Ints = ()


def integer_weight(attrs: IntegerProductAttrs) -> IntegerWeight:
    """Return how the weight of a product is packed."""

    def two(values: Any, filler: int) -> tuple[int, int]:
        listed = [int(v) for v in values]
        first, second = [filler] * (2 - len(listed)) + listed
        return first, second

    return IntegerWeight(
        channels=int(attrs.channels),
        units=int(attrs.units),
        group=int(attrs.group),
        multiple=int(attrs.multiple),
        kernel=two(attrs.kernel_size, 1),
        strides=two(attrs.strides, 1),
        dilation=two(attrs.dilation, 1),
        padding=two(list(attrs.padding)[: len(attrs.kernel_size)], 0),
    )


@operator(
    "nn.contrib_integer_product",
    "data",
    "weight",
    "filler",
    attrs=IntegerProductAttrs,
    level=10,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
)
class IntegerProduct:
    """Convolution over channels-last uint8 data (NWC, NHWC), or product with a matrix, summed up in int32.

    The weight is that of :meth:`IntegerWeight.pack`; filler, a uint8, is what stands around the data. No zero point is
    subtracted from anything.
    """

    @staticmethod
    def relation(attrs: IntegerProductAttrs, data: Type, weight: Type, filler: Type) -> Type:
        source, filters = require_tensor(data, "data"), require_tensor(weight, "weight")
        around = require_tensor(filler, "filler")
        packed, rank = integer_weight(attrs), len(attrs.kernel_size)
        if source.dtype != "uint8" or filters.dtype != packed.dtype:
            raise TypeCheckError(
                f"data must be uint8 and weight {packed.dtype}, not {source.dtype} and {filters.dtype}"
            )
        if around.dtype != "uint8" or around.shape:
            raise TypeCheckError(f"filler must be a scalar uint8, not {around}")
        if len(source.shape) != rank + 2 if rank else len(source.shape) < 1:
            raise TypeCheckError(f"data must have {rank + 2 if rank else '1 or more'} dimensions: {source}")
        if dims.equal(source.shape[-1], packed.channels) is False:
            raise TypeCheckError(f"channels is {packed.channels}, but data has {source.shape[-1]}")
        if len(filters.shape) != len(packed.shape) or not all(map(dims.equal, filters.shape, packed.shape)):
            raise TypeCheckError(f"weight must have the shape {packed.shape}, not {tuple(filters.shape)}")
        return TensorType(_shape(attrs, list(source.shape)), "int32")

    @staticmethod
    def lower(
        context: Any, attrs: IntegerProductAttrs, data: relax.Expr, weight: relax.Expr, filler: relax.Expr
    ) -> Any:
        shape, name = context.shape(data), context.current.name
        context.require_equal(
            shape[-1],
            int(attrs.channels),
            f"{name}: the data has {{actual}} channels, but the weight takes {{expected}}",
        )
        if len(attrs.kernel_size):
            require_fits(context, shape[1:-1], list(attrs.padding), _windows(attrs))
        return context.te(lambda x, w, around: _product(attrs, x, w, around), data, weight, filler)


def _windows(attrs: IntegerProductAttrs) -> list[Any]:
    return [(int(k) - 1) * int(d) + 1 for k, d in zip(attrs.kernel_size, attrs.dilation, strict=True)]


def _shape(attrs: IntegerProductAttrs, data: list[Any]) -> list[Any]:
    if not len(attrs.kernel_size):
        return [*data[:-1], int(attrs.units)]
    sizes = fitted(data[1:-1], list(attrs.padding), _windows(attrs), list(attrs.strides))
    return [data[0], *sizes, int(attrs.units)]


def _product(attrs: IntegerProductAttrs, data: te.Tensor, weight: te.Tensor, filler: te.Tensor) -> te.Tensor:
    """Return the product as one sum, which a rule replaces with loops for the target's instructions."""
    packed = integer_weight(attrs)
    shape = [dims.as_expr(d) for d in _shape(attrs, [dims.simplify(d) for d in data.shape])]
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
            x = tirx.if_then_else(tirx.all(*inside), x, filler())
        row, column = [0, 0, *window][-2:]
        factor = weight(*packed.index(row, column, channel, unit))
        return te.sum(x.astype("int32") * factor.astype("int32"), axis=[*window, channel])

    return te.compute(shape, element, name="T_integer_product", attrs={INTEGER_MARK: packed.to_json()})
