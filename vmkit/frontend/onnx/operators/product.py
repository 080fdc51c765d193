"""Products of matrices."""

from __future__ import annotations

from typing import Any

from .... import relay
from ....relay.ir import Constant, Expr, dims
from ..context import Context
from ..known import constant, value_of
from ..registry import converter
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
    return relay.add(y, c if beta == 1 else binary(ctx, "multiply", c, beta))


def _dense(ctx: Context, a: Expr, b: Expr, *, is_transposed: bool) -> Expr:
    """Return the product of two matrices by Relay's dense, whose weight is transposed."""
    if not is_transposed:
        b = constant(value_of(b).T) if isinstance(b, Constant) else relay.transpose(b, [1, 0])
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
    leading, inner = ctx.shape(a)[:-1], ctx.shape(a)[-1]
    if any(dims.is_any(d) for d in leading):
        return _batched(ctx, a, b)
    product = _dense(ctx, to_shape(a, [dims.product(leading), inner]), b, is_transposed=False)
    return to_shape(product, [*leading, ctx.shape(product)[-1]])


def _batched(ctx: Context, a: Expr, b: Expr) -> Expr:
    """Return the product of stacks of matrices, with the stacks broadcast against each other."""
    left, right = ctx.shape(a), ctx.shape(b)
    rank = max(len(left), len(right))
    left, right = [*[1] * (rank - len(left)), *left], [*[1] * (rank - len(right)), *right]
    stack = []
    for x, y in zip(left[:-2], right[:-2], strict=True):
        joined = dims.broadcast(x, y)
        if joined is None:
            ctx.fail(f"the leading dimensions {x} and {y} of the factors cannot be broadcast")
        stack.append(joined)
    if rank > 3 and any(dims.is_any(d) for d in stack):
        return _batched_at_run_time(ctx, to_shape(a, left), to_shape(b, right))
    a, b = (_stack(ctx, v, own, stack) for v, own in ((a, left), (b, right)))
    product = _batch_matmul(ctx, a, b)
    if rank == 3:
        return product
    return to_shape(product, [*stack, left[-2], right[-1]])


def _batch_matmul(ctx: Context, a: Expr, b: Expr) -> Expr:
    if ctx.importer.settings["use_nt_batch_matmul"]:
        return relay.nn.batch_matmul(a, relay.transpose(b, [0, 2, 1]), transpose_b=True)
    return relay.nn.batch_matmul(a, b, transpose_b=False)


def _batched_at_run_time(ctx: Context, a: Expr, b: Expr) -> Expr:
    """Return the product of stacks of one rank, where only a run tells the dimensions that they are broadcast to."""
    rank = ctx.rank(a)
    whole = [_as_large(ctx, v, other) for v, other in ((a, b), (b, a))]
    factors = []
    for factor in whole:
        for joined in reversed(range(1, rank - 2)):
            factor = typed(relay.reshape(factor, [-3, *[0] * (joined + 1)]))
        factors.append(factor)
    product = _batch_matmul(ctx, *factors)
    return relay.reshape_like(product, whole[0], lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=rank - 2)


def _as_large(ctx: Context, x: Expr, other: Expr) -> Expr:
    """Return a stack of matrices broadcast to what it and another one broadcast to."""
    stack = [*ctx.shape(other)[:-2], 1, 1]
    if any(dims.is_any(d) for d in stack):
        sizes = relay.strided_slice(relay.shape_of(other, dtype="int64"), [0], [ctx.rank(other) - 2], [1])
        always = relay.ones(relay.concatenate([sizes, ctx.constant([1, 1], "int64")], 0), "bool")
    else:
        always = relay.ones(stack, "bool")
    return typed(relay.where(always, x, x))


def _stack(ctx: Context, x: Expr, own: list[Any], stack: list[Any]) -> Expr:
    """Return a stack of matrices of rank 3, as large as the broadcast stack unless it is one matrix."""
    matrix = own[-2:]
    if len(stack) == 1:
        return x if len(ctx.shape(x)) == 3 else to_shape(x, [1, *matrix])
    same = all(dims.equal(a, b) for a, b in zip(own[:-2], stack, strict=True))
    if not same and not dims.equal(dims.product(own[:-2]), 1):
        x = relay.broadcast_to(x, [*stack, *matrix])
        own = [*stack, *matrix]
    return to_shape(x, [dims.product(own[:-2]), *matrix])


@converter("Einsum", since=12)
def einsum(ctx: Context, *inputs: Expr, equation: str) -> Expr:
    return relay.einsum(list(inputs), equation)
