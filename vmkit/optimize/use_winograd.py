"""Convolutions by small constant kernels become products of tiles, where that is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from math import prod
from typing import TypeAlias

import numpy as np

from ..kernels.winograd_plan import Machine, costs_of, direct_cycles, plan_winograd, winograd_cycles
from ..kernels.winograd_shape import WinogradPlan, WinogradShape
from ..relay.ir import Call, Expr, Function
from ..relay.ir.types import Dim
from ..relay.op.registry import build
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..values.host_memory import as_array
from .conv_layers import ConvLayer, Make, layers_of, rewrite_layers
from .ops.winograd_fused import narrow_weight

__all__ = ["UseWinograd", "is_whole", "shape_without_tiles"]

_WORTH_KERNELS = 1.2  # times as long as convolutions take without tiles, from which on kernels for these are compiled
# Kernels of a function that know their sizes: each takes .2 s to compile, and up to 2 % less time to run.
_MOST_KERNELS = 8

_Planned: TypeAlias = tuple[WinogradShape, WinogradPlan]
"""The shape of a convolution with its tiles, and the order of work."""


@relay_pass(opt_level=1)
def UseWinograd(
    lanes: int = 16,
    registers: int = 32,
    cores: int = 1,
    has_matrix_unit: bool = False,
    passes: int = 1,
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
    passes : int
        How many times a unit of the target works for each vector.
    shares_kernels : bool
        Whether convolutions that differ in sizes alone call one kernel, which is compiled once and may be slower than
        kernels that know their sizes. These kernels are the longest to compile, so there are none at all where all
        convolutions of a function together are hardly faster by them. Otherwise they share kernels where a function
        would need many.
    """
    machine = Machine(lanes, registers, cores, has_matrix_unit, passes)

    def change(function: Function) -> Function:
        layers = list(layers_of(function))
        plans = {layer.conv: _planned(layer, machine, shares_kernels) for layer in layers}
        if shares_kernels and not _is_worth_kernels(layers, plans, machine):
            return function
        kernels = {(_compiled(shape), plan) for shape, plan in filter(None, plans.values())}
        # A kernel for one layer is shorter if it knows its sizes.
        is_shared = sum(map(bool, plans.values())) > 1 if shares_kernels else len(kernels) > _MOST_KERNELS
        return rewrite_layers(function, lambda layer: _chosen(layer, plans[layer.conv], machine, is_shared))

    return per_function(change)


def _is_worth_kernels(layers: Sequence[ConvLayer], plans: Mapping[Call, _Planned | None], machine: Machine) -> bool:
    """Say whether all layers of a function together are much faster by tiles."""
    plain = by_tiles = 0.0
    for layer in layers:
        alone = direct_cycles(_shape_of(layer, machine.lanes), machine) / prod(layer.strides)
        planned = plans[layer.conv]
        plain += alone
        by_tiles += alone if planned is None else winograd_cycles(*planned, machine)
    return plain > _WORTH_KERNELS * by_tiles


def _compiled(shape: WinogradShape) -> WinogradShape:
    """Return what a kernel knows of a shape: over images of unknown size it is for any channels."""
    return shape.without_channels() if shape.tiles is None else shape


def _planned(layer: ConvLayer, machine: Machine, shares_kernels: bool) -> _Planned | None:
    """Return the tiles for a layer and the order of work, or None where the sum itself is faster."""
    sizes, lanes = layer.sizes, machine.lanes
    if not layer.is_everywhere or sizes["H"] * sizes["W"] == 1 or sizes["I"] % lanes or sizes["O"] % lanes or lanes < 4:
        return None
    if is_whole(as_array(layer.conv.args[1].data)):
        return None
    return plan_winograd(_shape_of(layer, lanes), machine, shares_kernels)


def _shape_of(layer: ConvLayer, lanes: int) -> WinogradShape:
    """Return what a layer computes, without tiles."""
    sizes = layer.sizes
    image, channels = layer.image(layer.conv.args[0])[:3], (sizes["I"], sizes["O"])
    return shape_without_tiles((sizes["H"], sizes["W"]), image, channels, layer.padding, lanes)


def shape_without_tiles(
    window: tuple[int, int],
    image: Sequence[Dim],
    channels: tuple[int, int],
    padding: tuple[int, int, int, int],
    lanes: int,
) -> WinogradShape:
    """Return what a convolution computes.

    Parameters
    ----------
    window : tuple of int
        Height and width of the kernel.
    image : sequence of dim
        Batch, height and width of the data.
    channels : tuple of int
        Of the data and of the result: multiples of the lanes.
    padding : tuple of int
        Above, left, below and right.
    lanes : int
        How many float32 a vector has.
    """
    batch, height, width = (d if isinstance(d, int) else None for d in image)
    inner, outer = channels
    block = lanes * 2 if outer % (lanes * 2) == 0 else lanes
    return WinogradShape(window, (1, 1), batch, height, width, inner, outer, padding, block, lanes)


def _chosen(layer: ConvLayer, planned: _Planned | None, machine: Machine, is_shared: bool) -> Make | None:
    """Return what makes the operator for a layer, or None where the sum itself is faster."""
    if planned is None:
        return None
    shape, plan = planned

    def make(data: Expr, added: list[Expr]) -> Expr:
        return build(
            "nn.contrib_conv2d_winograd_fused",
            data,
            narrow_weight(layer.weight_image()),
            *added,
            tile=list(shape.tile),
            block=shape.block,
            rows=plan.rows,
            count=plan.count,
            lanes=machine.lanes,
            padding=list(shape.padding),
            is_parallel_over_tiles=plan.is_parallel_over_tiles,
            has_bias=layer.bias is not None,
            a_min=layer.low,
            a_max=layer.high,
            activation=layer.activation,
            is_shared=is_shared,
            few=[] if shape.is_of_known_image else list(astuple(costs_of(shape, plan, machine))),
        )

    return make


def is_whole(weight: np.ndarray) -> bool:
    """Say whether a weight holds integers alone: those of quantised models, whose sums are to be exact."""
    first = weight[:1, :1, :1]  # which tells nearly always
    return all(bool(np.array_equal(part, np.rint(part))) for part in (first, weight))
