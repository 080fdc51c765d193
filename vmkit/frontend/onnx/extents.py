"""Sizes of which some are known only when the program runs, and tensors under shapes of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from ... import relay
from ..._dataclasses import dataclass
from ...relay.ir import Dim, Expr, dims
from .context import Context
from .operators.layout import to_shape
from .run_time_axes import pinned, size_along
from .typing import typed

__all__ = ["Extent", "under"]


@dataclass(frozen=True)
class Extent:
    """A size: as far as it is known, and as the program computes it.

    Attributes
    ----------
    dim : int, symbolic or Any
        What is known of it.
    computed : callable
        Makes the computation, which few sizes need: those that are not known.
    """

    dim: Dim
    computed: Callable[[], Expr]

    @cached_property
    def value(self) -> Expr:
        """The size as an int64 scalar."""
        return self.computed()

    @staticmethod
    def along(ctx: Context, x: Expr, axis: int) -> Extent:
        """Return the size of an axis of a tensor."""
        return Extent(ctx.shape(x)[axis], lambda: size_along(ctx, x, axis))

    @staticmethod
    def of(ctx: Context, value: int) -> Extent:
        """Return a size that is known."""
        return Extent(value, lambda: ctx.constant(value, "int64"))

    def __mul__(self, other: Extent) -> Extent:
        return Extent(dims.mul(self.dim, other.dim), lambda: relay.multiply(self.value, other.value))


def under(ctx: Context, x: Expr, *extents: Extent) -> Expr:
    """Return a tensor under another shape; where it is known but for one dimension, that is what the others leave."""
    shape = [e.dim for e in extents]
    unknown = [i for i, d in enumerate(shape) if dims.is_any(d)]
    if not unknown:
        return to_shape(x, shape)
    if len(unknown) == 1:
        return relay.reshape(x, [-1 if i in unknown else d for i, d in enumerate(shape)], allowzero=False)
    return pinned(ctx, typed(relay.reshape(x, relay.stack([e.value for e in extents], 0), allowzero=True)), shape)
