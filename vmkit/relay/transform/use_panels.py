"""Convolutions by constant kernels of 1x1 become products of one matrix of all positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import const
from ..op.registry import build
from .conv_layers import ConvLayer, rewrite_layers
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["UsePanels"]


@relay_pass(opt_level=2)
def UsePanels(lanes: int = 16, registers: int = 32) -> ModuleTransform:
    """Return the pass that computes convolutions by 1x1 over channels-last data as products, with what follows them.

    Parameters
    ----------
    lanes, registers : int
        How many float32 a vector of the target has, and how many vectors. Output channels that vectors do not divide
        stay with the convolution.
    """
    return per_function(lambda function: rewrite_layers(function, lambda layer: _chosen(layer, lanes, registers)))


def _chosen(layer: ConvLayer, lanes: int, registers: int) -> Callable[[Any, list[Any]], Any] | None:
    """Return what makes the operator for a layer, or None where there is no such product."""
    sizes = layer.sizes
    if (sizes["H"], sizes["W"]) != (1, 1) or any(layer.padding) or sizes["O"] % lanes or lanes < 4:
        return None
    block = lanes * 2 if sizes["O"] % (lanes * 2) == 0 else lanes

    def make(data: Any, added: list[Any]) -> Any:
        weight = layer.weight("HWIO").reshape(sizes["I"], sizes["O"] // block, block).transpose(1, 0, 2)
        return build(
            "nn.contrib_panels_fused",
            data,
            const(np.ascontiguousarray(weight)),
            *added,
            lanes=lanes,
            registers=registers,
            has_bias=layer.bias is not None,
            a_min=layer.low,
            a_max=layer.high,
        )

    return make
