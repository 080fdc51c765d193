"""Convolutions by constant kernels become products of one matrix of all positions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from functools import cached_property
from typing import Any

import numpy as np

from ..kernels.packed_gemm_plan import PackedGemmShape, PackedGemmWindow, block_of, block_to_share, shared_plan
from ..relay.ir import Expr, Function, RelayExpr, Tuple, children, is_call, post_order
from ..relay.op.registry import build
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .conv_layers import ConvLayer, Make, layers_of, rewrite_layers
from .ops.packed_gemm import SHORTEST

__all__ = ["UsePackedGemm"]

_LONG = {8: 24}  # by lanes, elements of a window for which it is worth finding where it begins
_LONG_ELSEWHERE = 64
_PER_COPIED = 48  # products of each element that is copied to be padded
_MUCH_PADDING = 128  # elements before a line, or above a column, of a padded copy
_MOST_JOINED = 4  # tensors that a kernel reads rows of
_LEAST_JOINED = 16  # elements of a row of each of them


@relay_pass(opt_level=1)
def UsePackedGemm(
    lanes: int = 16, registers: int = 32, passes: int = 1, shares_kernels: bool = False
) -> ModuleTransform:
    """Return the pass that computes convolutions over channels-last data as products, with what follows them.

    By more than 1x1 these are ones of windows that are not short, for which a padded copy is made. Those where the copy
    is much of the work stay as they are.

    Parameters
    ----------
    lanes, registers : int
        How many float32 a vector of the target has, and how many vectors. Output channels of which a vector would be
        mostly empty stay with the convolution, and so do few that are no multiple of four: of many the last block
        begins with some that the one before has, too.
    passes : int
        How many times a unit of the target works for each vector.
    shares_kernels : bool
        Whether convolutions that differ in sizes alone call one kernel, which is compiled once and is slower than
        kernels that know their sizes.
    """

    def change(function: Function) -> Function:
        sharing = _Sharing(lanes, registers) if shares_kernels else None
        joined = set() if shares_kernels else _joined(function, lanes)
        return rewrite_layers(
            function,
            lambda layer: _chosen(layer, lanes, registers, passes, sharing, layer.conv.args[0] in joined),
            shares_kernels,
        )

    return per_function(change)


class _Sharing:
    """The layers of a function that may share kernels, of which all is known when the first call is made."""

    def __init__(self, lanes: int, registers: int) -> None:
        self._lanes, self._registers = lanes, registers
        self.layers: list[ConvLayer] = []

    def is_shared(self, layer: ConvLayer) -> bool:
        """Say whether another layer's kernel is the same but for sizes."""
        return self._counts[_kind(layer, self._lanes, self._registers)] > 1

    @cached_property
    def _counts(self) -> Counter[Hashable]:
        return Counter(_kind(each, self._lanes, self._registers) for each in self.layers)


def _joined(function: Function, lanes: int) -> set[RelayExpr]:
    """Return the concatenations of channels that products alone read, which may as well read the parts."""
    readers = {layer.conv for layer in layers_of(function) if _is_product(layer, lanes) and _is_plain(layer)}
    found: set[RelayExpr] = {conv.args[0] for conv in readers if _are_long_parts(conv.args[0])}
    for node in post_order(function) if found else ():
        if node not in readers:
            found.difference_update(part for part in children(node) if part in found)
    return found


def _are_long_parts(data: RelayExpr) -> bool:
    """Say whether data are images joined along their channels, of which each has enough, and a known number."""
    if not (is_call(data, "concatenate") and isinstance(data.args[0], Tuple)):
        return False
    rank, parts = len(data.checked_type.shape), data.args[0].fields
    channels = [part.checked_type.shape[-1] for part in parts]
    is_last = rank == 4 and int(data.attrs.axis) in (-1, rank - 1)
    are_long = all(isinstance(n, int) and n >= _LEAST_JOINED for n in channels)
    return is_last and 2 <= len(parts) <= _MOST_JOINED and are_long


def _is_product(layer: ConvLayer, lanes: int) -> bool:
    """Say whether a layer has output channels that vectors are made of."""
    units = layer.sizes["O"]
    is_whole = units % SHORTEST == 0 or _may_overlap(units, lanes)
    return is_whole and 2 * units >= lanes >= SHORTEST and 0 not in layer.conv.checked_type.shape


