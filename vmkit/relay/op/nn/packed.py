"""Convolutions and dense over packed weights: what Relay's layout pass for CPUs made of the plain operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.types import Dim, TensorType, Type
from ..attrs import Attrs, DType, Str, attrs_node, field
from ..elementwise import require_tensor
from ..registry import OpPattern, Parameters, entry, operator
from .convolution import ConvAttrs, Convolution
from .layout import Layout
from .precision import accumulator, as_dtype

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["contrib_conv2d_nchwc", "contrib_depthwise_conv2d_nchwc"]


class _Packed(Convolution):
    """A convolution over blocks, whose weight has them too where its layout does not say so."""

    @staticmethod
    def relation(attrs: ConvAttrs, data: Type, weight: Type) -> Type:
        shape = require_tensor(weight, "weight").shape
        return Convolution.relation(_with_blocks(attrs, list(shape)), data, weight)

    @staticmethod
    def lower(context: LowerContext, attrs: ConvAttrs, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
        return Convolution.lower(context, _with_blocks(attrs, context.shape(weight)), data, weight)


def _with_blocks(attrs: ConvAttrs, shape: Sequence[Dim]) -> ConvAttrs:
    """Return attributes whose layout of a weight of six dimensions, called OIHW, names its blocks: OIHW4i8o."""
    inner = shape[-2:]
    if attrs.kernel_layout != "OIHW" or len(shape) != 6 or not all(isinstance(d, int) for d in inner):
        return attrs
    values = {f.name: getattr(attrs, f.name) for f in attrs.declared}
    return type(attrs)(**{**values, "kernel_layout": f"OIHW{inner[0]}i{inner[1]}o"})


def _packed(kind: str) -> Callable[..., Expr]:
    """Register a blocked convolution and return its builder, whose name Relay wrote in small letters."""
    name = f"nn.contrib_{kind}_NCHWc"
    doc = f"{kind} with channels in blocks: nn.conv2d under the layouts given, such as NCHW8c and OIHW8i8o."
    operator(
        name,
        "data",
        "kernel",
        attrs=ConvAttrs.over(2),
        level=10,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        layout="own",
        parameters=Parameters(given={"data_layout": "NCHW8c"}),
    )(type(name, (_Packed,), {"__doc__": doc}))
    return entry(name).builder


contrib_conv2d_nchwc = _packed("conv2d")
contrib_depthwise_conv2d_nchwc = _packed("depthwise_conv2d")


@attrs_node("relay.attrs.DensePackAttrs")
class DensePackAttrs(Attrs):
    """Attributes of nn.contrib_dense_pack."""

    units: Dim | None = field(None, doc="Columns of the result; those that the weight has.")
    out_dtype: DType = field("", doc="Data type of the result; that of the data where it is empty.")
    weight_layout: Str = field("NC", doc="Order of the weight's axes, and its blocks.")


def _weight_layout(attrs: DensePackAttrs, rank: int, block: Dim | None) -> Layout:
    """Return the layout of the weight; NC for one of three dimensions means that the last one holds blocks of N."""
    text = attrs.weight_layout
    if text == "NC" and rank == 3:
        if not isinstance(block, int):
            raise TypeCheckError("the last dimension of weight must be known, or be given by weight_layout as NC16n")
        text = f"NC{block}n"
    layout = Layout.of(text)
    if sorted(layout.letters) != ["C", "N"]:
        raise TypeCheckError(f"weight_layout {text!r} must order the axes N, C")
    return layout


@operator(
    "nn.contrib_dense_pack",
    "data",
    "weight",
    attrs=DensePackAttrs,
    level=10,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters("data weight weight_layout units out_dtype"),
    layout="dense",
)
class DensePack:
    """Product of the data's last dimension with a weight of shape (units, inner) in blocks, such as NC16n.

    Relay took matrices alone. The last block may be filled up, and be followed by one of what fills it, where the
    attribute units says how many units there are.
    """

    @staticmethod
    def relation(attrs: DensePackAttrs, data: Type, weight: Type) -> Type:
        source, filters = require_tensor(data, "data"), require_tensor(weight, "weight")
        if len(source.shape) < 1:
            raise TypeCheckError(f"data must have 1 or more dimensions: {source}")
        layout = _weight_layout(attrs, len(filters.shape), filters.shape[-1] if len(filters.shape) else None)
        layout.require(filters, "weight")
        units, inner = layout.sizes(filters.shape, "NC")
        if dims.equal(source.shape[-1], inner) is False:
            raise TypeCheckError(f"the inner dimensions differ: {source.shape[-1]} of data and {inner} of weight")
        if attrs.units is not None:
            if dims.equal(attrs.units, units) is False and not _is_filled(layout, units, attrs.units):
                raise TypeCheckError(f"units is {attrs.units}, but weight has {units}")
            units = attrs.units
        return TensorType([*source.shape[:-1], units], attrs.out_dtype or source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: DensePackAttrs, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
        have, shape = context.shape(data)[-1], context.shape(weight)
        layout = _weight_layout(attrs, len(shape), shape[-1])
        layout.require_at_run_time(context, shape, "weight")
        units, inner = layout.sizes(shape, "NC")
        name = context.operator
        context.require_equal(have, inner, f"{name}: the inner dimensions differ: {{actual}} and {{expected}}")
        wanted = attrs.units
        if isinstance(wanted, int) and _is_filled(layout, units, wanted):
            return context.te(lambda x, w: _filled(layout, x, w, wanted, attrs.out_dtype or str(x.dtype)), data, weight)
        if isinstance(attrs.units, int):
            context.require_equal(units, attrs.units, f"{name}: units is {{expected}}, but the weight has {{actual}}")
        return context.te(lambda x, w: _dense(layout, x, w, attrs.out_dtype or str(x.dtype)), data, weight)


def _is_filled(layout: Layout, units: Dim, wanted: Dim | None) -> bool:
    """Say whether a weight of so many units is one of `wanted` units, its last block filled up, or one more."""
    block = layout.block("N")
    if block == 1 or not isinstance(wanted, int) or not isinstance(units, int):
        return False
    return units % block == 0 and units - 2 * block < wanted < units


def _filled(layout: Layout, data: te.Tensor, weight: te.Tensor, wanted: int, out_dtype: str) -> te.Tensor:
    """Return the units that there are of a product over whole blocks; its last axes are a group and its blocks."""
    units, inner = layout.sizes([dims.simplify(d) for d in weight.shape], "NC")
    block = layout.block("N")
    k = te.reduce_axis((0, dims.as_expr(inner)), name="k")
    sums = accumulator(out_dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        *rows, _, whole, part = index
        w = weight(*layout.index({"N": whole * block + part, "C": k}))
        return te.sum(data(*rows, k).astype(sums) * w.astype(sums), axis=k)

    rows = list(data.shape[:-1])
    whole = te.compute([*rows, 1, int(units) // block, block], element, name="T_dense_blocks")
    taken = te.compute(
        [*rows, wanted], lambda *i: whole(*i[:-1], 0, i[-1] // block, i[-1] % block), name="T_dense_pack"
    )
    return as_dtype(taken, out_dtype)


def _dense(layout: Layout, data: te.Tensor, weight: te.Tensor, out_dtype: str) -> te.Tensor:
    units, inner = layout.sizes([dims.simplify(d) for d in weight.shape], "NC")
    k = te.reduce_axis((0, dims.as_expr(inner)), name="k")
    sums = accumulator(out_dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        w = weight(*layout.index({"N": index[-1], "C": k}))
        return te.sum(data(*index[:-1], k).astype(sums) * w.astype(sums), axis=k)

    shape = [*data.shape[:-1], dims.as_expr(units)]
    return as_dtype(te.compute(shape, element, name="T_dense_pack"), out_dtype)
