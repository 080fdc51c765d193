"""Constant weights are laid out for the matrix unit, in bfloat16 parts, where a product is large enough for it."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import tvm

from ..kernels.tiled_weight import TILE, TiledWeight
from ..relay.ir import Call, Constant, Op
from ..relay.op.registry import entry
from ..relay.transform.known_type import rewrite_typed
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .ops.tiled import TiledProductAttrs, tiled_weight

__all__ = ["PackTiles"]

_LAYOUTS = {("nn.conv1d", "NWC"): "OWI", ("nn.conv2d", "NHWC"): "OHWI"}
# What takes how long on one core of the first processors with the unit; only the proportions matter.
_NS_OF_CUT = 0.08  # to cut one number of the data in parts
_NS_OF_PRODUCT = 1 / 200  # of two numbers on the unit, all their parts' products
_NS_OF_VECTORS = 1 / 85  # of two numbers in vectors
_GAIN = 0.85  # how much of the time of vectors the unit may need to be chosen
_PRODUCTS = 1 << 20  # for which the unit is worth the splitting of data
_GUESS = 16  # for a number of positions that is not known


@relay_pass(opt_level=2)
def PackTiles() -> ModuleTransform:
    """Return the pass that gives convolutions over channels-last data, and dense layers, to the matrix unit.

    Their weights must be constants of float32. Results keep an error bound that
    :mod:`vmkit.kernels.tiled_weight` states; to compute with float32 alone, put the pass's name among the
    ``disabled_pass`` of a ``PassContext``.
    """
    return per_function(lambda function: rewrite_typed(function, _packed))


def _packed(node: Any) -> Any:
    if not (isinstance(node, Call) and isinstance(node.op, Op) and len(node.args) == 2):
        return node
    data, weight = node.args
    if not isinstance(weight, Constant) or weight.checked_type.dtype != "float32":
        return node
    if node.checked_type.dtype != "float32" or data.checked_type.dtype != "float32":
        return node
    if node.op.name == "nn.dense":
        rows = node.checked_type.shape[:-1]
        # The weight's parts are half as large again as the weight, and few rows only wait for it. A number of rows
        # that is known at run time only may be few; where it is not, the kernel cuts the weight itself.
        if not all(isinstance(size, int) for size in rows) or prod(rows) < 2 * TILE:
            return node
        return _product(node, weight.data.numpy()[:, None, :], {})
    layout = _LAYOUTS.get((node.op.name, getattr(node.attrs, "data_layout", "")))
    if layout is None or node.attrs.groups != 1 or node.attrs.out_layout not in ("", node.attrs.data_layout):
        return node
    old = node.attrs.kernel_layout
    if sorted(old) != sorted(layout):
        return node
    ordered = np.ascontiguousarray(weight.data.numpy().transpose([old.index(letter) for letter in layout]))
    window = {name: [int(v) for v in getattr(node.attrs, name)] for name in ("strides", "dilation", "padding")}
    return _product(node, ordered, {"kernel_size": list(ordered.shape[1:-1]), **window})


def _product(node: Call, weight: np.ndarray[Any, Any], window: dict[str, list[int]]) -> Any:
    """Return the call with a weight (units, window, channels) packed, or as it is where the unit is of no use."""
    units, channels = weight.shape[0], weight.shape[-1]
    attrs = {"channels": channels, "units": units, **window}
    tiled = tiled_weight(TiledProductAttrs(**attrs))
    if not _is_faster(tiled) or _products(node, weight) < _PRODUCTS:
        return node
    return entry("nn.contrib_tiled_product").call(
        node.args[0], Constant(tvm.runtime.tensor(tiled.pack(weight))), **attrs
    )


def _is_faster(tiled: TiledWeight) -> bool:
    """Say whether the unit computes an output position sooner than vectors do."""
    strides = 1 if tiled.kernel == (1, 1) else prod(tiled.strides)
    cut = tiled.channels * strides * _NS_OF_CUT
    vectors = prod(tiled.kernel) * tiled.channels * tiled.units * _NS_OF_VECTORS
    return cut + tiled.products * _NS_OF_PRODUCT < vectors * _GAIN


def _products(node: Call, weight: np.ndarray[Any, Any]) -> int:
    """Return how many products the sums have; of sizes that are not known, the first of several is taken for one."""
    sizes = node.checked_type.shape[:-1]
    guesses = [1, *[_GUESS] * (len(sizes) - 1)] if len(sizes) > 1 else [_GUESS]
    known = [size if isinstance(size, int) else guess for size, guess in zip(sizes, guesses, strict=False)]
    return prod(known) * weight.size
