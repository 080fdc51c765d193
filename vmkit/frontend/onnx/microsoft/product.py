"""Products of matrices fused with transpositions, scales and activations."""

from __future__ import annotations

from typing import Any

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.activation import softmax
from ..operators.elementwise import binary
from ..operators.product import gemm, matmul
from ..registry import converter
from .activation import activated, fast_gelu


@converter("FusedMatMul", "TransposeMatMul", domain="com.microsoft")
def fused_matmul(
    ctx: Context,
    a: Expr,
    b: Expr,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Expr:
    left, right = _arranged(ctx, a, transA, transBatchA), _arranged(ctx, b, transB, transBatchB)
    product = matmul(ctx, left, right)
    return product if alpha == 1 else binary(ctx, "multiply", product, alpha)


def _arranged(ctx: Context, x: Expr, is_transposed: int, is_batch_moved: int) -> Expr:
    """Return a stack of matrices with the first dimension moved behind the others of the stack, then transposed."""
    rank = ctx.rank(x)
    order = list(range(rank))
    if rank < 2:
        return x
    if is_batch_moved and rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if is_transposed:
        order[-2:] = order[:-3:-1]
    return x if order == list(range(rank)) else relay.transpose(x, order)


@converter("FusedMatMulActivation", domain="com.microsoft")
def fused_matmul_activation(
    ctx: Context,
    a: Expr,
    b: Expr,
    *,
    activation: str,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
    activation_alpha: float | None = None,
    activation_axis: int | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> Expr:
    product = fused_matmul(
        ctx, a, b, alpha=alpha, transA=transA, transB=transB, transBatchA=transBatchA, transBatchB=transBatchB
    )
    if activation == "Softmax":
        return softmax(ctx, product, axis=-1 if activation_axis is None else activation_axis)
    return activated(ctx, product, activation, _given(activation_alpha, activation_beta, activation_gamma))


def _given(alpha: float | None, beta: float | None, gamma: float | None) -> dict[str, Any]:
    """Return the parameters of an activation that a node has."""
    return {k: v for k, v in {"alpha": alpha, "beta": beta, "gamma": gamma}.items() if v is not None}


@converter("FusedGemm", domain="com.microsoft")
def fused_gemm(
    ctx: Context,
    a: Expr,
    b: Expr,
    c: Expr | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> Expr:
    product = gemm(ctx, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activated(ctx, product, activation, _given(activation_alpha, activation_beta, activation_gamma))


@converter("GemmFastGelu", domain="com.microsoft")
def gemm_fast_gelu(ctx: Context, x: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    return fast_gelu(ctx, matmul(ctx, x, weight), bias)


@converter("MatMulInteger16", domain="com.microsoft")
def product_of_16_bits(ctx: Context, a: Expr, b: Expr) -> Expr:
    """The sums are of 32 bits, and are those of the inputs if both have no sign."""
    dtype = "uint32" if ctx.dtype(a) == ctx.dtype(b) == "uint16" else "int32"
    return matmul(ctx, *(relay.cast(x, dtype) for x in (a, b)))
