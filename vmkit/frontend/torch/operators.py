"""Operators of PyTorch that TVM's importer does not know, or gets wrong, over Relax's and kernels of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, te, tirx

from .activations import ACTIVATIONS
from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of
from .counting import COUNTING
from .distances import DISTANCES
from .effects import EFFECTS
from .ends import ENDS
from .formulas import OF_SIZES, known_sizes, number_of
from .functions import FUNCTIONS
from .indices import written_at
from .linear_algebra import LINEAR_ALGEBRA
from .loops import LOOPS
from .memory import MEMORY
from .padding import PADDING
from .parts import PARTS
from .products import PRODUCTS
from .random_numbers import RANDOM_NUMBERS
from .relay_operators import OF_RELAY
from .resizing import RESIZING
from .scatters import SCATTERS
from .special_functions import SPECIAL_FUNCTIONS
from .spectra import SPECTRA
from .statistics import STATISTICS

if TYPE_CHECKING:
    from torch import fx

__all__ = ["CONVERTERS", "filled"]


def _reduced(importer: Importing, node: fx.Node, *, reduce: Callable[..., relax.Expr], wide: str = "") -> relax.Expr:
    """Return a reduction along axes, by default along all of them, computed in `wide` if that is given."""
    data, axes, keepdims = [*arguments_of(node), None, False][:3]
    axes = [axes] if isinstance(axes, int) else list(axes or []) or None
    value = cast_to(importer, importer.env[data], wide or dtype_of(node))
    made = importer.block_builder.emit(reduce(value, axis=axes, keepdims=bool(keepdims)))
    return cast_to(importer, made, dtype_of(node))


def _least(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the least elements along an axis, and where each stands first."""
    data, axis, keepdims = arguments_of(node)
    emit, value = importer.block_builder.emit, importer.env[data]
    least = emit(relax.op.min(value, axis=[axis], keepdims=keepdims))
    return emit(relax.Tuple([least, emit(relax.op.argmin(value, axis=axis, keepdims=keepdims))]))


