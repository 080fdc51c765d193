"""Convolution by a sparse weight."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Ints, Str, attrs_node, field
from ..elementwise import require_tensor
from ..kernel import as_index, const, grid
from ..registry import OpPattern, Parameters, operator
from .compressed import block_of, block_value, check_rows, elements_of, require_matrix, row_count
from .layout import ordered, require_rank
from .precision import accumulator
from .sparse import MATRICES, require_same_dtype, summed, with_matrix
from .window_fields import each_axis

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.SparseConv{rank}DAttrs", ranks=(2,))
class SparseConvAttrs(Attrs):
    """Attributes of nn.sparse_conv{rank}d."""

    layout: Str = field("NHWC", doc="Order of the data's axes, NHWC or NCHW.")
    kernel_size: Ints = each_axis(1, "Size of the window, 1 or 3 on both axes.")


@operator(
    "nn.sparse_conv2d",
    "dense_data",
    "sparse_data",
    "sparse_indices",
    "sparse_indptr",
    attrs=SparseConvAttrs.over(2),
    level=1,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters("dense_mat sparse_mat layout kernel_size", renamed=MATRICES),
)
class SparseConv2D:
    """Convolution with stride 1 by a sparse weight (BSR) of one row for each output channel.

    The kernel is 1x1, or 3x3 with the data padded by 1. The columns of the weight go over the input channels; for a 3x3
    kernel over (row, column, channel) in layout NHWC, and over (channel, row, column) in NCHW.
    """

    make = staticmethod(partial(with_matrix, "nn.sparse_conv2d"))

    @staticmethod
    def relation(attrs: SparseConvAttrs, dense: Type, data: Type, indices: Type, indptr: Type) -> Type:
        if attrs.layout not in ("NHWC", "NCHW"):
            raise TypeCheckError(f"layout is {attrs.layout!r}; it is 'NHWC' or 'NCHW'")
        if list(attrs.kernel_size) not in ([1, 1], [3, 3]):
            raise TypeCheckError(f"kernel_size is {list(attrs.kernel_size)}; it is [1, 1] or [3, 3]")
        image = require_tensor(dense, "dense_data")
        require_rank(image, 4, "dense_data")
        blocks = require_matrix(data, indices, indptr, (2, 3))
        require_same_dtype(image, blocks)
        if dims.equal(block_of(blocks.shape)[1], 0):
            raise TypeCheckError("the blocks of the sparse matrix have no columns")
        batch, _, height, width = ordered(image.shape, attrs.layout, "NCHW")
        channels = dims.mul(row_count(indptr.shape), block_of(blocks.shape)[0])
        return TensorType(ordered([batch, channels, height, width], "NCHW", attrs.layout), image.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SparseConvAttrs, dense: relax.Expr, *matrix: relax.Expr) -> relax.Expr:
        batch, channels, rows, columns = ordered(context.shape(dense), attrs.layout, "NCHW")
        tall, wide = block_of(context.shape(matrix[0]))
        blocks = row_count(context.shape(matrix[2]))
        size, sums = attrs.kernel_size[0], accumulator(str(dense.ty.dtype))
        if not isinstance(wide, int):
            context.require(wide >= 1, "nn.sparse_conv2d: the blocks of the sparse matrix have no columns")
        check_rows(context, matrix, dims.floordiv(dims.mul(channels, size * size), wide))

        def place(column: tirx.Expr, channels: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr, tirx.Expr]:
            """Return channel, and row and column in the kernel, of a column of the weight."""
            if size == 1:
                return column, const(0), const(0)
            if attrs.layout == "NCHW":
                tap, channel = tirx.floormod(column, 9), tirx.floordiv(column, 9)
            else:
                tap, channel = tirx.floordiv(column, channels), tirx.floormod(column, channels)
            return channel, tirx.floordiv(tap, 3) - 1, tirx.floormod(tap, 3) - 1

        def body(
            outputs: list[tirx.Buffer],
            dense: tirx.Buffer,
            data: tirx.Buffer,
            indices: tirx.Buffer,
            indptr: tirx.Buffer,
            sizes: list[tirx.Expr],
        ) -> None:
            (out,) = outputs
            batch, channels, rows, columns, blocks, tall, wide = sizes
            with grid([batch, blocks, tall, rows, columns]) as (n, block, j, y, x):
                to = ordered([n, block * tall + j, y, x], "NCHW", attrs.layout)
                T.buffer_store(out, tirx.const(0, sums), to)
                with elements_of(indptr, block) as at, grid([wide]) as (k,):
                    channel, down, right = place(T.Bind(as_index(indices[at]) * wide + k), channels)
                    row, column = y + down, x + right
                    inside = tirx.all(row >= 0, row < rows, column >= 0, column < columns)
                    with T.If(inside), T.Then():
                        pixel = dense[tuple(ordered([n, channel, row, column], "NCHW", attrs.layout))]
                        value = block_value(data, at, j, k)
                        T.buffer_store(out, out[tuple(to)] + pixel * value, to)

        shape = ordered([batch, dims.mul(blocks, tall), rows, columns], "NCHW", attrs.layout)
        return summed(context, shape, body, dense, matrix, batch, channels, rows, columns, blocks, tall, wide)
