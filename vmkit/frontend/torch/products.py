"""Products of PyTorch: of matrices and windows, in the types that PyTorch has their sums in.

TVM's importer has each sum in float32, also those of float64, and adds what has other types to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from tvm import relax

from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of, refused

if TYPE_CHECKING:
    from torch import fx

__all__ = ["PRODUCTS", "summed_in", "widened"]


def summed_in(dtype: str) -> str:
    """Return the type of the sums of products: float32 for floats of 16 bits, which are rounded once, at the end."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def widened(importer: Importing, convert: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return what a converter gives for tensors of float32 in the place of those of 16 bits."""
    tensors = {each: importer.env[each] for each in node.all_input_nodes if hasattr(each.meta.get("val"), "dtype")}
    given = {each: value for each, value in tensors.items() if summed_in(dtype_of(each)) != dtype_of(each)}
    if not given:
        return convert(node)
    importer.env.update({each: cast_to(importer, value, "float32") for each, value in given.items()})
    try:
        made = convert(node)
    finally:
        importer.env.update(given)
    # Of several results, converters give the first alone where the others are not used.
    value = node.meta["val"]
    is_one = isinstance(made, relax.Expr) and isinstance(made.ty, relax.TensorType)
    dtype = dtype_of(value[0] if isinstance(value, tuple | list) else value)
    return cast_to(importer, cast("relax.Expr", made), dtype) if is_one else made


def _product(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a product of matrices."""
    dtype = dtype_of(node)
    first, second = (cast_to(importer, importer.env[each], dtype) for each in arguments_of(node)[:2])
    made = importer.block_builder.emit(relax.op.matmul(first, second, summed_in(dtype)))
    return cast_to(importer, made, dtype)


def _product_and_sum(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a product of matrices and another tensor, each times a factor; what is taken 0 times may be NaN."""
    added, first, second, beta, alpha = arguments_of(node)
    dtype, emit, op = dtype_of(node), importer.block_builder.emit, relax.op
    wide = summed_in(dtype)

    def scaled(value: relax.Expr, factor: float) -> relax.Expr:
        return value if factor == 1 else emit(op.multiply(value, relax.const(factor, wide)))

    made = scaled(emit(op.matmul(importer.env[first], importer.env[second], wide)), alpha)
    if beta != 0:
        made = emit(op.add(scaled(cast_to(importer, importer.env[added], wide), beta), made))
    return cast_to(importer, made, dtype)


def _windows(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a convolution along one to three axes, or a transposed one."""
    data, kernel, bias, strides, padding, dilation, is_transposed, beyond, groups = arguments_of(node)
    x, weight, dtype, emit = importer.env[data], importer.env[kernel], dtype_of(node), importer.block_builder.emit
    rank, wide = x.ty.ndim - 2, summed_in(dtype)
    convolutions = _TRANSPOSED if is_transposed else _CONVOLUTIONS
    if rank not in convolutions:
        raise refused(node, f"goes along {rank} axes of windows, one to three are known")
    axes = "DHW"[3 - rank :]
    ways: dict[str, Any] = {
        name: _each(value, rank) for name, value in (("strides", strides), ("padding", padding), ("dilation", dilation))
    }
    if is_transposed:
        ways |= {"output_padding": _each(beyond, rank), "kernel_layout": f"IO{axes}"}
    made = emit(convolutions[rank](x, weight, groups=groups, data_layout=f"NC{axes}", out_dtype=wide, **ways))
    if bias is not None:
        term = emit(relax.op.reshape(importer.env[bias], (1, -1, *[1] * rank)))
        made = emit(relax.op.add(made, cast_to(importer, term, wide)))
    return cast_to(importer, made, dtype)


def _each(value: list[int], rank: int) -> list[int]:
    """Return a number for each axis: PyTorch takes one for all."""
    return list(value) * rank if len(value) == 1 else list(value)


_CONVOLUTIONS: dict[int, Callable[..., relax.Expr]] = {
    1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d,
}  # fmt: skip
_TRANSPOSED: dict[int, Callable[..., relax.Expr]] = {
    1: relax.op.nn.conv1d_transpose, 2: relax.op.nn.conv2d_transpose, 3: relax.op.nn.conv3d_transpose,
}  # fmt: skip

PRODUCTS: dict[str, Converter] = {
    **dict.fromkeys(("bmm.default", "mm.default", "matmul.default"), _product),
    **dict.fromkeys(("addmm.default", "baddbmm.default"), _product_and_sum),
    "convolution.default": _windows,
}
"""The converters, by the names of PyTorch's operators."""
