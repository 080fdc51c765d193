"""Constant weights are laid out for AMX tiles, in bfloat16 parts, where a product is large enough for them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..kernels.packed_product.bfloat16_parts import BFLOAT16_PARTS
from ..kernels.packed_product.shape import TILE
from ..kernels.packed_product.weight import PackedWeight
from ..relay.ir import Call, Constant, Expr, Function, RelayExpr, is_call
from ..relay.transform.known_type import rewrite_typed
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..relay.transform.share_constants import SharedConstants
from ..target.matrix_unit import MATRIX_UNIT
from .constant_products import constant_product

__all__ = ["PackAMXTiles"]

# What takes how long on one core of the first processors with the unit; only the proportions matter.
_GAIN = 0.85  # how much of the time of vectors the unit may need to be chosen
_PRODUCTS = 1 << 20  # for which the unit is worth the splitting of data
_GUESS = 16  # for a number of positions that is not known


@relay_pass(opt_level=1)
def PackAMXTiles() -> ModuleTransform:
    """Return the pass that gives convolutions over channels-last data, and dense layers, to AMX.

    Their weights must be constants of float32. Results keep an error bound that
    :mod:`vmkit.kernels.packed_product.bfloat16_parts` states; to compute with float32 alone, put the pass's name among
    the ``disabled_pass`` of a ``PassContext``.
    """

    def on_function(function: Function) -> Function:
        shared = SharedConstants()
        return rewrite_typed(function, lambda node: _packed(node, shared))

    return per_function(on_function)


def _packed(node: RelayExpr, shared: SharedConstants) -> RelayExpr:
    """Return a call with its weight packed, or a node as it is where the unit is of no use."""
    product = constant_product(node, _weight) if _may_have_rows(node) else None
    if product is None:
        return node
    call, data = product.call, product.call.args[0]
    if call.checked_type.dtype != "float32" or data.checked_type.dtype != "float32":
        return node
    if not _is_faster(product.packed(BFLOAT16_PARTS)) or _products(call, product.weight) < _PRODUCTS:
        return node
    return product.multiplied(BFLOAT16_PARTS, shared, data)


def _may_have_rows(node: RelayExpr) -> bool:
    """Say whether a node is no dense layer, or one of enough rows.

    The weight's parts are half as large again as the weight, and few rows only wait for it. A number of rows that is
    known at run time only may be few; where it is not, the kernel cuts the weight itself.
    """
    if not is_call(node, "nn.dense"):
        return True
    rows = node.checked_type.shape[:-1]
    return all(isinstance(size, int) for size in rows) and prod(rows) >= 2 * TILE


def _weight(value: Expr) -> np.ndarray[Any, Any] | None:
    is_float = isinstance(value, Constant) and value.checked_type.dtype == "float32"
    return value.data.numpy() if is_float else None


def _is_faster(weight: PackedWeight) -> bool:
    """Say whether the unit computes an output position sooner than vectors do."""
    p = weight.product
    strides = 1 if p.kernel == (1, 1) else prod(p.strides)
    cut = p.channels * strides * MATRIX_UNIT.cut
    vectors = prod(p.kernel) * p.channels * p.units * MATRIX_UNIT.in_vectors
    return cut + weight.products * MATRIX_UNIT.product < vectors * _GAIN


def _products(node: Call, weight: np.ndarray[Any, Any]) -> int:
    """Return how many products the sums have; of sizes that are not known, the first of several is taken for one."""
    sizes = node.checked_type.shape[:-1]
    guesses = [1, *[_GUESS] * (len(sizes) - 1)] if len(sizes) > 1 else [_GUESS]
    known = [size if isinstance(size, int) else guess for size, guess in zip(sizes, guesses, strict=False)]
    return prod(known) * weight.size
