"""Products with weights of a few bits, packed into bytes in blocks that share a scale and a zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import relay
from ....relay.ir import Expr
from ....relay.op import build
from ....relay.op.nn.block_quantized import packed_codes, unpacked_codes
from ..context import Context
from ..known import constant
from ..operators.conversion import casted
from ..operators.product import matmul
from ..registry import converter

__all__ = ["unpacked_bits"]

# The values of four bits, as bitsandbytes orders them (Dettmers et al., "QLoRA", appendix E, for the normal floats).
_FP4 = (0.0, 0.005208333333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_CODES = (
    (*_FP4, *(-v for v in _FP4)),
    (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
)  # fmt: skip


_INT8 = 4  # the accuracy level that allows data of 8 bits


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
    is_known = all(k is not None or v is None for k, v in zip(known, operands, strict=True))
    order = None if known[3] is None else _order(known[3][:K], blocks, block_size)
    data = casted(ctx, a, "float32")
    if is_known and block_size % 8 == 0 and (g_idx is None or order is not None):
        sizes = {"channels": K, "units": N, "bits": bits, "block_size": block_size}
        product = _product(ctx, data, known[:3], order, rounds_data=accuracy_level == _INT8, **sizes)
        result = casted(ctx, product, ctx.dtype(a))
        return result if bias is None else relay.add(result, bias)
    if is_known:
        weight = constant(_weight_array(known, bits, N, K, blocks, block_size))
    else:
        weight = _weight(ctx, operands, bits, N, K, blocks, block_size)
    result = casted(ctx, matmul(ctx, data, weight), ctx.dtype(a))
    return result if bias is None else relay.add(result, bias)


def _order(groups: np.ndarray, blocks: int, block_size: int) -> np.ndarray | None:
    """Return the order of inputs in which each block of them is a group; None where groups have other sizes."""
    if not np.array_equal(np.bincount(groups, minlength=blocks), np.full(blocks, block_size)):
        return None
    return np.argsort(groups, kind="stable")


def _product(ctx: Context, data: Expr, operands: list[Any], order: np.ndarray | None, **attrs: int) -> Expr:
    """Return the product with codes, scales and zero points that are known, which stay of so few bits."""
    codes, scales, zeros = operands
    units, bits, blocks = attrs["units"], attrs["bits"], -(-attrs["channels"] // attrs["block_size"])
    if order is not None:
        codes = packed_codes(unpacked_codes(codes.reshape(units, -1), bits)[:, order], bits)
        data = relay.take(data, constant(order), axis=ctx.rank(data) - 1)
    known = [codes.reshape(units, blocks, -1), scales.reshape(units, blocks).astype("float32")]
    if zeros is not None and zeros.dtype == np.uint8:
        known.append(np.ascontiguousarray(unpacked_codes(zeros.reshape(units, -1), bits)[:, :blocks]))
    elif zeros is not None:
        known.append(zeros.reshape(units, blocks).astype("float32"))
    return build("nn.contrib_block_quantized_dense", data, *map(constant, known), **attrs)


def unpacked_bits(ctx: Context, packed: Expr, bits: int) -> Expr:
    """Return the numbers of so many bits in bytes, the lowest bits first, along an axis behind the others."""
    mask = ctx.constant((1 << bits) - 1, "uint8")
    shifts = [ctx.constant(s, "uint8") for s in range(0, 8, bits)]
    parts = [relay.bitwise_and(relay.right_shift(packed, s), mask) for s in shifts]
    return relay.stack(parts, axis=ctx.rank(packed))


def _weight_array(operands: list[Any], bits: int, n: int, k: int, blocks: int, block_size: int) -> np.ndarray:
    """Return the weight (K, N) as float32 from arrays."""
    codes, scales, zeros, index = operands

    def unpacked(packed: np.ndarray, count: int) -> np.ndarray:
        return unpacked_codes(packed.reshape(n, -1), bits)[:, :count].astype("float32")

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
        whole = relay.reshape(unpacked_bits(ctx, relay.reshape(packed, [n, -1]), bits), [n, -1])
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


@converter("MatMulBnb4", domain="com.microsoft")
def matmul_bnb4(
    ctx: Context,
    a: Expr,
    b: Expr,
    largest: Expr,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,
) -> Expr:
    """The weight (N, K) is one row of codes, the high bits first; each block is times its largest magnitude."""
    if quant_type not in (0, 1) or training_mode:
        ctx.fail(
            f"quant_type is {quant_type}, training_mode {training_mode}; FP4 is 0, NF4 1, and there is no training"
        )
    codes, scales = ctx.required(b, "B").ravel(), ctx.required(largest, "absmax").ravel().astype("float32")
    each = np.stack([codes >> 4, codes & 15], 1).ravel()[: N * K]
    values = np.array(_CODES[quant_type], "float32")[each] * scales[np.arange(N * K) // block_size]
    weight = values.reshape(N, K)
    known = constant(np.ascontiguousarray(weight.T if transB else weight))
    return casted(ctx, matmul(ctx, casted(ctx, a, "float32"), known), ctx.dtype(a))
