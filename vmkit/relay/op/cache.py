"""Caches of keys and values: a tensor with a part of each element of the batch replaced."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Type
from .attrs import Attrs, Bool, Int, attrs_node
from .axis import resolve_axis
from .elementwise import require_tensor
from .kernel import as_index, indexed, inside
from .registry import OpPattern, operator

__all__: list[str] = []


@attrs_node("relay.attrs.CacheUpdateAttrs")
class CacheUpdateAttrs(Attrs):
    """Attributes of contrib.cache_update."""

    axis: Int = -2
    is_circular: Bool = False


@operator(
    "contrib.cache_update", "data", "update", "starts", attrs=CacheUpdateAttrs, level=10, pattern=OpPattern.INJECTIVE
)
class CacheUpdate:
    """The data with ``update[b]`` written from position ``starts[b]`` of an axis on, for each b of the first axis.

    update has the data's shape but for that axis, which is no longer. What lies outside of the data is not written, or
    written from the beginning on if is_circular.
    """

    @staticmethod
    def relation(attrs: CacheUpdateAttrs, data: Type, update: Type, starts: Type) -> Type:
        whole, part, at = (require_tensor(t, n) for t, n in ((data, "data"), (update, "update"), (starts, "starts")))
        axis = resolve_axis(attrs.axis, len(whole.shape))
        if len(whole.shape) != len(part.shape) or whole.dtype != part.dtype:
            raise TypeCheckError(f"data and update must have one rank and data type, not {whole} and {part}")
        if axis == 0:
            raise TypeCheckError("the axis is 0, which is that of the batch")
        if len(at.shape) != 1 or not at.dtype.startswith(("int", "uint")):
            raise TypeCheckError(f"starts must be a vector of integers, not {at}")
        pairs = [(a, b) for i, (a, b) in enumerate(zip(whole.shape, part.shape, strict=True)) if i != axis]
        for a, b in [*pairs, (whole.shape[0], at.shape[0])]:
            if dims.equal(a, b) is False:
                raise TypeCheckError(f"data, update and starts do not fit: {whole}, {part}, {at}")
        return whole

    @staticmethod
    def lower(context: Any, attrs: CacheUpdateAttrs, data: relax.Expr, update: relax.Expr, starts: relax.Expr) -> Any:
        shape, part = context.shape(data), context.shape(update)
        axis = resolve_axis(attrs.axis, len(shape))
        for i, (have, want) in enumerate(zip(part, shape, strict=True)):
            if i != axis:
                context.require_equal(
                    have, want, f"dimension {i} of a cache's update is {{actual}}, but the cache has {{expected}}"
                )
        context.require_equal(
            context.shape(starts)[0], shape[0], "there are {actual} starts of updates for a batch of {expected}"
        )
        context.require(
            dims.as_expr(part[axis]) <= dims.as_expr(shape[axis]), "a cache's update is longer than the cache"
        )

        def element(index: Any, data: te.Tensor, update: te.Tensor, starts: te.Tensor) -> Any:
            extent, count = data.shape[axis], update.shape[axis]
            offset = index[axis] - as_index(starts(index[0]))
            if attrs.is_circular:
                offset = tirx.floormod(offset, extent)
            at = [*index[:axis], inside(offset, count), *index[axis + 1 :]]
            return tirx.if_then_else(tirx.all(offset >= 0, offset < count), update(*at), data(*index))

        return indexed(context, shape, element, data, update, starts)
