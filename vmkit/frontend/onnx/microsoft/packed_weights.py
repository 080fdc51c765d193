"""Products with weights of a few bits, packed into bytes in blocks that share a scale and a zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..known import constant
from ..operators.conversion import casted
from ..operators.product import matmul
from ..registry import converter


@converter("MatMulNBits", domain="com.microsoft")
def matmul_n_bits(
    ctx: Context,
    a: Expr,
    b: Expr,
    scales: Expr,
    zero_points: Expr | None = None,
    g_idx: Expr | None = None,
    bias: Expr | None = None,
    *,
    K: int,
    N: int,
    bits: int = 4,
    block_size: int,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Expr:
    """The weight is (N, blocks, packed bytes), the lowest bits first; each block of K has a scale and a zero point."""
    if bits not in (2, 4, 8) or weight_prepacked:
        ctx.fail(f"bits is {bits} and weight_prepacked {weight_prepacked}; 2, 4 and 8 bits, not prepacked, are read")
    blocks = -(-K // block_size)
    operands = [b, scales, zero_points, g_idx]
    # Integers that are known become floats once, at import: what is read at each call then is what kernels are fast at.
    known = [ctx.static(v) for v in operands]
    if all(k is not None or v is None for k, v in zip(known, operands, strict=True)):
        weight = constant(_weight_array(known, bits, N, K, blocks, block_size))
    else:
        weight = _weight(ctx, operands, bits, N, K, blocks, block_size)
    result = casted(ctx, matmul(ctx, casted(ctx, a, "float32"), weight), ctx.dtype(a))
    return result if bias is None else relay.add(result, bias)


def _weight_array(operands: list[Any], bits: int, n: int, k: int, blocks: int, block_size: int) -> np.ndarray:
    """Return the weight (K, N) as float32 from arrays."""
    codes, scales, zeros, index = operands

    def unpacked(packed: np.ndarray, count: int) -> np.ndarray:
        parts = [(packed.reshape(n, -1) >> s) & ((1 << bits) - 1) for s in range(0, 8, bits)]
        return np.stack(parts, 2).reshape(n, -1)[:, :count].astype("float32")

    if zeros is None:
        zero = np.full((n, blocks), 1 << (bits - 1), "float32")
    elif zeros.dtype == np.uint8:
        zero = unpacked(zeros, blocks)
    else:
        zero = zeros.reshape(n, blocks).astype("float32")
    block = np.arange(k) // block_size if index is None else index[:k]
    scale = scales.reshape(n, blocks).astype("float32")
    weight = (unpacked(codes, k) - zero[:, block]) * scale[:, block]
    return np.ascontiguousarray(weight.T)


def _weight(ctx: Context, operands: list[Any], bits: int, n: int, k: int, blocks: int, block_size: int) -> Expr:
    """Return the weight (K, N) as float32, computed when the program runs."""
    codes, scales, zeros, index = operands

    def unpacked(packed: Expr, count: int) -> Expr:
        flat = relay.reshape(packed, [n, -1])
        mask = ctx.constant((1 << bits) - 1, "uint8")
        shifts = [ctx.constant(s, "uint8") for s in range(0, 8, bits)]
        parts = [relay.bitwise_and(relay.right_shift(flat, s), mask) for s in shifts]
        whole = relay.reshape(relay.stack(parts, axis=2), [n, -1])
        return relay.cast(relay.strided_slice(whole, [0, 0], [n, count]), "float32")

    if zeros is None:
        zero = ctx.constant(np.full((n, blocks), 1 << (bits - 1)), "float32")
    elif ctx.dtype(zeros) == "uint8":
        zero = unpacked(zeros, blocks)
    else:
        zero = relay.reshape(casted(ctx, zeros, "float32"), [n, blocks])
    scale = relay.reshape(casted(ctx, scales, "float32"), [n, blocks])
    block = constant(np.arange(k) // block_size) if index is None else relay.strided_slice(index, [0], [k])
    zero, scale = (relay.take(v, block, axis=1) for v in (zero, scale))
    return relay.transpose(relay.multiply(relay.subtract(unpacked(codes, k), zero), scale), [1, 0])
