"""The shape of a tensor and the order of its elements."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from tvm import ir

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, dims
from ..context import Context
from ..known import sizes
from ..outcome import Condition, attempt, join
from ..ranks import MOST_DIMENSIONS, by_length
from ..registry import converter
from ..run_time_axes import as_vector, counted, marked, of_partly_known, pinned, shape_vector
from ..typing import typed

__all__ = ["as_matrix", "to_shape"]

logger = logging.getLogger(__name__)

_MAX_UNCLEAR = 3  # sizes that may be 1 or not; every one of them doubles the ways that the rest is imported


def to_shape(x: Expr, shape: Sequence[Dim]) -> Expr:
    """Return a tensor under another shape whose dimensions may be symbols; 0 is a size here, not a copy."""
    return relay.reshape(x, list(shape), allowzero=True)


def as_matrix(ctx: Context, x: Expr, axis: int, function: Callable[[Expr], Expr]) -> Expr:
    """Return a function of the matrix that the dimensions before and from `axis` on make, under the old shape."""
    rank = ctx.rank(x)
    at = axis + rank if axis < 0 else axis
    if at == rank - 1:
        return function(x)
    return relay.reshape_like(function(_flattened(ctx, x, at)), x)


def _flattened(ctx: Context, x: Expr, axis: int) -> Expr:
    """Return the matrix that the dimensions before `axis`, and those from it on, make."""
    shape = ctx.shape(x)
    rows, columns = dims.product(shape[:axis]), dims.product(shape[axis:])
    if axis == 1:
        return relay.reshape(x, [0, -1])
    if not dims.is_any(rows) and not dims.is_any(columns):
        return to_shape(x, [rows, columns])
    if dims.is_any(rows) and dims.is_any(columns):
        ctx.fail("neither the rows nor the columns of the matrix are known at import")
    return relay.reshape(x, [-1, columns] if dims.is_any(rows) else [rows, -1])


@converter("Reshape")
def reshape_by_attribute(ctx: Context, x: Expr, *, shape: Sequence[int] = (), consumed_inputs: Any = None) -> Expr:
    return _reshaped(ctx, x, list(shape), False)


@converter("Reshape", since=5)
def reshape(ctx: Context, x: Expr, shape: Expr, *, allowzero: int = 0) -> Any:
    target = ctx.dims(shape)
    if target is not None:
        return _reshaped(ctx, x, target, bool(allowzero))

    def reshaped(target: Expr) -> Expr:
        return of_partly_known(ctx, relay.reshape(x, target, allowzero=bool(allowzero)), target)

    return by_length(ctx, shape, range(MOST_DIMENSIONS + 1), "the number of dimensions of the new shape", reshaped)


def _reshaped(ctx: Context, x: Expr, target: list[Dim], allowzero: bool) -> Expr:
    have = ctx.shape(x)
    wrong = [t for t in target if isinstance(t, int) and t < -1]
    if wrong:
        ctx.fail(f"the new shape {_text(target)} has {wrong[0]}; only -1 has a meaning")
    if target.count(-1) > 1 and all(isinstance(t, int) for t in target):
        ctx.fail(f"the new shape {_text(target)} has more than one -1")
    if have and target and not allowzero:
        target = _batched(ctx, have, target)
    target = _of_whole_slices(have, target)
    if len(target) == len(have) and all(dims.equal(a, b) for a, b in zip(have, target, strict=True)):
        return x
    return relay.reshape(x, target, allowzero=allowzero)


def _batched(ctx: Context, have: list[Dim], target: list[Dim]) -> list[Dim]:
    """Return the target for an input whose leading size the caller made a symbol.

    A model exported for one batch size has it as a number in its targets: what fits only that size is read as the
    symbol.
    """
    in_file = ctx.size_in_file(have[0])
    if in_file is None:
        return target
    if isinstance(target[0], int) and target[0] == in_file:
        read = [have[0], *target[1:]]
        rest = [have[i] if isinstance(t, int) and t == 0 and i < len(have) else t for i, t in enumerate(read)]
        if -1 in [t for t in rest if isinstance(t, int)] or dims.equal(dims.product(rest), dims.product(have)):
            logger.info("%s: the new shape %s is read as %s", ctx.node.name, _text(target), _text(read))
            return read
    if all(isinstance(t, int) and t > 0 for t in target) and not dims.equal(dims.product(target), dims.product(have)):
        ctx.fail(
            f"the new shape {_text(target)} is part of the model and fits the input {_text(have)} only when "
            f"{have[0]} is {in_file}, the size in the file; leave that dimension as it is, or change the model"
        )
    return target


def _of_whole_slices(have: list[Dim], target: list[Dim]) -> list[Dim]:
    """Return the target with the size of a slice replaced by what the input has, which it must be if anything fits.

    A slice that exporters count out, ``max(min(p + n, 64) - min(p, 64), 0)``, and `n` of the input are one size; under
    one name the operators that follow see that.
    """
    above, below = dims.uncommon(have, target)
    old = [d for d in below if not isinstance(d, int)]
    new = [d for d in above if not isinstance(d, int)]
    if len(old) != 1 or len(new) != 1 or not dims.absorbs(new[0], old[0]):
        return target
    return [new[0] if not isinstance(d, int) and dims.equal(d, old[0]) else d for d in target]


def _text(shape: Sequence[Dim]) -> str:
    return f"({', '.join(str(d) for d in shape)})"


@converter("Flatten")
def flatten(ctx: Context, x: Expr, *, axis: int = 1) -> Expr:
    rank = ctx.rank(x)
    at = axis + rank if axis < 0 else axis
    if at == 1 and rank == 2:
        return x
    return _flattened(ctx, x, at)


@converter("Transpose")
def transpose(ctx: Context, x: Expr, *, perm: Sequence[int] | None = None) -> Expr:
    return relay.transpose(x, list(perm) if perm is not None else None)


@converter("Squeeze")
def squeeze_by_attribute(ctx: Context, x: Expr, *, axes: Sequence[int] | None = None) -> Any:
    return _squeezed(ctx, x, axes)


@converter("Squeeze", since=13)
def squeeze(ctx: Context, x: Expr, axes: Expr | None = None) -> Any:
    known = None if axes is None else ctx.static(axes)
    if axes is None or known is not None:
        return _squeezed(ctx, x, None if known is None else [int(a) for a in known.ravel()])
    rank = ctx.rank(x)
    return by_length(
        ctx, axes, range(rank + 1), "the number of axes", lambda given: relay.squeeze(x, counted(ctx, given, rank))
    )


def _squeezed(ctx: Context, x: Expr, axes: Sequence[int] | None) -> Any:
    shape = ctx.shape(x)
    if axes is None:
        unclear = [i for i, d in enumerate(shape) if not isinstance(d, int)]
        return _squeezed_where(ctx, x, [i for i, d in enumerate(shape) if dims.equal(d, 1)], unclear)
    chosen = [ctx.axis(a, len(shape)) for a in axes]
    return relay.squeeze(x, chosen) if chosen else x


def _squeezed_where(ctx: Context, x: Expr, axes: list[int], unclear: list[int]) -> Any:
    """Return a tensor without dimensions of 1, one outcome for each way that the sizes not known now may be."""
    if not unclear:
        return [typed(relay.squeeze(x, sorted(axes)) if axes else x)]
    if len(unclear) > _MAX_UNCLEAR:
        return _squeezed_by_count(ctx, x, len(unclear))
    first, *rest = unclear
    size = ctx.shape(x)[first]
    if dims.is_any(size):
        length = relay.take(shape_vector(ctx, x), ctx.constant(first, "int64"), axis=0)
        is_one = relay.equal(length, ctx.constant(1, "int64"))
    else:
        is_one = sizes(dims.select(dims.as_expr(size) == 1, 1, 0), "bool")
    decided = Condition.of(typed(is_one), f"dimension {first} of {ctx.node.input[0]!r} being 1")
    return join(
        decided,
        attempt(lambda: _squeezed_where(ctx, x, [*axes, first], rest)),
        attempt(lambda: _squeezed_where(ctx, x, axes, rest)),
    )


def _squeezed_by_count(ctx: Context, x: Expr, unclear: int) -> Any:
    """Return a tensor without dimensions of 1, one outcome for each number of those that are left."""
    shape = shape_vector(ctx, x)
    stay = relay.argwhere(relay.not_equal(shape, ctx.constant(1, "int64")))
    target = typed(relay.take(shape, relay.cast(relay.reshape(stay, [-1]), "int64"), axis=0))
    least = sum(1 for d in ctx.shape(x) if isinstance(d, int) and d != 1)
    counts = range(least, least + unclear + 1)
    name = f"the number of dimensions of {ctx.node.input[0]!r} that are not 1"
    return by_length(ctx, target, counts, name, lambda kept: relay.reshape(x, kept, allowzero=True))


@converter("Unsqueeze")
def unsqueeze_by_attribute(ctx: Context, x: Expr, *, axes: Sequence[int]) -> Expr:
    return _unsqueezed(ctx, x, axes)


@converter("Unsqueeze", since=13)
def unsqueeze(ctx: Context, x: Expr, axes: Expr) -> Any:
    known = ctx.static(axes)
    if known is not None:
        return _unsqueezed(ctx, x, [int(a) for a in known.ravel()])
    counts = range(MOST_DIMENSIONS - ctx.rank(x) + 1)
    vector = typed(as_vector(ctx, axes))
    return by_length(ctx, vector, counts, "the number of axes", lambda given: _unsqueezed_at_run_time(ctx, x, given))


def _unsqueezed_at_run_time(ctx: Context, x: Expr, axes: Expr) -> Expr:
    rank = ctx.rank(x) + int(ctx.shape(axes)[0])
    if ctx.rank(x) == 0:
        return to_shape(x, [1] * rank)
    one = ctx.constant(1, "int64")
    added = marked(ctx, counted(ctx, axes, rank), rank)
    # Each dimension that is not new is as far along in the old shape as there are such dimensions before it.
    old = relay.subtract(relay.cumsum(relay.cast(relay.logical_not(added), "int64"), axis=0), one)
    target = relay.where(added, one, relay.take(shape_vector(ctx, x), old, axis=0))
    return relay.reshape(x, target, allowzero=True)


def _unsqueezed(ctx: Context, x: Expr, axes: Sequence[int]) -> Expr:
    rank = ctx.rank(x) + len(axes)
    chosen = sorted(ctx.axis(a, rank) for a in axes)
    if len(set(chosen)) != len(chosen):
        ctx.fail(f"axes {list(axes)} name an axis twice")
    for axis in chosen:
        x = relay.expand_dims(x, axis)
    return x


@converter("Expand", since=8)
def expand(ctx: Context, x: Expr, shape: Expr) -> Any:
    target = ctx.dims(shape)
    if target is None:
        longest = range(max(MOST_DIMENSIONS, ctx.rank(x)) + 1)
        name = "the number of dimensions of the target shape"
        return by_length(ctx, shape, longest, name, lambda given: _expanded(ctx, x, given))
    have, whole = ctx.shape(x), _expanded_dims(ctx.shape(x), target)
    if any(dims.is_any(d) for d in whole):
        return _expanded(ctx, x, sizes(target))
    if len(have) == len(whole) and all(dims.equal(a, b) for a, b in zip(have, whole, strict=True)):
        return x
    return relay.broadcast_to(x, whole)


def _expanded(ctx: Context, x: Expr, shape: Expr) -> Expr:
    """Return a tensor expanded to what a target, known in part or not at all, is when the program runs."""
    target = ctx.dims(shape) or ctx.partly_known(shape) or [AnyDim()] * int(ctx.shape(shape)[0])
    expanded = typed(relay.broadcast_to(x, _broadcast_target(ctx, x, shape)))
    return pinned(ctx, expanded, _expanded_dims(ctx.shape(x), target))


def _expanded_dims(have: Sequence[Dim], target: Sequence[Dim]) -> list[Dim]:
    """Return what is known of the dimensions that a shape and a target broadcast to."""
    rank = max(len(have), len(target))
    padded = zip([1] * (rank - len(have)) + [*have], [1] * (rank - len(target)) + [*target], strict=True)
    return [_expanded_dim(own, wanted) for own, wanted in padded]


def _expanded_dim(own: Dim, wanted: Dim) -> Dim:
    """Return what a size and a wanted one broadcast to; ``Any`` where only a run tells it.

    A wanted size that is computed is taken to be no 1 unless the size is 1 too: such shapes are those of other tensors.
    One that is 1 at most, as of a slice of one row, is not.
    """
    if isinstance(wanted, int):
        return own if wanted == 1 else wanted
    if isinstance(own, int):
        return wanted if own == 1 else own
    is_same = dims.equal(own, wanted) or dims.absorbs(wanted, own)
    may_be_one = isinstance(wanted, ir.Var) or dims.at_least(1, wanted)
    is_clear = is_same or dims.at_least(wanted, 2) or not may_be_one
    return wanted if is_clear and not dims.is_any(own) else AnyDim()


def _broadcast_target(ctx: Context, x: Expr, shape: Expr) -> Expr:
    """Return the shape, read at run time, that a tensor and a target broadcast to."""
    missing = int(ctx.shape(shape)[0]) - ctx.rank(x)
    own = relay.shape_of(x, dtype=ctx.dtype(shape))
    if missing > 0:
        own = relay.concatenate([ctx.constant([1] * missing, ctx.dtype(shape)), own], 0)
    elif missing < 0:
        shape = relay.concatenate([ctx.constant([1] * -missing, ctx.dtype(shape)), shape], 0)
    one = ctx.constant(1, ctx.dtype(shape))
    return relay.where(relay.equal(shape, one), own, shape)


@converter("DepthToSpace")
def depth_to_space(ctx: Context, x: Expr, *, blocksize: int, mode: str = "DCR") -> Expr:
    n, c, h, w = ctx.shape(x)
    depth = dims.floordiv(c, blocksize * blocksize)
    if any(dims.is_any(d) for d in (n, c, h, w)):
        # Sizes that only the run knows are copied, split and joined where they are: here c, in two steps.
        part = [0, -4, -1, blocksize, -2] if mode == "CRD" else [0, -4, blocksize, -1, -2]
        again = [0, -4, -1, blocksize, -2] if mode == "CRD" else [0, 0, -4, blocksize, -1, -2]
        apart = relay.reshape(relay.reshape(x, part), again)
        moved = relay.transpose(apart, [0, 1, 4, 2, 5, 3] if mode == "CRD" else [0, 3, 4, 1, 5, 2])
        return relay.reshape(moved, [0, 0, -3, -3])
    if mode == "CRD":
        parts, order = [n, depth, blocksize, blocksize, h, w], [0, 1, 4, 2, 5, 3]
    else:
        parts, order = [n, blocksize, blocksize, depth, h, w], [0, 3, 4, 1, 5, 2]
    moved = relay.transpose(to_shape(x, parts), order)
    return to_shape(moved, [n, depth, dims.mul(h, blocksize), dims.mul(w, blocksize)])


@converter("SpaceToDepth")
def space_to_depth(ctx: Context, x: Expr, *, blocksize: int, mode: str = "DCR") -> Expr:
    if mode not in ("DCR", "CRD"):
        ctx.fail(f"mode is {mode!r}; it is DCR or CRD")
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    n, c, h, w = ctx.shape(x)
    if any(dims.is_any(d) for d in (n, c, h, w)):
        apart = relay.reshape(x, [0, 0, -4, -1, blocksize, -4, -1, blocksize])
        joined = relay.reshape(relay.transpose(apart, order), [0, -3, -2])
        return relay.reshape(joined, [0, -3, -2])
    rows, columns = dims.floordiv(h, blocksize), dims.floordiv(w, blocksize)
    moved = relay.transpose(to_shape(x, [n, c, rows, blocksize, columns, blocksize]), order)
    return to_shape(moved, [n, dims.mul(c, blocksize * blocksize), rows, columns])
