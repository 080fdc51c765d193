"""Convolutions by constant kernels become products of one matrix of all positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels.packed_gemm_plan import PackedGemmShape, PackedGemmWindow, block_of, block_to_share, shared_plan
from ..relay.ir import Expr, Function
from ..relay.op.registry import build
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .conv_layers import ConvLayer, Make, rewrite_layers
from .ops.packed_gemm import SHORTEST

__all__ = ["UsePackedGemm"]

_LONG = 64  # elements of a window


@relay_pass(opt_level=1)
def UsePackedGemm(lanes: int = 16, registers: int = 32, shares_kernels: bool = False) -> ModuleTransform:
    """Return the pass that computes convolutions over channels-last data as products, with what follows them.

    By more than 1x1 these are ones of long windows, for which a padded copy is made. Those of few channels, where the
    copy is most of the work, stay as they are.

    Parameters
    ----------
    lanes, registers : int
        How many float32 a vector of the target has, and how many vectors. Output channels that are no multiple of
        four, or of which a vector would be mostly empty, stay with the convolution.
    shares_kernels : bool
        Whether convolutions that differ in sizes alone call one kernel, which is compiled once and is slower than
        kernels that know their sizes.
    """

    def change(function: Function) -> Function:
        sharing: list[ConvLayer] | None = [] if shares_kernels else None
        return rewrite_layers(function, lambda layer: _chosen(layer, lanes, registers, sharing), shares_kernels)

    return per_function(change)


def _chosen(layer: ConvLayer, lanes: int, registers: int, sharing: list[ConvLayer] | None) -> Make | None:
    """Return what makes the operator for a layer, or None where there is no such product.

    Of layers that may share kernels, `sharing`, this one becomes one; None if kernels are not shared.
    """
    sizes, units = layer.sizes, layer.sizes["O"]
    if units % SHORTEST or 2 * units < lanes or lanes < SHORTEST or 0 in layer.conv.checked_type.shape:
        return None
    is_plain = (sizes["H"], sizes["W"]) == (1, 1) and not any(layer.padding) and layer.is_everywhere
    if layer.groups > 1 and not (is_plain and units >= layer.groups * lanes):
        return None
    if not is_plain and not _is_worth_windows(layer, lanes):
        return None
    if sharing is not None:
        sharing.append(layer)
        if layer.bias is None:
            layer.bias = np.zeros(units, "float32")  # as those that share the kernel have one
    inner = sizes["H"] * sizes["W"] * sizes["I"]
    window = {"kernel_size": [sizes["H"], sizes["W"]], "strides": layer.strides, "dilation": layer.dilation}

    def make(data: Expr, added: list[Expr]) -> Expr:
        # A kernel for one layer is shorter if it knows its sizes.
        kinds = [_kind(each, lanes, registers) for each in sharing or ()]
        is_shared = layer.groups > 1 or kinds.count(_kind(layer, lanes, registers)) > 1
        # A last block that is not whole would be code of its own in each kernel, and a kernel of its own for each rest.
        block = _block(layer, lanes) if is_shared else block_of(units, lanes)
        overlaps = is_shared and units >= block
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
            has_bias=layer.bias is not None,
            a_min=layer.low,
            a_max=layer.high,
            units=units,
            is_shared=is_shared,
            overlaps=overlaps,
            groups=layer.groups,
            **({} if is_plain else window),
        )

    return make


def _block(layer: ConvLayer, lanes: int) -> int:
    return block_to_share(layer.sizes["O"] // layer.groups, lanes)


def _kind(layer: ConvLayer, lanes: int, registers: int) -> tuple[Any, ...]:
    """Return what is equal in layers that share a kernel."""
    sizes, block = layer.sizes, _block(layer, lanes)
    size, strides, dilation = (sizes["H"], sizes["W"]), _pair(*layer.strides), _pair(*layer.dilation)
    lead = tuple(d if isinstance(d, int) else None for d in layer.image(layer.conv)[:-1])
    is_window = size != (1, 1) or any(layer.padding) or not layer.is_everywhere
    window = PackedGemmWindow(None, None, sizes["I"], size, strides, dilation) if is_window else None
    inner, pitch = math.prod(size) * sizes["I"], layer.groups * sizes["I"] if layer.groups > 1 else None
    shape = PackedGemmShape(lead, inner, sizes["O"], block, lanes, window=window, pitch=pitch)
    plan = shared_plan(shape, registers)
    return size, strides, dilation, plan, layer.groups > 1, block, layer.has_residual, layer.low, layer.high


def _pair(down: int, across: int) -> tuple[int, int]:
    return down, across


def _packed(layer: ConvLayer, inner: int, block: int, overlaps: bool) -> Expr:
    """Return a weight as (blocks, elements of a row, output channels of a block), the last block of which is whole.

    It is filled up, or begins with channels that the one before has, too; so is that of each group.
    """
    units = layer.sizes["O"] // layer.groups
    left = -units % block
    if left == 0 and layer.groups == 1:
        # Folded in parts, it does not lie beside the weight that it is made of.
        return build("layout_transform", build("reshape", layer.weight_image(), (inner, units)), "IO", f"OI{block}o")
    rows = layer.weight("HWIO").reshape(inner, layer.groups, units)
    if overlaps:
        begin = units - units % block
        rows = np.concatenate([rows[..., :begin], rows[..., units - block :] if left else rows[..., :0]], axis=2)
    else:
        rows = np.pad(rows, ((0, 0), (0, 0), (0, left)))
    weight = rows.reshape(inner, -1, block).transpose(1, 0, 2)
    return layer.shared.const(np.ascontiguousarray(weight))


def _is_worth_windows(layer: ConvLayer, lanes: int) -> bool:
    """Say whether windows are long enough to find where each of them begins."""
    sizes = layer.sizes
    return sizes["O"] > lanes and sizes["H"] * sizes["W"] * sizes["I"] >= _LONG
