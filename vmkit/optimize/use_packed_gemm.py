"""Convolutions by constant kernels become products of one matrix of all positions."""

from __future__ import annotations

import numpy as np

from ..kernels.packed_gemm_plan import block_of, block_to_share
from ..relay.ir import Expr
from ..relay.op.registry import build
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .conv_layers import ConvLayer, Make, rewrite_layers
from .ops.packed_gemm import SHORTEST

__all__ = ["UsePackedGemm"]

_LONG = 64  # elements of a window


@relay_pass(opt_level=1)
def UsePackedGemm(
    lanes: int = 16, registers: int = 32, passes: int = 1, shares_kernels: bool = False
) -> ModuleTransform:
    """Return the pass that computes convolutions over channels-last data as products, with what follows them.

    By more than 1x1 these are ones of long windows, for which a padded copy is made. Those of few channels, where the
    copy is most of the work, stay as they are.

    Parameters
    ----------
    lanes, registers : int
        How many float32 a vector of the target has, and how many vectors. Output channels that are no multiple of
        four, or of which a vector would be mostly empty, stay with the convolution.
    passes : int
        How many times a unit of the target works for each vector.
    shares_kernels : bool
        Whether convolutions that differ in sizes alone call one kernel, which is compiled once and is slower than
        kernels that know their sizes.
    """

    def chosen(layer: ConvLayer) -> Make | None:
        return _chosen(layer, lanes, registers, passes, shares_kernels)

    return per_function(lambda function: rewrite_layers(function, chosen))


def _chosen(layer: ConvLayer, lanes: int, registers: int, passes: int, shares_kernels: bool) -> Make | None:
    """Return what makes the operator for a layer, or None where there is no such product."""
    sizes, units = layer.sizes, layer.sizes["O"]
    if units % SHORTEST or 2 * units < lanes or lanes < SHORTEST or 0 in layer.conv.checked_type.shape:
        return None
    is_plain = (sizes["H"], sizes["W"]) == (1, 1) and not any(layer.padding) and layer.is_everywhere
    if not is_plain and not _is_worth_windows(layer, lanes):
        return None
    # A last block that is not whole would be code of its own in each kernel, and a kernel of its own for each rest.
    block = (block_to_share if shares_kernels else block_of)(units, lanes)
    overlaps = shares_kernels and units >= block
    if shares_kernels and layer.bias is None:
        layer.bias = np.zeros(units, "float32")  # as those that share the kernel have one
    inner = sizes["H"] * sizes["W"] * sizes["I"]
    window = {"kernel_size": [sizes["H"], sizes["W"]], "strides": layer.strides, "dilation": layer.dilation}

    def make(data: Expr, added: list[Expr]) -> Expr:
        if any(layer.padding):
            top, left, bottom, right = layer.padding
            if max(layer.dilation) > 1:  # Otherwise hardly any part of a window is of padding for all of a tile.
                window["padding"] = list(layer.padding)
            data = build("nn.pad", data, ((0, 0), (top, bottom), (left, right), (0, 0)))
        return build(
            "nn.contrib_packed_gemm",
            data,
            _packed(layer, inner, block, overlaps),
            *added,
            lanes=lanes,
            registers=registers,
            passes=passes,
            has_bias=layer.bias is not None,
            a_min=layer.low,
            a_max=layer.high,
            units=units,
            is_shared=shares_kernels,
            overlaps=overlaps,
            **({} if is_plain else window),
        )

    return make


def _packed(layer: ConvLayer, inner: int, block: int, overlaps: bool) -> Expr:
    """Return a weight as (blocks, elements of a row, output channels of a block), the last block of which is whole.

    It is filled up, or begins with channels that the one before has, too.
    """
    units = layer.sizes["O"]
    left = -units % block
    if left == 0:
        # Folded in parts, it does not lie beside the weight that it is made of.
        return build("layout_transform", build("reshape", layer.weight_image(), (inner, units)), "IO", f"OI{block}o")
    rows = layer.weight("HWIO").reshape(inner, units)
    if overlaps:
        begin = units - units % block
        rows = np.concatenate([rows[:, :begin], rows[:, units - block :]], axis=1)
    else:
        rows = np.pad(rows, ((0, 0), (0, left)))
    weight = rows.reshape(inner, -1, block).transpose(1, 0, 2)
    return layer.shared.const(np.ascontiguousarray(weight))


def _is_worth_windows(layer: ConvLayer, lanes: int) -> bool:
    """Say whether windows are long enough to find where each of them begins."""
    sizes = layer.sizes
    return sizes["O"] > lanes and sizes["H"] * sizes["W"] * sizes["I"] >= _LONG
