"""Convolution by 1x1 and what follows it as one operator: what UsePanels makes of such convolutions."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Bool, Float, Int, attrs_node
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .added import call_kernel, require_added, require_added_at_run_time
from .layout import require_rank

__all__: list[str] = []


@attrs_node("relay.attrs.PanelsFusedAttrs")
class PanelsFusedAttrs(Attrs):
    """Attributes of nn.contrib_panels_fused.

    lanes is how many float32 a vector has, registers how many vectors there are; a_min and a_max are what results are
    raised and lowered to.
    """

    lanes: Int = 16
    registers: Int = 32
    has_bias: Bool = False
    a_min: Float | None = None
    a_max: Float | None = None


@operator(
    "nn.contrib_panels_fused",
    "data",
    "weight",
    "*added",
    attrs=PanelsFusedAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
)
class PanelsFused:
    """``clip(data @ weight + bias + residual)`` over the last axis of the data, on a CPU in float32.

    weight is (blocks, channels, output channels of a block); then comes the bias (output channels,) if has_bias, and
    the residual, like the result, if there is one.
    """

    @staticmethod
    def relation(attrs: PanelsFusedAttrs, data: Type, weight: Type, *added: Type) -> Type:
        source, filters, *others = tensors = [require_tensor(ty, "an input") for ty in (data, weight, *added)]
        require_rank(filters, 3, "weight")
        if any(t.dtype != "float32" for t in tensors):
            raise TypeCheckError(f"all inputs must be float32, not {', '.join(t.dtype for t in tensors)}")
        blocks, inner, block = filters.shape
        if not source.shape or dims.equal(source.shape[-1], inner) is False:
            raise TypeCheckError(f"the last axis of {source} does not fit the weight {filters}")
        if not all(isinstance(d, int) for d in (blocks, inner, block)) or block % attrs.lanes:
            raise TypeCheckError(
                f"weight must have a known shape, its last axis a multiple of {attrs.lanes}: {filters}"
            )
        result = [*source.shape[:-1], blocks * block]
        require_added(others, attrs.has_bias, result)
        return TensorType(result, "float32")

    @staticmethod
    def lower(
        context: Any, attrs: PanelsFusedAttrs, data: relax.Expr, weight: relax.Expr, *added: relax.Expr
    ) -> relax.Expr:
        from ....tophub.kernels.panels import PanelShape, panels, plan_panels

        have, (blocks, inner, block) = context.shape(data), (int(d) for d in context.shape(weight))
        name = "nn.contrib_panels_fused"
        context.require_equal(have[-1], inner, f"{name}: the data has {{actual}} channels, expected {{expected}}")
        result = [*have[:-1], blocks * block]
        require_added_at_run_time(context, name, added, attrs.has_bias, result)
        what = PanelShape(
            lead=tuple(d if isinstance(d, int) else None for d in have[:-1]),
            inner=inner,
            outer=blocks * block,
            block=block,
            lanes=attrs.lanes,
            has_bias=attrs.has_bias,
            has_residual=len(added) > attrs.has_bias,
            low=attrs.a_min,
            high=attrs.a_max,
        )
        return call_kernel(
            context, panels(what, plan_panels(what, attrs.registers)), "panels", [data, weight, *added], result
        )
