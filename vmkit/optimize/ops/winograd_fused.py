"""Winograd's convolution and what follows it as one operator: what UseWinograd makes of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from tvm import ir, relax, te, tirx, topi
from tvm.runtime import Tensor

from ...errors import TypeCheckError
from ...kernels.later_weight import later_constant
from ...kernels.winograd_weight import PLAIN_TILE, WinogradWeight
from ...relay.ir import Constant, Expr, dims
from ...relay.ir.types import TensorType, Type
from ...relay.op.attrs import Attrs, Bool, Float, Int, Ints, Str, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.nn.layout import require_rank
from ...relay.op.nn.window import fitted, padding_of, require_fits
from ...relay.op.registry import OpPattern, operator
from ...values.halves import HALVES, half_type, narrowed
from ...values.host_memory import as_array, over_memory
from .epilogue import require_added, require_added_at_run_time, require_function
from .kernel_calls import call_kernel

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__ = ["narrow_weight"]

_NARROW = "float16"
_LATER_BYTES = 1 << 16  # from this size on constants are kept apart from bytecode; see vmkit.bytecode.placeholders


@attrs_node("relay.attrs.Conv2DWinogradFusedAttrs")
class Conv2DWinogradFusedAttrs(Attrs):
    """Attributes of nn.contrib_conv2d_winograd_fused.

    tile is how many results on either axis come from one tile, block how many output channels are computed at once,
    lanes how many float32 a vector has; a_min and a_max are what sums are raised and lowered to, activation
    the program of :mod:`vmkit.kernels.activation` for results; rows, count and
    is_parallel_over_tiles are the fields of vmkit.kernels.winograd_shape.WinogradPlan, few those of its WinogradCosts,
    or empty for a kernel of tiles alone. is_shared asks for a kernel that calls of other sizes share.
    """

    tile: Ints
    block: Int
    rows: Int
    count: Int
    lanes: Int
    padding: Ints = (0, 0, 0, 0)
    is_parallel_over_tiles: Bool = True
    has_bias: Bool = False
    a_min: Float | None = None
    a_max: Float | None = None
    activation: Str = ""
    is_shared: Bool = False
    few: Ints = ()


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
    """``activation(clip(conv2d(data, weight) + bias + residual))`` at every position, on a CPU in float32.

    data is (batch, height, width, channels), weight (height, width, channels, output channels); then comes the bias
    (output channels,) if has_bias, and the residual, like the result, if there is one. A constant weight is transformed
    when the program starts, any other one by each call; it may be of float16 (:func:`narrow_weight`).
    """

    @staticmethod
    def relation(attrs: Conv2DWinogradFusedAttrs, data: Type, weight: Type, *added: Type) -> Type:
        tensors = [require_tensor(ty, "an input") for ty in (data, weight, *added)]
        source, filters, *others = tensors
        require_rank(source, 4, "data")
        require_rank(filters, 4, "weight")
        wide = [source, *others, *([] if filters.dtype == _NARROW else [filters])]
        if any(t.dtype != "float32" for t in wide):
            raise TypeCheckError(f"all inputs must be float32, not {', '.join(t.dtype for t in tensors)}")
        if len(attrs.tile) != 2:
            raise TypeCheckError(f"tile has two values, not {attrs.tile}")
        if not all(isinstance(d, int) for d in filters.shape):
            raise TypeCheckError(f"the shape of the weight must be known: {filters}")
        plan = _plan(attrs, filters.shape)
        height, width, inner, outer = plan.shape
        if plan.is_plain or not plan.is_possible or dims.equal(source.shape[3], inner) is False:
            how = f"tiles of {list(attrs.tile)}, blocks of {attrs.block}"
            raise TypeCheckError(f"{how} and {filters} do not fit {source}")
        if inner % attrs.lanes or attrs.block % attrs.lanes:
            raise TypeCheckError(f"channels must be known multiples of {attrs.lanes}, not {inner} and {attrs.block}")
        sizes = fitted(source.shape[1:3], padding_of(attrs.padding, 2), (height, width), (1, 1))
        result = [source.shape[0], *sizes, outer]
        require_function(attrs.activation)
        require_added(others, attrs.has_bias, result)
        return TensorType(result, "float32")

    @staticmethod
    def lower(
        context: LowerContext, attrs: Conv2DWinogradFusedAttrs, data: relax.Expr, weight: relax.Expr, *added: relax.Expr
    ) -> relax.Expr:
        from ...kernels.winograd import shared_winograd, winograd
        from ...kernels.winograd_shape import WinogradCosts, WinogradPlan, WinogradShape

        have, packed = context.shape(data), _plan(attrs, [int(d) for d in context.shape(weight)])
        *kernel, inner, outer = packed.shape
        padding = padding_of(attrs.padding, 2)
        require_fits(context, have[1:3], padding, kernel)
        name = "nn.contrib_conv2d_winograd_fused"
        context.require_equal(have[3], inner, f"{name}: the data has {{actual}} channels, expected {{expected}}")
        result = [have[0], *fitted(have[1:3], padding, kernel, (1, 1)), outer]
        require_added_at_run_time(context, name, added, attrs.has_bias, result)
        batch, height, width = (d if isinstance(d, int) else None for d in have[:3])
        top, left, bottom, right = padding
        what = WinogradShape(
            kernel=packed.shape[:2],
            tile=packed.tile,
            batch=batch,
            height=height,
            width=width,
            inner=inner,
            outer=outer,
            padding=(top, left, bottom, right),
            block=packed.block,
            lanes=attrs.lanes,
            has_bias=attrs.has_bias,
            has_residual=len(added) > attrs.has_bias,
            low=attrs.a_min,
            high=attrs.a_max,
            activation=attrs.activation,
        )
        # Steps of short vectors are short themselves, beside what each round of them takes.
        unrolled = 4 if attrs.lanes <= 8 else 2
        few = WinogradCosts(*attrs.few) if attrs.few else None
        plan = WinogradPlan(attrs.rows, attrs.count, unrolled, attrs.is_parallel_over_tiles, few)
        plain = [_transformed(context, weight, replace(packed, tile=PLAIN_TILE))] if few is not None else []
        if attrs.is_shared:
            write = partial(shared_winograd, what.without_sizes(), plan)
        elif what.tiles is None:
            # Over images of unknown size one kernel is for any channels: it is hardly slower, and long to compile.
            write = partial(shared_winograd, what.without_channels(), plan)
        else:
            write = partial(winograd, what, plan)
        return call_kernel(
            context,
            write,
            "conv2d_winograd",
            [data, _transformed(context, weight, packed), *plain, *added],
            result,
        )


def narrow_weight(weight: Expr) -> Expr:
    """Return a large constant weight in float16 if that holds all its numbers, any other weight as it is.

    A network that was in float16 has its weights in float32 until then.
    """
    if not isinstance(weight, Constant) or weight.checked_type.dtype != "float32":
        return weight
    array = as_array(weight.data)
    if array.nbytes < _LATER_BYTES or half_type(array, [_NARROW]) is None:
        return weight
    return Constant(over_memory(narrowed(array, _NARROW).reshape(-1).view("uint8"), array.shape, _NARROW))


def _plan(attrs: Conv2DWinogradFusedAttrs, shape: Sequence[int]) -> WinogradWeight:
    height, width, inner, outer = shape
    down, across = attrs.tile
    return WinogradWeight((height, width, inner, outer), (down, across), attrs.block)


def _transformed(context: LowerContext, weight: relax.Expr, plan: WinogradWeight) -> relax.Expr:
    """Return a weight transformed: a constant for the program's start, or at once if it is small; or by a kernel."""
    if not isinstance(weight, ir.GenericConst):
        if weight.ty.dtype == _NARROW:
            weight = context.te(lambda values: topi.cast(values, "float32"), weight, name="widened")
        matrix = relax.const(plan.matrix, "float64")
        return context.te(partial(_transform, plan), weight, matrix, pattern=OpPattern.OPAQUE, name="winograd_weight")
    if 4 * prod(plan.made) >= _LATER_BYTES:
        return later_constant(_stored(weight.value), plan)
    made = np.empty(plan.made, "float32")
    plan.transform(as_array(weight.value).astype("float32", copy=False), made)
    return relax.const(made)


def _stored(weight: Tensor) -> Tensor:
    """Return a weight of float32 as a file holds it: in 16 bits if these hold all its numbers."""
    if str(weight.dtype) == _NARROW:
        return weight
    array = as_array(weight)
    half = half_type(array, HALVES)
    if half is None:
        return weight
    return over_memory(narrowed(array, half).reshape(-1).view("uint8"), array.shape, half)


def _transform(plan: WinogradWeight, weight: te.Tensor, matrix: te.Tensor) -> te.Tensor:
    _, width, _, _ = plan.shape
    element = te.reduce_axis((0, plan.shape[0] * width), name="element")

    def value(at: tirx.Var, point: tirx.Var, inner: tirx.Var, outer: tirx.Var) -> tirx.Expr:
        place = tirx.floordiv(element, width), tirx.floormod(element, width), inner, at * plan.block + outer
        return te.sum(weight(*place).astype("float64") * matrix(point, element), axis=element)

    whole = te.compute(plan.made, value, name="whole")
    return te.compute(plan.made, lambda *at: whole(*at).astype("float32"), name="winograd_weight")