def _joined(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return tensors along an axis; PyTorch lets vectors of no elements stand among them, as caches begin with."""
    given, axis = arguments_of(node)
    shapes = [list(each.meta["val"].shape) for each in given]
    is_empty = [len(shape) == 1 and isinstance(shape[0], int) and shape[0] == 0 for shape in shapes]
    kept = [each for each, empty in zip(given, is_empty, strict=True) if not empty] or given[:1]
    parts = [cast_to(importer, importer.env[each], dtype_of(node)) for each in kept]
    joined = relax.op.concat(parts, axis) if len(parts) > 1 else parts[0]
    return importer.block_builder.emit(joined)


def _where_not_zero(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the positions of elements that are not 0, one a row."""
    value = importer.env[arguments_of(node)[0]]
    count = known_sizes(importer, node)[0]
    found = importer.block_builder.emit(relax.op.nonzero(value))
    sized = importer.block_builder.match_cast(found, relax.TensorType([value.ty.ndim, count], "int64"))
    return importer.block_builder.emit(relax.op.permute_dims(sized, [1, 0]))


def _sampled(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return pixels of images at places of a grid, whose two coordinates Relax has on the second axis."""
    data, grid, method, padding, is_aligned = arguments_of(node)
    methods, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    places = importer.block_builder.emit(relax.op.permute_dims(importer.env[grid], [0, 3, 1, 2]))
    made = relax.op.image.grid_sample(
        importer.env[data], places, methods[method], "NCHW", paddings[padding], bool(is_aligned)
    )
    return importer.block_builder.emit(made)


def _reshaped(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor in the shape that PyTorch says."""
    shape = relax.ShapeExpr(known_sizes(importer, node))
    return importer.block_builder.emit(relax.op.reshape(importer.env[arguments_of(node)[0]], shape))


def _chosen(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return elements of one tensor where a mask is true, and of another elsewhere, in the type of both."""
    mask, first, second = (importer.env[each] for each in arguments_of(node))
    dtype = dtype_of(node)
    made = relax.op.where(mask, cast_to(importer, first, dtype), cast_to(importer, second, dtype))
    return importer.block_builder.emit(made)


def _shifted(importer: Importing, node: fx.Node, *, shift: Callable[..., relax.Expr]) -> relax.Expr:
    """Return integers of which the bits are shifted, by as many places as others say, or a number."""
    data, by = arguments_of(node)
    dtype = dtype_of(node)
    count = relax.const(by, dtype) if isinstance(by, int) else cast_to(importer, importer.env[by], dtype)
    return importer.block_builder.emit(shift(cast_to(importer, importer.env[data], dtype), count))


def _triangle(importer: Importing, node: fx.Node, *, places: Callable[..., Any]) -> relax.Expr:
    """Return the positions of a triangle of a matrix."""
    rows, columns, offset, *_ = arguments_of(node)
    return relax.const(np.stack(places(rows, offset, columns)).astype(dtype_of(node)))


def filled(importer: Importing, own: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return a tensor of one number; TVM's kernel knows none that is not finite."""
    value = arguments_of(node)[1]
    if not isinstance(value, float) or math.isfinite(value):
        return own(node)
    shape = relax.ShapeExpr(known_sizes(importer, node))
    return importer.block_builder.emit(relax.op.broadcast_to(relax.const(value, dtype_of(node)), shape))


def _unwritten(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a tensor of which PyTorch does not say what it holds."""
    return importer.block_builder.emit(relax.op.zeros(relax.ShapeExpr(known_sizes(importer, node)), dtype_of(node)))


def _number(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a number as a tensor of no axes; one that is computed of sizes by its formula."""
    value, dtype = arguments_of(node)[0], dtype_of(node)
    if isinstance(value, bool | int | float):
        return relax.const(value, dtype)
    tensor = importer.env[value]
    if isinstance(tensor, relax.Expr) and isinstance(tensor.ty, relax.TensorType):  # a fraction that is read
        return cast_to(importer, tensor, dtype)
    formula = number_of(importer, node, value.meta["val"])

    def kernel(number: tirx.Expr) -> te.Tensor:
        return te.compute([], lambda: number.astype(dtype), name="number", tag="injective")

    return importer.block_builder.emit_te(kernel, formula, primfunc_name_hint="number")


CONVERTERS: dict[str, Converter] = {
    **ACTIVATIONS,
    **COUNTING,
    **DISTANCES,
    **EFFECTS,
    **ENDS,
    **FUNCTIONS,
    **LINEAR_ALGEBRA,
    **LOOPS,
    **MEMORY,
    **OF_RELAY,
    **OF_SIZES,
    **PADDING,
    **PARTS,
    **PRODUCTS,
    **RANDOM_NUMBERS,
    **RESIZING,
    **SPECIAL_FUNCTIONS,
    **SCATTERS,
    **STATISTICS,
    **SPECTRA,
    "amax.default": partial(_reduced, reduce=relax.op.max),
    "amin.default": partial(_reduced, reduce=relax.op.min),
    "any.default": partial(_reduced, reduce=relax.op.max, wide="int8"),
    **dict.fromkeys(
        ("__lshift__.Scalar", "__lshift__.Tensor", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar"),
        partial(_shifted, shift=relax.op.left_shift),
    ),
    **dict.fromkeys(
        ("__rshift__.Scalar", "__rshift__.Tensor", "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar"),
        partial(_shifted, shift=relax.op.right_shift),
    ),
    "cat.default": _joined,
    **dict.fromkeys(("empty.default", "empty.memory_format", "empty_permuted.default"), _unwritten),
    "grid_sampler_2d.default": _sampled,
    "index_put.default": written_at,
    "index_put_.default": written_at,
    "min.dim": _least,
    "nonzero.default": _where_not_zero,
    "prod.dim_int": partial(_reduced, reduce=relax.op.prod),
    "scalar_tensor.default": _number,
    "tril_indices.default": partial(_triangle, places=np.tril_indices),
    "triu_indices.default": partial(_triangle, places=np.triu_indices),
    "where.self": _chosen,
    **dict.fromkeys(("_unsafe_view.default", "reshape.default", "view.default"), _reshaped),
}
"""The converters that are used in place of TVM's, or where it has none, by the names of PyTorch's operators."""
