"""Mixtures of experts: small networks, of which a router chooses a few for each row.

All experts are one product of matrices, and what they give is added by another: the rows between the two are times the
weights of the router, which are 0 for those that were not chosen.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Expr, dims
from ..context import Context
from ..operators.activation import gelu
from ..operators.conversion import casted
from ..operators.elementwise import binary
from ..operators.layout import to_shape
from ..registry import AttributeGroup, converter
from .packed_weights import unpacked_bits

__all__ = ["clamped_gate"]

# How far below the largest score, as a share, one may be to be mixed at all (Liu et al., "GRIN").
_JITTER = 0.01


@dataclass(frozen=True)
class Mixture(AttributeGroup):
    """The attributes of a mixture: how many experts a row has, and what is between their two products."""

    k: int = 1
    activation_type: str = "relu"
    normalize_routing_weights: int = 0
    use_sparse_mixer: int = 0
    activation_alpha: float = 1.0
    activation_beta: float = 0.0
    swiglu_fusion: int = 0
    swiglu_limit: float = float("inf")
    swiglu_limit_after_activation: int = 0


@dataclass(frozen=True)
class _Projection:
    """Weights (experts, outputs, inputs) and biases (experts, outputs)."""

    weight: Expr
    bias: Expr | None


@converter("MoE", domain="com.microsoft")
def mixture_of_experts(
    ctx: Context,
    x: Expr,
    router: Expr,
    first: Expr,
    first_bias: Expr | None,
    second: Expr,
    second_bias: Expr | None = None,
    third: Expr | None = None,
    third_bias: Expr | None = None,
    *,
    mixture: Mixture,
) -> Expr:
    """`first` and `third` go up, with the activation between them, `second` goes down."""
    up = _Projection(first, first_bias)
    gate = None if third is None else _Projection(third, third_bias)
    return _mixed(ctx, x, _shares(ctx, router, None, mixture), up, gate, _Projection(second, second_bias), mixture)


@converter("QMoE", domain="com.microsoft")
def quantized_mixture_of_experts(
    ctx: Context,
    x: Expr,
    router: Expr,
    first: Expr,
    first_scales: Expr | None,
    first_bias: Expr | None,
    second: Expr,
    second_scales: Expr | None = None,
    second_bias: Expr | None = None,
    third: Expr | None = None,
    third_scales: Expr | None = None,
    third_bias: Expr | None = None,
    first_zeros: Expr | None = None,
    second_zeros: Expr | None = None,
    third_zeros: Expr | None = None,
    router_weights: Expr | None = None,
    *,
    mixture: Mixture,
    expert_weight_bits: int = 4,
    fc1_expert_weight_bits: int | None = None,
    fc2_expert_weight_bits: int | None = None,
    fc3_expert_weight_bits: int | None = None,
    block_size: int = -1,
    quant_type: str = "int",
    accuracy_level: int = 0,
    weights_prepacked: int = 0,
) -> Expr:
    """Weights of a few bits, the lowest first, with a scale for each output, or for each block of its inputs."""
    if quant_type != "int" or weights_prepacked == 1:
        ctx.fail(f"quant_type is {quant_type!r}, weights_prepacked {weights_prepacked}; 'int' and 0 are supported")

    def real(weight: Expr, scales: Expr | None, zeros: Expr | None, bits: int | None) -> Expr:
        if scales is None:
            ctx.fail("integer weights need scales")
        return _dequantized(ctx, weight, scales, zeros, expert_weight_bits if bits is None else bits)

    up = _Projection(real(first, first_scales, first_zeros, fc1_expert_weight_bits), first_bias)
    down = _Projection(real(second, second_scales, second_zeros, fc2_expert_weight_bits), second_bias)
    gate = None
    if third is not None:
        gate = _Projection(real(third, third_scales, third_zeros, fc3_expert_weight_bits), third_bias)
    if router_weights is None:
        # Without weights of their own, onnxruntime takes the softmax of the chosen scores alone, whatever is asked for.
        mixture = replace(mixture, normalize_routing_weights=1)
    return _mixed(ctx, x, _shares(ctx, router, router_weights, mixture), up, gate, down, mixture)


def _dequantized(ctx: Context, weight: Expr, scales: Expr, zeros: Expr | None, bits: int) -> Expr:
    """Return weights (experts, outputs, inputs) as float32."""
    if bits not in (2, 4, 8):
        ctx.fail(f"weights have {bits} bits; 2, 4 and 8 are supported")
    experts, outputs, packed = ctx.shape(weight)
    if not all(isinstance(d, int) for d in (experts, outputs, packed)):
        ctx.fail(f"the shape of the weights, {ctx.type(weight)}, must be known at import")
    inputs, blocks = packed * (8 // bits), ctx.shape(scales)[2] if ctx.rank(scales) == 3 else 1
    codes = casted(
        ctx, to_shape(unpacked_bits(ctx, weight, bits), [experts, outputs, blocks, -(-inputs // blocks)]), "float32"
    )
    scale = to_shape(casted(ctx, scales, "float32"), [experts, outputs, blocks, 1])
    if zeros is None:
        zero = ctx.constant(1 << (bits - 1), "float32")
    else:
        outer = [experts] if ctx.rank(zeros) == 2 else [experts, outputs]
        each = relay.reshape(unpacked_bits(ctx, zeros, bits), [*outer, -1])
        count = outputs if ctx.rank(zeros) == 2 else blocks
        kept = relay.strided_slice(each, [0], [count], [1], axes=[len(outer)])
        zero = casted(ctx, to_shape(kept, [experts, outputs, blocks, 1]), "float32")
    return to_shape(relay.multiply(relay.subtract(codes, zero), scale), [experts, outputs, inputs])


def _shares(ctx: Context, router: Expr, weights: Expr | None, mixture: Mixture) -> Expr:
    """Return the share of each expert in each row: (rows, experts), 0 for those that are not chosen."""
    scores = casted(ctx, router, "float32")
    count = ctx.shape(scores)[1]
    if not isinstance(count, int) or not 1 <= mixture.k <= count:
        ctx.fail(f"k is {mixture.k}, and there are {count} experts; 1 to all of them are chosen")
    if mixture.use_sparse_mixer:
        return _sparsely_mixed(ctx, scores, count, mixture.k)
    best = relay.topk(scores, mixture.k, axis=-1, ret_type="indices", dtype="int64")
    chosen = relay.sum(_one_hot(ctx, best, count), 1)
    shares = relay.multiply(relay.nn.softmax(scores) if weights is None else casted(ctx, weights, "float32"), chosen)
    if mixture.normalize_routing_weights:
        total = relay.sum(shares, 1, True)
        one, zero = ctx.constant(1, "float32"), ctx.constant(0, "float32")
        shares = relay.divide(shares, relay.where(relay.equal(total, zero), one, total))
    return shares


def _one_hot(ctx: Context, indices: Expr, count: int) -> Expr:
    on, off = ctx.constant(1, "float32"), ctx.constant(0, "float32")
    return relay.one_hot(indices, on, off, count, -1, "float32")


def _sparsely_mixed(ctx: Context, scores: Expr, count: int, k: int) -> Expr:
    """Return the shares of two experts, each among those whose scores come near to the largest one left."""
    if k != 2:
        ctx.fail(f"use_sparse_mixer chooses 2 experts; k is {k}")
    low = ctx.constant(-np.inf, "float32")
    left, shares = scores, []
    for _ in range(2):
        largest = relay.max(left, 1, True)
        distance = relay.divide(relay.subtract(largest, scores), relay.maximum(relay.abs(scores), largest))
        near = relay.less_equal(distance, ctx.constant(2 * _JITTER, "float32"))
        chosen = _one_hot(ctx, relay.argmax(left, 1), count)
        shares.append(relay.multiply(relay.nn.softmax(relay.where(near, left, low)), chosen))
        left = relay.where(relay.greater(chosen, ctx.constant(0.5, "float32")), low, left)
    return relay.add(*shares)


def _mixed(
    ctx: Context, x: Expr, shares: Expr, up: _Projection, gate: _Projection | None, down: _Projection, mixture: Mixture
) -> Expr:
    experts, hidden = ctx.shape(down.weight)[:2]
    if not isinstance(experts, int) or dims.equal(experts, ctx.shape(shares)[1]) is False:
        ctx.fail(f"there are {experts} experts, and scores of {ctx.shape(shares)[1]}")
    rows = relay.reshape(casted(ctx, x, "float32"), [-1, ctx.shape(x)[-1]])

    def projected(projection: _Projection) -> Expr:
        """Return (rows, experts, outputs)."""
        outputs, inputs = ctx.shape(projection.weight)[1:]
        matrix = to_shape(casted(ctx, projection.weight, "float32"), [dims.mul(experts, outputs), inputs])
        made = relay.reshape(relay.nn.dense(rows, matrix), [-1, experts, outputs])
        return made if projection.bias is None else relay.add(made, casted(ctx, projection.bias, "float32"))

    inner = _activated(ctx, projected(up), None if gate is None else projected(gate), mixture)
    width = ctx.shape(inner)[2]
    weighted = relay.reshape(relay.multiply(inner, relay.expand_dims(shares, 2)), [-1, dims.mul(experts, width)])
    together = relay.transpose(casted(ctx, down.weight, "float32"), [1, 0, 2])
    result = relay.nn.dense(weighted, to_shape(together, [hidden, dims.mul(experts, width)]))
    if down.bias is not None:
        result = relay.add(result, relay.nn.dense(shares, relay.transpose(casted(ctx, down.bias, "float32"), [1, 0])))
    return casted(ctx, relay.reshape_like(result, x), ctx.dtype(x))


def _activated(ctx: Context, first: Expr, third: Expr | None, mixture: Mixture) -> Expr:
    """Return what goes to the second product."""
    kind = mixture.activation_type
    if kind in ("swiglu", "geglu"):
        linear = third
        if mixture.swiglu_fusion:
            width = ctx.shape(first)[2]
            if not isinstance(width, int) or width % 2 or third is not None:
                ctx.fail(f"swiglu_fusion has both parts in the first weight, of {width} outputs; there is no third one")
            starts, steps = ((0, 1), 2) if mixture.swiglu_fusion == 1 else ((0, width // 2), 1)
            first, linear = (
                relay.strided_slice(first, [s], [width if steps == 2 else s + width // 2], [steps], axes=[2])
                for s in starts
            )
        if linear is None:
            ctx.fail(f"{kind} has two parts; give swiglu_fusion or fc3")
        if kind == "geglu":
            return relay.multiply(gelu(ctx, first, approximate="tanh"), linear)
        limit = None if np.isinf(mixture.swiglu_limit) else mixture.swiglu_limit
        is_late = bool(mixture.swiglu_limit_after_activation)
        return clamped_gate(ctx, first, linear, mixture.activation_alpha, mixture.activation_beta, limit, is_late)
    match kind:
        case "relu":
            result = relay.nn.relu(first)
        case "relu2":
            positive = relay.nn.relu(first)
            result = relay.multiply(positive, positive)
        case "gelu":
            result = gelu(ctx, first, approximate="tanh")
        case "silu":
            result = relay.multiply(first, relay.sigmoid(first))
        case "identity":
            result = first
        case _:
            ctx.fail(f"activation_type is {kind!r}; it is relu, relu2, gelu, silu, swiglu, geglu or identity")
    return result if third is None else relay.multiply(result, third)


def clamped_gate(
    ctx: Context, gate: Expr, linear: Expr, alpha: float, beta: float, limit: float | None, is_late: bool = False
) -> Expr:
    """Return ``gate * sigmoid(alpha * gate) * (linear + beta)``, with both sides in a limit.

    The gate has no lower limit; with `is_late`, its product with the sigmoid is what is limited.
    """
    if limit is not None:
        linear = relay.clip(linear, -limit, limit)
        gate = gate if is_late else relay.minimum(gate, ctx.constant(limit, ctx.dtype(gate)))
    opened = relay.multiply(gate, relay.sigmoid(gate if alpha == 1 else binary(ctx, "multiply", gate, alpha)))
    if limit is not None and is_late:
        opened = relay.minimum(opened, ctx.constant(limit, ctx.dtype(gate)))
    return relay.multiply(opened, linear if beta == 0 else binary(ctx, "add", linear, beta))
