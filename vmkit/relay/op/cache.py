"""A cache of a sequence, into which what is new is written."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Type
from .attrs import Attrs, Bool, Int, attrs_node
from .axis import resolve_axis
from .elementwise import require_tensor
from .index import require_integers
from .kernel import as_index, const, grid, loops
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []

_SHARED = 1 << 14  # elements from which on batches are shared among cores


@attrs_node("relay.attrs.ContribTensorScatterAttrs")
class TensorScatterAttrs(Attrs):
    """Attributes of contrib.tensor_scatter."""

    axis: Int = -2
    circular: Bool = False


@operator(
    "contrib.tensor_scatter", "cache", "update", "positions",
    attrs=TensorScatterAttrs, level=10, pattern=OpPattern.OPAQUE,
)  # fmt: skip
class TensorScatter:
    """The cache with, for each batch, the update written along axis from the batch's position on.

    A position outside writes nothing; with circular it goes on at the front.
    """

    @staticmethod
    def relation(attrs: TensorScatterAttrs, cache: Type, update: Type, positions: Type) -> Type:
        old, new, where = require_tensor(cache), require_tensor(update), require_integers(positions, "positions")
        rank = len(old.shape)
        axis = resolve_axis(attrs.axis, rank)
        if axis == 0:
            raise TypeCheckError("axis 0 is that of the batch")
        if len(new.shape) != rank or new.dtype != old.dtype:
            raise TypeCheckError(f"the update {new} must be of the rank and the data type of the cache {old}")
        for k, (a, b) in enumerate(zip(new.shape, old.shape, strict=True)):
            if k != axis and dims.equal(a, b) is False:
                raise TypeCheckError(f"dimension {k} is {a} in the update and {b} in the cache")
        if dims.at_least(old.shape[axis], new.shape[axis]) is False:
            raise TypeCheckError(f"the update has {new.shape[axis]} positions, the cache {old.shape[axis]}")
        if len(where.shape) != 1 or dims.equal(where.shape[0], old.shape[0]) is False:
            raise TypeCheckError(f"positions must be a vector with one element for each batch, not {where}")
        return old

    @staticmethod
    def lower(
        context: LowerContext, attrs: TensorScatterAttrs, cache: relax.Expr, update: relax.Expr, positions: relax.Expr
    ) -> relax.Expr:
        old, new = context.shape(cache), context.shape(update)
        axis, name = resolve_axis(attrs.axis, len(old)), context.operator
        for k, (a, b) in enumerate(zip(new, old, strict=True)):
            if k != axis:
                context.require_equal(
                    a, b, f"{name}: dimension {k} is {{actual}} in the update and {{expected}} in the cache"
                )
        message = f"{name}: the update has {{expected}} positions, more than the cache"
        context.require_equal(dims.minimum(new[axis], old[axis]), new[axis], message)
        context.require_equal(
            context.shape(positions)[0], old[0], f"{name}: there are {{actual}} positions for {{expected}} batches"
        )

        is_circular = bool(attrs.circular)

        def write(outputs: list[tirx.Buffer], *given: tirx.Buffer) -> None:
            _write(axis, is_circular, outputs[0], *given)

        return loops(context, [(old, str(cache.ty.dtype))], write, cache, update, positions, name="tensor_scatter")


def _write(
    axis: int, is_circular: bool, out: tirx.Buffer, cache: tirx.Buffer, update: tirx.Buffer, positions: tirx.Buffer
) -> None:
    """Copy the cache of each batch as a whole, and then what is new in it, line by line."""
    batches, steps, new = out.shape[0], out.shape[axis], update.shape[axis]
    is_small = all(isinstance(n, tirx.IntImm) for n in out.shape) and prod(map(int, out.shape)) < _SHARED
    with (T.serial if is_small else T.parallel)(0, batches) as batch:
        with grid(out.shape[1:]) as rest:
            own = (batch, *rest)
            T.buffer_store(out, cache[own], list(own))
        first = as_index(positions[batch])
        with grid([*out.shape[1:axis], new]) as above:
            *outer, step = above
            place = first + step
            if is_circular:
                place = tirx.floormod(place, tirx.max(steps, const(1)))
            with T.If(tirx.all(place >= 0, place < steps)), T.Then(), grid(out.shape[axis + 1 :]) as line:
                source = (batch, *outer, step, *line)
                T.buffer_store(out, update[source], [batch, *outer, place, *line])
