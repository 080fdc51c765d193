"""Convolutions by small constant kernels become products of tiles, where that is faster."""

from __future__ import annotations

import numpy as np

from ..kernels.winograd_plan import Machine, plan_winograd
from ..kernels.winograd_shape import WinogradShape
from ..relay.ir import Expr
from ..relay.op.registry import build
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..values.host_memory import as_array
from .conv_layers import ConvLayer, Make, rewrite_layers

__all__ = ["UseWinograd"]


@relay_pass(opt_level=1)
def UseWinograd(
    lanes: int = 16,
    registers: int = 32,
    cores: int = 1,
    has_matrix_unit: bool = False,
    shares_kernels: bool = False,
) -> ModuleTransform:
    """Return the pass that computes convolutions over channels-last data by Winograd's tiles, with what follows them.

    Results differ from exact ones as :mod:`vmkit.kernels.winograd_points` says: by rounding, but of larger
    terms than those of the plain sum. Weights are transformed in float64, when the program starts.

    Parameters
    ----------
    lanes, registers : int
        How many float32 a vector of the target has, and how many vectors.
    cores : int
        How many cores share the work.
    has_matrix_unit : bool
        Whether the sum itself would be computed on a matrix unit.
    shares_kernels : bool
        Whether convolutions that differ in sizes alone call one kernel, which is compiled once and is slower than
        kernels that know their sizes.
    """
    machine = Machine(lanes, registers, cores, has_matrix_unit)
    return per_function(
        lambda function: rewrite_layers(function, lambda layer: _chosen(layer, machine, shares_kernels))
    )


def _chosen(layer: ConvLayer, machine: Machine, shares_kernels: bool) -> Make | None:
    """Return what makes the operator for a layer, or None where the sum itself is faster."""
    sizes, lanes = layer.sizes, machine.lanes
    if not layer.is_everywhere or sizes["H"] * sizes["W"] == 1 or sizes["I"] % lanes or sizes["O"] % lanes or lanes < 4:
        return None
    if _is_whole(as_array(layer.conv.args[1].data)):
        return None
    batch, height, width = (d if isinstance(d, int) else None for d in layer.image(layer.conv.args[0])[:3])
    shape = WinogradShape(
        kernel=(sizes["H"], sizes["W"]),
        tile=(1, 1),
        batch=batch,
        height=height,
        width=width,
        inner=sizes["I"],
        outer=sizes["O"],
        padding=layer.padding,
        block=lanes * 2 if sizes["O"] % (lanes * 2) == 0 else lanes,
        lanes=lanes,
    )
    planned = plan_winograd(shape, machine, shares_kernels)
    if planned is None:
        return None
    shape, plan = planned

    def make(data: Expr, added: list[Expr]) -> Expr:
        return build(
            "nn.contrib_conv2d_winograd_fused",
            data,
            layer.weight_image(),
            *added,
            tile=list(shape.tile),
            block=shape.block,
            rows=plan.rows,
            count=plan.count,
            lanes=lanes,
            padding=list(shape.padding),
            is_parallel_over_tiles=plan.is_parallel_over_tiles,
            has_bias=layer.bias is not None,
            a_min=layer.low,
            a_max=layer.high,
            is_shared=shares_kernels,
        )

    return make


def _is_whole(weight: np.ndarray) -> bool:
    """Say whether a weight holds integers alone: those of quantised models, whose sums are to be exact."""
    first = weight[:1, :1, :1]  # which tells nearly always
    return all(bool(np.array_equal(part, np.rint(part))) for part in (first, weight))
