"""Tensors of PyTorch as the memory that they are: other strides over their elements, and their bits as other types."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from tvm import DataType, relax, te, tirx

from ...relay.ir import dims
from ...relay.op.kernel import inside
from .arguments import Converter, Importing, arguments_of, dtype_of, refused
from .formulas import formula_of, known_sizes, sizes_of

if TYPE_CHECKING:
    from torch import fx

__all__ = ["MEMORY"]


def _strided(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return elements at steps through a tensor, which is the memory; that none is outside is checked."""
    data, _, strides, offset = arguments_of(node)
    held: Any = data.meta["val"]
    if not held.is_contiguous():
        raise refused(node, f"goes in steps through {data}, whose elements are not one after the other in memory")
    steps = [formula_of(importer, node, each) for each in strides]
    own = _as_size(importer, node, held.storage_offset())
    first = tirx.const(0, "int64") if offset is None else formula_of(importer, node, offset) - own
    tensor, shape = importer.env[data], known_sizes(importer, node)
    count = dims.as_expr(dims.product(list(tensor.ty.shape)))
    last = reduce(lambda total, each: total + (each[0] - 1) * each[1], zip(shape, steps, strict=True), first)
    is_empty = tirx.EQ(dims.as_expr(dims.product(shape)), tirx.const(0, "int64"))
    holds = dims.as_expr(dims.simplify(tirx.any(is_empty, tirx.all(first >= 0, last < count))))
    message = f"{node.name}: the strides lead outside of the tensor"
    importer.checks.emit(importer.block_builder, dims.select(holds, 1, 0), 1, message)
    flat = importer.block_builder.emit(relax.op.reshape(tensor, relax.ShapeExpr([count])))

    def kernel(x: te.Tensor, shape: list[tirx.Expr], steps: list[tirx.Expr], first: tirx.Expr) -> te.Tensor:
        def element(*at: tirx.Expr) -> tirx.Expr:
            place = reduce(lambda total, each: total + each[0] * each[1], zip(at, steps, strict=True), first)
            return x(inside(place, x.shape[0]))

        return te.compute(shape, element, name="as_strided", tag="injective")

    return importer.block_builder.emit_te(kernel, flat, shape, steps, first, primfunc_name_hint="as_strided")


def _as_size(importer: Importing, node: fx.Node, value: Any) -> tirx.Expr:  # noqa: ANN401 - an int or a SymInt
    """Return a number of PyTorch's, an int or a formula, as an expression."""
    (found,) = sizes_of(importer, [value])
    if found is None:
        raise refused(node, f"begins at {value}, which is no formula of the inputs' sizes")
    return found


def _reinterpreted(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the bits of a tensor as elements of another type, more or fewer of them along the last axis."""
    tensor, dtype = importer.env[arguments_of(node)[0]], dtype_of(node)
    given = str(tensor.ty.dtype)
    if "complex" in dtype_of(arguments_of(node)[0]) + dtype:
        raise refused(node, "takes bits of complex numbers; torch.view_as_real gives their parts")
    have, want = _bits(given), _bits(dtype)
    shape = known_sizes(importer, node)

    def element(x: te.Tensor, *at: tirx.Expr) -> tirx.Expr:
        if have == want:
            return _from_bits(_as_bits(x(*at), have), dtype)
        *lead, last = at
        if have > want:
            ratio = have // want
            word = _as_bits(x(*lead, tirx.floordiv(last, ratio)), have)
            part = word >> (tirx.floormod(last, ratio) * want).astype(word.ty.dtype)
            return _from_bits(part.astype(f"uint{want}"), dtype)
        ratio = want // have
        parts = [
            _as_bits(x(*lead, last * ratio + k), have).astype(f"uint{want}") << tirx.const(k * have, f"uint{want}")
            for k in range(ratio)
        ]
        return _from_bits(reduce(lambda a, b: a | b, parts), dtype)

    def kernel(x: te.Tensor, shape: list[tirx.Expr]) -> te.Tensor:
        return te.compute(shape, lambda *at: element(x, *at), name="view", tag="injective")

    return importer.block_builder.emit_te(kernel, tensor, shape, primfunc_name_hint="view")


def _bits(dtype: str) -> int:
    return 8 if dtype == "bool" else int(DataType(dtype).bits)


def _as_bits(value: tirx.Expr, bits: int) -> tirx.Expr:
    """Return a number as the unsigned integer of its bits."""
    wanted = f"uint{bits}"
    if str(value.ty.dtype) == "bfloat16":  # the upper half of a float32: TVM reinterprets no bfloat16
        return (tirx.reinterpret("uint32", value.astype("float32")) >> tirx.const(16, "uint32")).astype(wanted)
    return value.astype(wanted) if str(value.ty.dtype) in ("bool", wanted) else tirx.reinterpret(wanted, value)


def _from_bits(value: tirx.Expr, dtype: str) -> tirx.Expr:
    """Return the number whose bits an unsigned integer has."""
    if dtype == "bool":
        return value != tirx.const(0, value.ty.dtype)
    if dtype == "bfloat16":
        return tirx.reinterpret("float32", value.astype("uint32") << tirx.const(16, "uint32")).astype(dtype)
    return value if str(value.ty.dtype) == dtype else tirx.reinterpret(dtype, value)


MEMORY: dict[str, Converter] = {"as_strided.default": _strided, "view.dtype": _reinterpreted}
"""The converters, by the names of PyTorch's operators."""
