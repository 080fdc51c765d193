"""Gates, and normalisations beside them, as recurrent and mixed layers of newer transformers have them.

All of it is computed in float32, and rounded to the type of the tensor once at the end unless it says otherwise.
"""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr, dims
from ..context import Context
from ..operators.activation import softplus
from ..operators.conversion import casted
from ..operators.elementwise import binary
from ..registry import converter
from .experts import clamped_gate

_MICROSOFT = "com.microsoft"


@converter("SwiGLU", domain=_MICROSOFT)
def swiglu(
    ctx: Context,
    gate: Expr,
    up: Expr | None = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    limit: float = 0.0,
    round_activation: int = 0,
) -> Expr:
    """Both halves may come as one, the gate first."""
    dtype = ctx.dtype(gate)
    if up is None:
        width = ctx.shape(gate)[-1]
        if not isinstance(width, int) or width % 2:
            ctx.fail(f"the last dimension, {width}, must be a known even number, for both halves are in it")
        gate, up = relay.split(gate, 2, axis=-1)
    if round_activation and dtype != "float32":
        ctx.fail(f"round_activation is for float32, whose activation needs no rounding, not {dtype}")
    wide = [casted(ctx, x, "float32") for x in (gate, up)]
    made = clamped_gate(ctx, wide[0], wide[1], activation_alpha, activation_beta, limit if limit > 0 else None)
    return casted(ctx, made, dtype)


@converter("ScaledSiLU", domain=_MICROSOFT)
def scaled_silu(ctx: Context, x: Expr, scale: Expr | None = None, *, alpha: float = 1.0) -> Expr:
    """Rounded after each step."""
    dtype, wide = ctx.dtype(x), casted(ctx, x, "float32")
    scaled = binary(ctx, "multiply", wide, alpha if scale is None else relay.reshape(casted(ctx, scale, "float32"), []))
    scaled = casted(ctx, scaled, dtype)
    opened = casted(ctx, relay.sigmoid(casted(ctx, scaled, "float32")), dtype)
    return relay.multiply(scaled, opened)


@converter("GatedAdd", domain=_MICROSOFT)
def gated_add(ctx: Context, x: Expr, y: Expr, gate: Expr, gate_weight: Expr | None = None) -> Expr:
    if gate_weight is not None:
        ctx.fail("gate_weight, of bfloat16 on GPUs, is not supported")
    return relay.add(x, relay.multiply(y, gate))


@converter("LinearAttentionGate", domain=_MICROSOFT)
def linear_attention_gate(ctx: Context, a: Expr, bias: Expr, scale: Expr, b: Expr | None = None) -> list[Expr | None]:
    """The decay, and how fast the state is changed."""
    shifted = relay.add(casted(ctx, a, "float32"), bias)
    rate = None if b is None else casted(ctx, relay.sigmoid(casted(ctx, b, "float32")), ctx.dtype(b))
    return [casted(ctx, relay.multiply(scale, softplus(ctx, shifted)), ctx.dtype(a)), rate]


@converter("GatedRMSNorm", domain=_MICROSOFT)
def gated_root_mean_square(
    ctx: Context, x: Expr, scale: Expr, gate: Expr, *, activation: str = "silu", epsilon: float = 1e-5
) -> Expr:
    """Groups of as many neighbours as there are scales are normalised, and the gate is put through its activation."""
    if activation not in ("silu", "swish", "sigmoid"):
        ctx.fail(f"activation is {activation!r}; it is silu, swish or sigmoid")
    wide = casted(ctx, gate, "float32")
    opened = relay.sigmoid(wide)
    if activation != "sigmoid":
        opened = relay.multiply(wide, opened)
    groups = _normalised(ctx, relay.reshape(casted(ctx, x, "float32"), [-1, ctx.shape(scale)[0]]), epsilon)
    scaled = relay.reshape_like(relay.multiply(groups, casted(ctx, scale, "float32")), x)
    return casted(ctx, relay.multiply(scaled, opened), ctx.dtype(x))


@converter("BranchwiseRMSNorm", domain=_MICROSOFT)
def branchwise_root_mean_square(
    ctx: Context, x: Expr, scale: Expr | None = None, *, epsilon: float = 1e-5, num_branches: int = 0
) -> Expr:
    """Branches lie along the last axis but one, or behind each other along the last."""
    width = ctx.shape(x)[-1]
    branches = num_branches or ctx.shape(x)[-2]
    if not isinstance(width, int) or not isinstance(branches, int) or (num_branches and width % num_branches):
        ctx.fail(f"the branches of {ctx.type(x)} must be known at import, and of one size; there are {branches}")
    inner = width // num_branches if num_branches else width
    rows = _normalised(ctx, relay.reshape(casted(ctx, x, "float32"), [-1, branches, inner]), epsilon)
    if scale is not None:
        wide = casted(ctx, scale, "float32")
        is_shared = ctx.rank(scale) == 1 and dims.equal(ctx.shape(scale)[0], inner)
        rows = relay.multiply(rows, wide if is_shared else relay.reshape(wide, [branches, inner]))
    return casted(ctx, relay.reshape_like(rows, x), ctx.dtype(x))


def _normalised(ctx: Context, x: Expr, epsilon: float) -> Expr:
    """Return a tensor over the root of the mean of its squares along the last axis."""
    mean = relay.mean(relay.multiply(x, x), [-1], True)
    return relay.multiply(x, relay.rsqrt(binary(ctx, "add", mean, epsilon)))
