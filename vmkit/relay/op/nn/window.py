"""Windows that slide over the spatial axes: what convolutions and pools have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from tvm import te, tirx, topi

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = [
    "extent",
    "fitted",
    "output_size",
    "pad_spatial",
    "padding_of",
    "per_axis",
    "positive",
    "require_fits",
]


D = TypeVar("D")


def per_axis(value: D | Sequence[D] | None, rank: int) -> D | Sequence[D] | None:
    """Return one value for each of `rank` axes: a single number is repeated; None and sequences stay."""
    if value is None or hasattr(value, "__iter__") or not hasattr(value, "__index__"):
        return value
    return [value] * rank


def padding_of(padding: int | Iterable[int], rank: int) -> list[int]:
    """Return padding as Relay keeps it: all beginnings, then all ends.

    One number pads all sides; `rank` numbers pad both sides of their axis.
    """
    values = [int(p) for p in padding] if isinstance(padding, Iterable) else [int(padding)]
    if len(values) == 1:
        return values * (2 * rank)
    if len(values) == rank and rank > 1:
        return values * 2
    if len(values) != 2 * rank:
        counts = f"1, {rank} or {2 * rank}" if rank > 1 else "1 or 2"
        raise TypeCheckError(f"padding must have {counts} values, not {len(values)}: {values}")
    return values


def positive(values: Sequence[int], rank: int, name: str) -> list[int]:
    """Return one positive number for each axis; TypeCheckError otherwise. A single one serves all axes."""
    numbers = [int(v) for v in values]
    if len(numbers) == 1:
        numbers *= rank
    if len(numbers) != rank:
        raise TypeCheckError(f"{name} must have {rank} values, not {len(numbers)}: {numbers}")
    if any(v < 1 for v in numbers):
        raise TypeCheckError(f"{name} must be positive, not {numbers}")
    return numbers


@overload
def extent(kernel: int, dilation: int) -> int: ...
@overload
def extent(kernel: Dim, dilation: int) -> Dim: ...
def extent(kernel: Dim, dilation: int) -> Dim:
    """Return how far a dilated window reaches."""
    return dims.add(dims.mul(dims.sub(kernel, 1), dilation), 1)


def output_size(size: Dim, before: int, after: int, window: Dim, stride: int, *, ceil: bool = False) -> Dim:
    """Return how often a window fits on a padded axis; with `ceil`, a last window may reach past the end.

    By less than a stride: so far the only one may do so too, which is longer than the axis. By less than two strides
    there is none.
    """
    space = dims.sub(dims.add(size, before + after), window)
    if isinstance(space, int) and space < (1 - 2 * stride if ceil else 0):
        # An empty axis has no position; one that is merely too short is a mistake.
        if isinstance(size, int) and size == 0:
            return 0
        raise TypeCheckError(
            f"a window that reaches over {window} does not fit on an axis of {size}, padded by {before} and {after}"
        )
    divide = dims.ceildiv if ceil else dims.floordiv
    return dims.add(divide(space, stride), 1)


def fitted(
    sizes: Sequence[Dim], padding: Sequence[int], windows: Sequence[Dim], strides: Sequence[int], *, ceil: bool = False
) -> list[Dim]:
    """Return :func:`output_size` for each axis."""
    rank = len(sizes)
    return [
        output_size(sizes[i], padding[i], padding[rank + i], windows[i], strides[i], ceil=ceil) for i in range(rank)
    ]


def require_fits(
    context: LowerContext,
    sizes: Sequence[Dim],
    padding: Sequence[int],
    windows: Sequence[Dim],
    past: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> None:
    """Check at run time that windows fit on axes whose sizes are not known now, by `past` beyond their end at most.

    With `strides`, one that misses by just its stride fits, too: the result has size 0. By less it would be a part of a
    window in one runtime and nothing in another, and more is a mistake.
    """
    rank = len(sizes)
    for axis, (size, window) in enumerate(zip(sizes, windows, strict=True)):
        least = dims.sub(window, padding[axis] + padding[rank + axis] + (past[axis] if past else 0))
        # One that misses by one gives a result of size 0, which needs no check.
        if isinstance(size, int) or (isinstance(least, int) and least <= 1):
            continue
        fits = dims.as_expr(size) >= dims.as_expr(least)
        if strides:
            fits = tirx.any(fits, dims.as_expr(size) == dims.as_expr(dims.sub(least, strides[axis])))
        context.require(
            fits,
            f"{context.operator}: a window that reaches over {window} does not fit on spatial axis {axis}, which "
            f"is shorter than {least}",
        )


def pad_spatial(
    data: te.Tensor,
    axes: Sequence[str],
    spatial: str,
    padding: Sequence[int],
    value: tirx.Expr | float,
    *,
    extra: Sequence[Dim] | None = None,
) -> te.Tensor:
    """Return the data padded on its spatial axes, as a stage of its own; the data itself where there is nothing to do.

    Parameters
    ----------
    axes, spatial : sequence of str
        The letters of all dimensions and of the spatial ones.
    padding : sequence of int
        All beginnings, then all ends.
    value : expression or float
        What to pad with.
    extra : sequence of dimensions, optional
        What to add at each end.
    """
    rank = len(spatial)
    before = {letter: padding[i] for i, letter in enumerate(spatial)}
    after = {letter: dims.add(padding[rank + i], extra[i] if extra else 0) for i, letter in enumerate(spatial)}
    if not any(before.values()) and all(isinstance(d, int) and d == 0 for d in after.values()):
        return data
    return topi.nn.pad(data, [before.get(a, 0) for a in axes], [after.get(a, 0) for a in axes], value, name="pad_temp")
