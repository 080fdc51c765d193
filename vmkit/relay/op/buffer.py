"""Buffers: tensors that a loop fills part by part, each part in its place.

The results of a loop's iterations are stacked without a copy for each. A buffer belongs to one loop alone: what was
passed to one of these operators must not be used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Bool, Dims, DType, Int, Str, attrs_node
from .create import fill, read_shape, shape_vector
from .elementwise import require_tensor
from .kernel import as_index, const, grid, loops, statement_of, written
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["write_in_place"]

_LEAST_ROWS = 16


def write_in_place(
    context: LowerContext, target: relax.Expr, body: Callable[..., None], operands: Sequence[relax.Expr], name: str
) -> relax.Expr:
    """Return a tensor after loops have written into it, which is the tensor itself.

    Parameters
    ----------
    context : LowerContext
        Where the kernel goes.
    target : relax.Expr
        The tensor to write to.
    body : callable
        ``body(target, *operands)`` writes the loops with TVM's IR builder; all are buffers.
    operands : sequence of relax.Expr
        The tensors to read.
    """

    def placeholder(value: relax.Expr) -> te.Tensor:
        # Every dimension is a symbol of the kernel's own: how they depend on each other is nothing to it.
        shape = [d if isinstance(d, int) else tirx.Var("n", "int64") for d in context.shape(value)]
        return te.placeholder([dims.as_expr(d) for d in shape], str(value.ty.dtype))

    inputs, like = [placeholder(v) for v in operands], placeholder(target)
    made = written(
        [like.shape], inputs, lambda ins, outs: statement_of(lambda: body(outs[0], *ins)), [like.dtype], name
    )
    kernel = te.create_prim_func([*inputs, made]).without_attr("global_symbol")
    kernel = kernel.with_attr({"op_pattern": int(OpPattern.OPAQUE)})
    gvar = context.builder.add_func(kernel, name)
    call = relax.op.call_tir_inplace(gvar, relax.Tuple([*operands, target]), [len(inputs)], target.ty)
    return context.emit(call)


@attrs_node("relay.attrs.BufferCreateAttrs")
class BufferCreateAttrs(Attrs):
    """Attributes of buffer.create: what is known of the shape, and the data type."""

    shape: Dims
    dtype: DType


# Never a constant, and never one for two: each buffer is written to.
@operator("buffer.create", "*sizes", attrs=BufferCreateAttrs, level=10, pure=False)
class BufferCreate:
    """A new buffer of zeros. Sizes that the attribute leaves open are read from the one input, the whole shape."""

    @staticmethod
    def relation(attrs: BufferCreateAttrs, *shape: Type) -> Type:
        unknown = any(dims.is_any(d) for d in attrs.shape)
        if len(shape) != int(unknown) or any(shape_vector(s) != len(attrs.shape) for s in shape):
            raise TypeCheckError("a shape of as many sizes is needed, and only where the attribute leaves one open")
        return TensorType(list(attrs.shape), attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: BufferCreateAttrs, *shape: relax.Expr) -> relax.Expr:
        sizes = context.dims(list(attrs.shape))
        if shape:
            read = read_shape(context, shape[0])
            sizes = [r if dims.is_any(d) else d for d, r in zip(sizes, read, strict=True)]
        return fill(context, sizes, 0, attrs.dtype)


@attrs_node("relay.attrs.BufferWriteAttrs")
class BufferWriteAttrs(Attrs):
    """Attributes of buffer.write: where a part goes.

    ``axis`` is the axis of the buffer along which parts follow each other. With ``new_axis`` a part lacks this axis,
    as it has only one place on it. ``message`` says what is wrong with a part that does not fit.
    """

    axis: Int = 0
    new_axis: Bool = True
    message: Str = "the part does not fit into the buffer"


@operator("buffer.write", "buffer", "part", "index", attrs=BufferWriteAttrs, level=10, pure=False)
class BufferWrite:
    """The buffer, which has got a part at an index. A part that lies outside is not written."""

    @staticmethod
    def relation(attrs: BufferWriteAttrs, buffer: Type, part: Type, index: Type) -> Type:
        whole, piece, at = require_tensor(buffer), require_tensor(part), require_tensor(index)
        if at.dtype != "int64" or len(at.shape) != 0:
            raise TypeCheckError(f"the index must be an int64 scalar, not {at}")
        if whole.dtype != piece.dtype or len(whole.shape) != len(piece.shape) + attrs.new_axis:
            raise TypeCheckError(f"{piece} is no part of {whole}")
        if not 0 <= attrs.axis < len(whole.shape):
            raise TypeCheckError(f"axis {attrs.axis} of {whole}")
        return whole

    @staticmethod
    def lower(
        context: LowerContext, attrs: BufferWriteAttrs, buffer: relax.Expr, part: relax.Expr, index: relax.Expr
    ) -> relax.Expr:
        axis = int(attrs.axis)
        whole, piece = context.shape(buffer), context.shape(part)
        placed = [*piece[:axis], 1, *piece[axis:]] if attrs.new_axis else piece
        for position, (have, wanted) in enumerate(zip(placed, whole, strict=True)):
            if position != axis:
                context.require_equal(have, wanted, attrs.message)

        def body(target: tirx.Buffer, part: tirx.Buffer, index: tirx.Buffer) -> None:
            shape = list(part.shape)
            extent = const(1) if attrs.new_axis else shape[axis]
            start = index[()] if len(index.shape) == 0 else index[0]
            with T.If(tirx.all(start >= 0, start + extent <= target.shape[axis])), T.Then(), grid(shape) as i:
                place = [*i[:axis], start, *i[axis:]] if attrs.new_axis else [*i]
                if not attrs.new_axis:
                    place[axis] = start + i[axis]
                T.buffer_store(target, part[tuple(i)], place)

        return write_in_place(context, buffer, body, [part, index], "buffer_write")


@operator("buffer.grow", "buffer", "part", level=10, pure=False)
class BufferGrow:
    """A buffer of twice as many rows, the rows there are copied; `part` is a row to come, which gives the shape."""

    @staticmethod
    def relation(attrs: None, buffer: Type, part: Type) -> Type:
        whole, piece = require_tensor(buffer), require_tensor(part)
        if whole.dtype != piece.dtype or len(whole.shape) != len(piece.shape) + 1:
            raise TypeCheckError(f"{piece} is no row of {whole}")
        return TensorType([AnyDim(), *piece.shape], whole.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, buffer: relax.Expr, part: relax.Expr) -> relax.Expr:
        rows = context.shape(buffer)[0]
        shape = [dims.select(dims.as_expr(rows) == 0, _LEAST_ROWS, dims.mul(rows, 2)), *context.shape(part)]
        return _with_rows(context, buffer, shape)


@operator("buffer.rows", "buffer", "count", level=10, pure=False)
class BufferRows:
    """The first rows of a buffer, as a tensor."""

    @staticmethod
    def relation(attrs: None, buffer: Type, count: Type) -> Type:
        whole = require_tensor(buffer)
        if require_tensor(count).dtype != "int64":
            raise TypeCheckError(f"the count must be an int64 scalar, not {count}")
        return TensorType([AnyDim(), *list(whole.shape)[1:]], whole.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, buffer: relax.Expr, count: relax.Expr) -> relax.Expr:
        vector = context.te(lambda n: te.compute((1,), lambda i: n(), name="count"), count)
        (rows,) = context.read_dims(vector)
        return _with_rows(context, buffer, [rows, *context.shape(buffer)[1:]])


def _with_rows(context: LowerContext, buffer: relax.Expr, shape: list[Dim]) -> relax.Expr:
    """Return a new tensor of a shape that begins with the rows of a buffer, as many as both have."""

    def body(outputs: list[tirx.Buffer], buffer: tirx.Buffer) -> None:
        (target,) = outputs
        rows = tirx.min(target.shape[0], buffer.shape[0])
        with T.If(rows > 0), T.Then(), grid([rows, *list(buffer.shape)[1:]]) as i:
            inner = tirx.all(*[a < e for a, e in zip(i[1:], list(target.shape)[1:], strict=True)], tirx.const(True))
            with T.If(inner), T.Then():
                T.buffer_store(target, buffer[tuple(i)], list(i))

    return loops(context, [(shape, str(buffer.ty.dtype))], body, buffer, name="buffer_rows")


@operator("buffer.is_full", "buffer", "index", level=10)
class BufferIsFull:
    """Whether a buffer has no row of an index, a boolean scalar."""

    @staticmethod
    def relation(attrs: None, buffer: Type, index: Type) -> Type:
        require_tensor(buffer)
        if require_tensor(index).dtype != "int64":
            raise TypeCheckError(f"the index must be an int64 scalar, not {index}")
        return TensorType([], "bool")

    @staticmethod
    def lower(context: LowerContext, attrs: None, buffer: relax.Expr, index: relax.Expr) -> relax.Expr:
        rows = context.shape(buffer)[0]
        return context.te(
            lambda index, rows: te.compute((), lambda: as_index(index()) >= rows[0], name="is_full"),
            index,
            [dims.as_expr(rows)],
        )
