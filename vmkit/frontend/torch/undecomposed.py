"""Operators that PyTorch would write by simpler ones, in programs that it has not written so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax

from .activations import safe_softmax
from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of
from .formulas import known_sizes
from .products import summed_in

if TYPE_CHECKING:
    from torch import fx

__all__ = ["UNDECOMPOSED"]


def _linear(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return rows times a weight that is transposed, and a bias."""
    data, weight, bias = (None if each is None else importer.env[each] for each in arguments_of(node))
    dtype, emit, op = dtype_of(node), importer.block_builder.emit, relax.op
    wide = summed_in(dtype)
    made = emit(op.matmul(data, emit(op.permute_dims(weight, [1, 0])), wide))
    if bias is not None:
        made = emit(op.add(made, cast_to(importer, bias, wide)))
    return cast_to(importer, made, dtype)


def _attention(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return attention of float32 over heads; places that see none by a mask are 0."""
    *given, masked, _, is_causal, scale, _ = arguments_of(node)
    query, key, value = (importer.env[each] for each in given)
    mask = None if masked is None else importer.env[masked]
    emit, op = importer.block_builder.emit, relax.op
    size = known_sizes(importer, given[0])[-1]
    factor = 1 / math.sqrt(int(size)) if scale is None else scale
    scores = emit(op.matmul(query, emit(op.permute_dims(key, [0, 1, 3, 2]))))
    scores = emit(op.multiply(scores, relax.const(np.float32(factor))))
    if is_causal:
        rows, columns = (emit(op.arange(each.ty.shape[2], dtype="int64")) for each in (query, key))
        mask = emit(op.less_equal(columns, emit(op.expand_dims(rows, 1))))
    if mask is not None and str(mask.ty.dtype) == "bool":
        mask = emit(op.where(mask, relax.const(np.float32(0)), relax.const(np.float32(-math.inf))))
    if mask is None:
        return emit(op.matmul(emit(op.nn.softmax(scores, -1)), value))
    return emit(op.matmul(safe_softmax(emit, emit(op.add(scores, mask)), -1), value))


UNDECOMPOSED: dict[str, Converter] = {
    "linear.default": _linear,
    "scaled_dot_product_attention.default": _attention,
}
"""The converters, by the names of PyTorch's operators."""
