"""Two products of batches of matrices with a softmax between them become one operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._dataclasses import dataclass
from ..relay.ir import Call, Dim, Expr, Function, RelayExpr, const, dims, is_call
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed, type_of, use_counts
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .constants import number_of

__all__ = ["FuseAttention"]


@relay_pass(opt_level=1)
def FuseAttention(lanes: int = 16) -> ModuleTransform:
    """Return the pass that makes ``softmax(q @ k * scale + mask) @ v`` one operator, whose scores stay in the cache.

    Weights of rows without a column, which are NaN, may be made zeros before the second product, and rows of the result
    that the mask leaves out, after it.

    Parameters
    ----------
    lanes : int
        How many float32 a vector of the target has.
    """

    def fused(function: Function) -> Function:
        uses = use_counts(function)
        return rewrite_typed(function, lambda node: _fused(node, uses, lanes))

    return per_function(fused)


@dataclass
class _Scores:
    """What lies between the two products, read from the softmax upwards."""

    product: Call
    scale: float
    mask: Any | None


def _fused(node: RelayExpr, uses: dict[RelayExpr, int], lanes: int) -> RelayExpr:
    if is_call(node, "where"):
        return _with_masked_rows(node)
    if not is_call(node, "nn.batch_matmul") or node.checked_type.dtype != "float32" or node.attrs.transpose_a:
        return node
    weights = node.args[0]
    if is_call(weights, "reshape"):
        weights = weights.args[0]
    weights, nothing = _without_zeros(weights)
    if not is_call(weights, "nn.softmax"):
        return node
    rank = len(weights.checked_type.shape)
    if weights.attrs.axis not in (-1, rank - 1) or rank not in (3, 4):
        return node
    scores = _scores(weights.args[0], rank)
    if scores is None or scores.product.attrs.transpose_a:
        return node
    query, key = scores.product.args
    query, key, scale = _without_factors(query, key, scores.scale)
    key = _untransposed(key) if scores.product.attrs.transpose_b else _transposed(key)
    value = _transposed(node.args[1]) if node.attrs.transpose_b else node.args[1]
    shape = list(weights.checked_type.shape)
    heads = shape[1] if rank == 4 else 1
    mask = const(np.zeros([1] * 4, "float32")) if scores.mask is None else _rank_four(scores.mask, shape)
    sizes = [scores.product.args[0].checked_type.shape[-1], node.checked_type.shape[-1]]
    counts = [
        type_of(query).shape[0],
        scores.product.args[1].checked_type.shape[0],
        node.args[1].checked_type.shape[0],
    ]
    known = all(isinstance(s, int) and s % lanes == 0 and 0 < s <= 256 for s in sizes) and isinstance(heads, int)
    if mask is None or not known or not all(dims.equal(c, counts[0]) for c in counts):
        return node
    return build(
        "nn.contrib_attention", query, key, value, mask, scale=scale, heads=heads, lanes=lanes, nothing=nothing
    )


def _without_zeros(weights: RelayExpr) -> tuple[RelayExpr, str]:
    """Return a softmax of which rows without a weight are made zeros, and which rows; or weights as they are."""
    if not is_call(weights, "where") or number_of(weights.args[1]) != 0:
        return weights, "nan"
    condition, _, softmax = weights.args
    if not is_call(softmax, "nn.softmax"):
        return weights, "nan"
    if is_call(condition, "isnan") and condition.args[0].same_as(softmax):
        return softmax, "zero or nan"
    if is_call(condition, "equal") and is_call(condition.args[0], "max") and number_of(condition.args[1]) == -np.inf:
        most, rank = condition.args[0], len(softmax.checked_type.shape)
        axes = [axis % rank for axis in most.attrs.axis or ()]
        if axes == [rank - 1] and most.attrs.keepdims and most.args[0].same_as(softmax.args[0]):
            return softmax, "zero"
    return weights, "nan"


def _with_masked_rows(node: Call) -> RelayExpr:
    """Return attention whose result is 0 where its mask leaves out all columns of a row; all else as it is."""
    condition, _, value = node.args
    inner = value.args[0] if is_call(value, "reshape") else value
    if number_of(node.args[1]) != 0 or not is_call(inner, "nn.contrib_attention") or inner.attrs.nothing != "nan":
        return node
    if not (is_call(condition, "equal") and is_call(condition.args[0], "max")):
        return node
    most, shape = condition.args[0], list(node.checked_type.shape)
    is_of_mask = (
        most.args[0].same_as(inner.args[3]) and most.attrs.keepdims and list(most.attrs.axis or ()) in ([-1], [3])
    )
    of_rows = [inner.attrs.heads, type_of(inner).shape[1]]
    is_whole = len(shape) == 4 and all(map(dims.equal, shape[1:3], of_rows))
    if not (is_of_mask and is_whole and number_of(condition.args[1]) == -np.inf):
        return node
    attrs = {name: getattr(inner.attrs, name) for name in ("scale", "heads", "lanes")}
    made = build("nn.contrib_attention", *inner.args, **attrs, nothing="zero if masked")
    return build("reshape", made, newshape=shape, allowzero=True)


def _without_factors(query: Expr, key: Expr, scale: float) -> tuple[Expr, Expr, float]:
    """Return the factors of a product without numbers that they are multiplied with, which go into the scale."""
    (query, first), (key, second) = map(_without_factor, (query, key))
    return query, key, scale * first * second


def _without_factor(value: Expr) -> tuple[Expr, float]:
    if is_call(value, "reshape"):
        inner, factor = _without_factor(value.args[0])
        is_same = inner.same_as(value.args[0])
        return (
            value if is_same else build("reshape", inner, newshape=value.checked_type.shape, allowzero=True)
        ), factor
    if is_call(value, "multiply"):
        for number, rest in (reversed(value.args), value.args):
            # A number of more axes than what it is multiplied with would give that more, too.
            if (known := number_of(number)) is not None and _rank(rest) == _rank(value):
                return rest, known
    return value, 1.0


def _scores(node: RelayExpr, rank: int) -> _Scores | None:
    """Return the parts of the scores, or None where they are made in another way."""
    mask = None
    if is_call(node, "add"):
        sides = list(node.args)
        if not _leads_to_product(sides[0]):
            sides.reverse()
        node, mask = sides
        if len(node.checked_type.shape) != rank:
            return None
    scale = 1.0
    while is_call(node, "multiply", "divide"):
        factor = number_of(node.args[1])
        rest = node.args[0]
        if factor is None and node.op.name == "multiply":
            factor, rest = number_of(node.args[0]), node.args[1]
        if factor is None:
            return None
        scale = scale * factor if node.op.name == "multiply" else scale / factor
        node = rest
    if is_call(node, "reshape"):
        node = node.args[0]
    if not is_call(node, "nn.batch_matmul"):
        return None
    return _Scores(node, scale, mask)


def _leads_to_product(node: RelayExpr) -> bool:
    while is_call(node, "multiply", "divide", "reshape"):
        node = node.args[1] if number_of(node.args[0]) is not None else node.args[0]
    return is_call(node, "nn.batch_matmul")


def _rank_four(mask: Expr, scores: list[Dim]) -> Expr | None:
    """Return the mask as (batch, heads, rows, columns), or None where it is not known to broadcast to the scores."""
    have = list(mask.checked_type.shape)
    full = [1] * (len(scores) - len(have)) + have
    if len(have) > len(scores):
        return None
    for size, whole in zip(full, scores, strict=True):
        if not (dims.equal(size, 1) or dims.equal(size, whole)):
            return None
    if len(scores) == 3:
        full.insert(1, 1)
    return mask if len(full) == len(have) else build("reshape", mask, newshape=full, allowzero=True)


def _rank(value: Expr) -> int:
    return len(type_of(value).shape)


def _untransposed(matrices: Expr) -> Expr:
    """Return matrices without two transpositions that undo each other, where they were made by those."""
    is_swapped = is_call(matrices, "transpose") and _transposed(matrices).same_as(matrices.args[0])
    return _transposed(matrices.args[0]) if is_swapped else matrices


def _transposed(matrices: Expr) -> Expr:
    """Return matrices with their last two axes swapped; a transposition that made them goes first."""
    moved = matrices.args[0] if is_call(matrices, "reshape") else matrices
    if not is_call(moved, "transpose") or moved.attrs.axes is None:
        return build("transpose", matrices, axes=[0, 2, 1])
    rank = len(type_of(moved).shape)
    axes = [a % rank for a in moved.attrs.axes]
    count, inner, length = type_of(matrices).shape
    if moved is not matrices:
        # The matrices are the last two axes of what was reshaped, too.
        shape = list(type_of(moved).shape)
        if not (dims.equal(shape[-2], inner) and dims.equal(shape[-1], length)):
            return build("transpose", matrices, axes=[0, 2, 1])
    axes[-2:] = axes[:-3:-1]
    source = moved.args[0]
    swapped = source if axes == list(range(rank)) else build("transpose", source, axes=axes)
    return swapped if moved is matrices else build("reshape", swapped, newshape=[count, length, inner], allowzero=True)
