"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from .... import relay
from ....relay.ir import Constant, Dim, Expr, dims
from ..context import Context
from ..known import sizes
from ..registry import converter
from ..run_time_axes import pinned
from ..typing import typed
from .elementwise import binary
from .layout import to_shape

__all__ = ["matmul"]


@converter("Gemm")
def gemm(
    ctx: Context,
    a: Expr,
    b: Expr,
    c: Expr | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Expr:
    if transA:
        a = relay.transpose(a, [1, 0])
    y = _dense(ctx, a, b, is_transposed=bool(transB))
    if alpha != 1:
        y = binary(ctx, "multiply", y, alpha)
    if c is None or beta == 0:
        return y
    return relay.add(y, _like(ctx, c if beta == 1 else binary(ctx, "multiply", c, beta), y))


def _like(ctx: Context, x: Expr, whole: Expr) -> Expr:
    """Return a tensor to be added to another, which must not grow by it: the run fails where it would."""
    have = ctx.shape(x)
    pairs = zip(have, ctx.shape(whole)[-len(have) :] if have else [], strict=True)
    fits = all(dims.equal(a, 1) or dims.equal(a, b) for a, b in pairs)
    return x if fits else relay.broadcast_to_like(x, whole)


def _dense(ctx: Context, a: Expr, b: Expr, *, is_transposed: bool) -> Expr:
    """Return the product of two matrices by Relay's dense, whose weight is transposed."""
    if not is_transposed:
        b = ctx.importer.transposed(b) if isinstance(b, Constant) else relay.transpose(b, [1, 0])
    return relay.nn.dense(a, b)


@converter("MatMul")
def matmul(ctx: Context, a: Expr, b: Expr) -> Expr:
    """numpy's product: vectors are rows and columns, leading dimensions are broadcast."""
    if ctx.rank(a) == 0 or ctx.rank(b) == 0:
        ctx.fail("a factor is a scalar")
    if ctx.rank(a) == 1:
        product = matmul(ctx, relay.expand_dims(a, 0), b)
        return relay.squeeze(product, [ctx.rank(product) - 2 if ctx.rank(b) > 1 else 0])
    if ctx.rank(b) == 1:
        return relay.squeeze(matmul(ctx, a, relay.expand_dims(b, 1)), [ctx.rank(a) - 1])
    if ctx.rank(b) == 2:
        return _rows_by_matrix(ctx, a, b)
    return _batched(ctx, a, b)


def _rows_by_matrix(ctx: Context, a: Expr, b: Expr) -> Expr:
    """Return the product with one matrix: all rows of the left factor are those of one matrix too."""
    if ctx.rank(a) == 2:
        return _dense(ctx, a, b, is_transposed=False)
    shape, leading = ctx.shape(a), ctx.rank(a) - 1
    product = _dense(ctx, _joined(ctx, a, leading), b, is_transposed=False)
    if not any(dims.is_any(d) for d in shape):
        return to_shape(product, [*shape[:-1], ctx.shape(product)[-1]])
    return relay.reshape_like(product, a, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=leading)


def _batched(ctx: Context, a: Expr, b: Expr) -> Expr:
    """Return the product of stacks of matrices, with the stacks broadcast against each other."""
    rank = max(ctx.rank(a), ctx.rank(b))
    a, b = (relay.expand_dims(v, 0, rank - ctx.rank(v)) if ctx.rank(v) < rank else v for v in (a, b))
    left, right = ctx.shape(a), ctx.shape(b)
    stack = []
    for axis, (x, y) in enumerate(zip(left[:-2], right[:-2], strict=True)):
        joined = dims.broadcast(x, y)
        if joined is None:
            ctx.fail(f"the leading dimensions {axis} of the factors, {x} and {y}, cannot be broadcast")
        stack.append(joined)
    if rank == 3:
        return _batch_matmul(ctx, a, b)
    if any(dims.is_any(d) for d in stack):
        if all(dims.equal(d, 1) for d in right[:-2]):
            return _rows_by_matrix(ctx, a, typed(relay.squeeze(b, list(range(rank - 2)))))
        return _batched_at_run_time(ctx, a, b, stack)
    product = _batch_matmul(ctx, *(_stack(ctx, v, stack) for v in (a, b)))
    if not any(dims.is_any(d) for d in ctx.shape(product)):
        return to_shape(product, [*stack, left[-2], right[-1]])
    # Neither rows nor columns need be known to take the stack apart, one dimension after the other.
    for at in range(len(stack) - 1):
        product = typed(relay.reshape(product, [*[0] * at, -4, stack[at], dims.product(stack[at + 1 :]), 0, 0]))
    return product


def _batch_matmul(ctx: Context, a: Expr, b: Expr) -> Expr:
    """Return the product of batches, which are broadcast when the program runs."""
    if ctx.importer.settings["use_nt_batch_matmul"]:
        return relay.nn.batch_matmul(a, relay.transpose(b, [0, 2, 1]), transpose_b=True)
    return relay.nn.batch_matmul(a, b, transpose_b=False)


def _batched_at_run_time(ctx: Context, a: Expr, b: Expr, stack: Sequence[Dim]) -> Expr:
    """Return the product of stacks of one rank, where only a run tells the dimensions that they are broadcast to."""
    left, right = (_sizes(ctx, v, 0, len(stack)) for v in (a, b))
    whole = relay.where(relay.equal(left, ctx.constant(1, "int64")), right, left)
    large = [_expanded(ctx, v, whole, stack) for v in (a, b)]
    product = _batch_matmul(ctx, *(_joined(ctx, factor, len(stack)) for factor in large))
    return relay.reshape_like(product, large[0], lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=len(stack))


def _expanded(ctx: Context, x: Expr, whole: Expr, stack: Sequence[Dim]) -> Expr:
    """Return a stack of matrices broadcast to a stack that is read at run time; `stack` is what is known of it."""
    count = len(stack)
    target = relay.concatenate([whole, _sizes(ctx, x, count, count + 2)], 0)
    return typed(pinned(ctx, typed(relay.broadcast_to(x, target)), [*stack, *ctx.shape(x)[count:]]))


def _sizes(ctx: Context, x: Expr, begin: int, end: int) -> Expr:
    """Return dimensions of a tensor as a vector of int64."""
    own = ctx.shape(x)[begin:end]
    if not any(dims.is_any(d) for d in own):
        return sizes(own)
    return relay.strided_slice(relay.shape_of(x, dtype="int64"), [begin], [end], [1])


def _stack(ctx: Context, x: Expr, stack: Sequence[Dim]) -> Expr:
    """Return a stack of matrices as a batch of them, as large as the broadcast stack unless it is one matrix."""
    own = ctx.shape(x)
    same = all(dims.equal(a, b) for a, b in zip(own[:-2], stack, strict=True))
    if not same and not dims.equal(dims.product(own[:-2]), 1):
        x = typed(relay.broadcast_to(x, [*stack, *own[-2:]]))
    return _joined(ctx, x, len(stack))


def _joined(ctx: Context, x: Expr, count: int) -> Expr:
    """Return a tensor with its first dimensions, so many, made one."""
    shape = ctx.shape(x)
    if not any(dims.is_any(d) for d in shape):
        return to_shape(x, [dims.product(shape[:count]), *shape[count:]])
    for rest in reversed(range(len(shape) - count, len(shape) - 1)):
        x = typed(relay.reshape(x, [-3, *[0] * rest]))
    return x


@converter("Einsum", since=12)
def einsum(ctx: Context, *inputs: Expr, equation: str) -> Expr:
    return relay.einsum(list(inputs), equation)
