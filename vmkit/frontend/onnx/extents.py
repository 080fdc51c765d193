"""Sizes of which some are known only when the program runs, and tensors under shapes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import relay
from ...relay.ir import Dim, Expr, dims
from .context import Context
from .operators.layout import to_shape
from .run_time_axes import pinned, size_along
from .typing import typed

__all__ = ["Extent", "under"]


def _shaped(ctx: Context, x: Expr, shape: Sequence[Dim], sizes: Sequence[Expr] | None = None) -> Expr:
    """Return a tensor under another shape.

    Parameters
    ----------
    x : Expr
        The tensor.
    shape : sequence of dimensions
        Its shape; one dimension may be unknown, or several where there are `sizes`.
    sizes : sequence of Expr
        The sizes as the program computes them, scalars of int64.
    """
    unknown = [i for i, d in enumerate(shape) if dims.is_any(d)]
    if not unknown:
        return to_shape(x, shape)
    if len(unknown) == 1:
        target = [-1 if i in unknown else d for i, d in enumerate(shape)]
        return relay.reshape(x, target, allowzero=False)
    if sizes is None:
        ctx.fail("more than one of batch size and sequence lengths is unknown at import; give them names by shape=")
    made = relay.reshape(x, relay.stack(list(sizes), 0), allowzero=True)
    return pinned(ctx, typed(made), shape)


@dataclass(frozen=True)
class Extent:
    """A size: as far as it is known, and as the program computes it, an int64 scalar."""

    dim: Dim
    value: Expr

    @staticmethod
    def along(ctx: Context, x: Expr, axis: int) -> Extent:
        """Return the size of an axis of a tensor."""
        return Extent(ctx.shape(x)[axis], size_along(ctx, x, axis))

    @staticmethod
    def of(ctx: Context, value: int) -> Extent:
        """Return a size that is known."""
        return Extent(value, ctx.constant(value, "int64"))

    def __mul__(self, other: Extent) -> Extent:
        return Extent(dims.mul(self.dim, other.dim), relay.multiply(self.value, other.value))


def under(ctx: Context, x: Expr, *extents: Extent) -> Expr:
    """Return a tensor under another shape."""
    return _shaped(ctx, x, [e.dim for e in extents], [e.value for e in extents])