def _may_overlap(units: int, lanes: int) -> bool:
    """Say whether the last block may begin with channels that the one before has, in no more vectors than there are."""
    block = block_of(units, lanes)
    return units >= block and -(-units // lanes) * lanes % block == 0


def _is_plain(layer: ConvLayer) -> bool:
    """Say whether a layer multiplies each position by itself."""
    return (layer.sizes["H"], layer.sizes["W"]) == (1, 1) and not any(layer.padding) and layer.is_everywhere


def _chosen(
    layer: ConvLayer,
    lanes: int,
    registers: int,
    passes: int,
    sharing: _Sharing | None,
    is_joined: bool,
) -> Make | None:
    """Return what makes the operator for a layer, or None where there is no such product.

    Of layers that may share kernels, `sharing`, this one becomes one; None if kernels are not shared.
    """
    sizes, units = layer.sizes, layer.sizes["O"]
    if not _is_product(layer, lanes):
        return None
    is_plain = _is_plain(layer)
    if layer.groups > 1 and not (is_plain and units >= layer.groups * lanes):
        return None
    if not is_plain and not _is_worth_windows(layer, lanes):
        return None
    if sharing is not None:
        sharing.layers.append(layer)
        if layer.bias is None:
            layer.bias = np.zeros(units, "float32")  # as those that share the kernel have one
    inner = sizes["H"] * sizes["W"] * sizes["I"]
    window = {"kernel_size": [sizes["H"], sizes["W"]], "strides": layer.strides, "dilation": layer.dilation}

    def make(data: Expr, added: list[Expr]) -> Expr:
        # A kernel for one layer is shorter if it knows its sizes.
        is_shared = layer.groups > 1 or (sharing is not None and sharing.is_shared(layer))
        # A last block that is not whole would be code of its own in each kernel, and a kernel of its own for each rest.
        block = _block(layer, lanes) if is_shared else block_of(units, lanes)
        overlaps = units >= block if is_shared else bool(units % SHORTEST)
        if any(layer.padding):
            top, left, bottom, right = layer.padding
            if any(_not_copied(layer)):
                window["padding"] = list(layer.padding)
                top, left, bottom, right = 0, 0, 1, 0
            data = build("nn.pad", data, ((0, 0), (top, bottom), (left, right), (0, 0)))
        data, *more = data.args[0].fields if is_joined else (data,)
        return build(
            "nn.contrib_packed_gemm",
            data,
            _packed(layer, inner, block, overlaps),
            *more,
            *added,
            lanes=lanes,
            registers=registers,
            passes=passes,
            has_bias=layer.bias is not None,
            a_min=layer.low,
            a_max=layer.high,
            activation=layer.activation,
            units=units,
            is_shared=is_shared,
            overlaps=overlaps,
            groups=layer.groups,
            joined=[int(each.checked_type.shape[-1]) for each in (data, *more)] if more else [],
            **({} if is_plain else window),
        )

    return make


def _not_copied(layer: ConvLayer) -> tuple[int, int, int, int]:
    """Return the padding at the top, left, bottom and right that is not in a copy: all or nothing.

    All where it would be much of the copy, beside which it takes no time to find what is in it, and no window is of
    padding alone: so there are data, and a line below them that is not empty.
    """
    sizes, (top, left, bottom, right) = layer.sizes, layer.padding
    reach = [1 + (sizes[axis] - 1) * step for axis, step in zip("HW", layer.dilation, strict=True)]
    is_much = max(layer.dilation) > 1 and sizes["I"] * max(layer.padding) >= _MUCH_PADDING
    return (top, left, bottom, right) if is_much and top + bottom < reach[0] and left + right < reach[1] else (0,) * 4


def _block(layer: ConvLayer, lanes: int) -> int:
    return block_to_share(layer.sizes["O"] // layer.groups, lanes)


def _kind(layer: ConvLayer, lanes: int, registers: int) -> tuple[Any, ...]:
    """Return what is equal in layers that share a kernel."""
    sizes, block = layer.sizes, _block(layer, lanes)
    size, strides, dilation = (sizes["H"], sizes["W"]), _pair(*layer.strides), _pair(*layer.dilation)
    lead = tuple(d if isinstance(d, int) else None for d in layer.image(layer.conv)[:-1])
    around = _not_copied(layer)
    window = None if _is_plain(layer) else PackedGemmWindow(None, None, sizes["I"], size, strides, dilation, around)
    inner, pitch = math.prod(size) * sizes["I"], layer.groups * sizes["I"] if layer.groups > 1 else None
    shape = PackedGemmShape(lead, inner, sizes["O"], block, lanes, window=window, pitch=pitch)
    plan, ending = shared_plan(shape, registers), (layer.low, layer.high, layer.activation)
    return size, strides, dilation, around, plan, layer.groups > 1, block, layer.has_residual, *ending


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
    """Say whether windows are long enough to find where each begins, and products many beside a padded copy."""
    sizes = layer.sizes
    if sizes["O"] <= lanes or sizes["H"] * sizes["W"] * sizes["I"] < _LONG.get(lanes, _LONG_ELSEWHERE):
        return False
    of_element = sizes["H"] * sizes["W"] * sizes["O"] // math.prod(int(step) for step in layer.strides)
    return not any(layer.padding) or of_element >= _PER_COPIED
