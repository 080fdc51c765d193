"""The largest element of each window together with where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, TupleType, Type
from ..elementwise import require_tensor
from ..kernel import const, grid, loops
from ..registry import OpPattern, operator
from .layout import SPATIAL, require_rank
from .pool_attrs import MaxPoolWithIndicesAttrs
from .pooling import Pool
from .window import require_fits

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@operator("nn.contrib_max_pool_with_indices", "data", attrs=MaxPoolWithIndicesAttrs, level=10, pattern=OpPattern.OPAQUE)
class MaxPoolWithIndices:
    """The largest element of each window over 1 to 3 spatial axes, and its position in the whole tensor.

    Positions count in row-major order, or, with column_major, in each image with the first spatial axis fastest. Of
    equal elements the first counts; padding never does.
    """

    @staticmethod
    def relation(attrs: MaxPoolWithIndicesAttrs, data: Type) -> Type:
        source = require_tensor(data)
        rank = len(attrs.pool_size)
        if rank not in SPATIAL or attrs.layout != "NC" + SPATIAL[rank]:
            raise TypeCheckError(f"layout {attrs.layout!r} does not fit windows over {rank} spatial axes")
        require_rank(source, rank + 2, "data")
        shape = Pool.of(attrs, source.shape).shape(source.shape)
        return TupleType([TensorType(shape, source.dtype), TensorType(shape, "int64")])

    @staticmethod
    def lower(context: LowerContext, attrs: MaxPoolWithIndicesAttrs, data: relax.Expr) -> tuple[relax.Expr, ...]:
        have, rank = context.shape(data), len(attrs.pool_size)
        pool, dtype = Pool.of(attrs, have), str(data.ty.dtype)
        strides = None if pool.is_ceil else pool.strides
        require_fits(context, pool.sizes, pool.padding, pool.windows, strides=strides)
        shape = pool.shape(have)

        def body(outputs: list[tirx.Buffer], x: tirx.Buffer, whole: list[tirx.Expr]) -> None:
            values, indices = outputs
            sizes = [dims.as_expr(d) for d in x.shape[2:]]
            with grid(whole) as index:
                T.buffer_store(values, tirx.min_value(dtype), index)
                T.buffer_store(indices, const(-1), index)
                with grid(pool.kernel) as k:
                    at = [
                        index[2 + a] * pool.strides[a] - pool.padding[a] + k[a] * pool.dilation[a] for a in range(rank)
                    ]
                    inside = tirx.all(*[t for p, s in zip(at, sizes, strict=True) for t in (p >= 0, p < s)])
                    with T.If(inside), T.Then():
                        value = x[tuple([*index[:2], *at])]
                        is_first = indices[tuple(index)] < 0
                        with T.If(tirx.any(is_first, value > values[tuple(index)])), T.Then():
                            T.buffer_store(values, value, index)
                            flat = _position(at, sizes, attrs.column_major)
                            image = index[0] * dims.as_expr(x.shape[1]) + index[1]
                            for size in sizes:
                                image = image * size
                            T.buffer_store(indices, image + flat, index)

        whole = [dims.as_expr(d) for d in shape]
        return loops(context, [(shape, dtype), (shape, "int64")], body, data, whole)


def _position(at: Sequence[tirx.Expr], sizes: Sequence[tirx.Expr], column_major: bool) -> tirx.Expr:
    order = list(range(len(at)))
    if column_major:
        order.reverse()
    flat = const(0)
    for axis in order:
        flat = flat * sizes[axis] + at[axis]
    return flat
