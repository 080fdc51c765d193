"""Linear attention: a state that every step scales, corrects, adds to and reads, in place of a softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, TupleType, Type
from ..attrs import Attrs, Bool, Float, attrs_node, field
from ..elementwise import require_tensor
from ..kernel import loops
from ..registry import OpPattern, operator
from .layout import require_rank

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

_NAMES = ("query", "key", "value", "state", "decay", "rate")


@attrs_node("relay.attrs.LinearAttentionAttrs")
class LinearAttentionAttrs(Attrs):
    """Attributes of nn.contrib_linear_attention."""

    scale: Float = field(1.0, doc="What the query is multiplied by.")
    is_delta: Bool = field(False, doc="Whether what the state has for the key is taken off the value first.")


@operator("nn.contrib_linear_attention", *_NAMES, attrs=LinearAttentionAttrs, level=10, pattern=OpPattern.OPAQUE)
class LinearAttention:
    """The outputs of all steps and the last state, in float32.

    query is (batch, steps, heads, inner), key (batch, steps, shared, inner), value (batch, steps, shared, width), state
    (batch, shared, inner, width); heads is a multiple of shared. decay is what the state is multiplied with at each
    step, (batch, steps, shared, inner), and rate (batch, steps, shared) scales what is added to it; their dimensions
    may be 1. With is_delta, what the state has for the key is taken off the value first. The outputs are (batch, steps,
    heads, width).
    """

    @staticmethod
    def relation(attrs: LinearAttentionAttrs, *operands: Type) -> Type:
        tensors = dict(zip(_NAMES, (require_tensor(t, n) for n, t in zip(_NAMES, operands, strict=True)), strict=True))
        for name, tensor in tensors.items():
            require_rank(tensor, 3 if name == "rate" else 4, name)
            if tensor.dtype != "float32":
                raise TypeCheckError(f"{name} must be float32, not {tensor.dtype}")
        batch, steps, heads, inner = tensors["query"].shape
        shared, width = tensors["key"].shape[2], tensors["value"].shape[3]
        if not isinstance(heads, int) or not isinstance(shared, int) or shared < 1 or heads % shared:
            raise TypeCheckError(f"heads, {heads}, must be a known multiple of those of the keys, {shared}")
        wanted = {
            "key": [batch, steps, shared, inner],
            "value": [batch, steps, shared, width],
            "state": [batch, shared, inner, width],
            "decay": [batch, steps, shared, inner],
            "rate": [batch, steps, shared],
        }
        for name, shape in wanted.items():
            for have, want in zip(tensors[name].shape, shape, strict=True):
                is_spread = name in ("decay", "rate") and dims.equal(have, 1)
                if not is_spread and dims.equal(have, want) is False:
                    raise TypeCheckError(f"a dimension of {name} is {have} where {want} is expected")
        return TupleType([
            TensorType([batch, steps, heads, width], "float32"), TensorType(wanted["state"], "float32")
        ])  # fmt: skip

    @staticmethod
    def lower(
        context: LowerContext, attrs: LinearAttentionAttrs, *operands: relax.Expr
    ) -> tuple[relax.Expr, relax.Expr]:
        shapes = dict(zip(_NAMES, map(context.shape, operands), strict=True))
        batch, steps, heads, inner = shapes["query"]
        shared, width = shapes["key"][2], shapes["value"][3]
        whole = {
            "key": [batch, steps, shared, inner],
            "value": [batch, steps, shared, width],
            "state": [batch, shared, inner, width],
            "decay": [batch, steps, shared, inner],
            "rate": [batch, steps, shared],
        }
        for name, shape in whole.items():
            for have, want in zip(shapes[name], shape, strict=True):
                if not (name in ("decay", "rate") and dims.equal(have, 1)):
                    context.require_equal(
                        have, want, f"{name} of linear attention has {{actual}} where {{expected}} is expected"
                    )
        results = [[batch, steps, heads, width], [batch, shared, inner, width], [batch, shared, width]]

        def body(outputs: list[tirx.Buffer], *inputs: tirx.Buffer) -> None:
            _steps(attrs, heads // shared, outputs, *inputs)

        out, state, _ = loops(context, [(r, "float32") for r in results], body, *operands, name="linear_attention")
        return out, state


def _at(buffer: tirx.Buffer, *index: tirx.Expr) -> tirx.Expr:
    """Return an element; a dimension of 1 has the same for all."""
    return buffer[tuple(0 if dims.equal(n, 1) else i for i, n in zip(index, buffer.shape, strict=True))]


def _steps(
    attrs: LinearAttentionAttrs,
    together: int,
    outputs: list[tirx.Buffer],
    query: tirx.Buffer,
    key: tirx.Buffer,
    value: tirx.Buffer,
    start: tirx.Buffer,
    decay: tirx.Buffer,
    rate: tirx.Buffer,
) -> None:
    """Write the steps of each head of keys; the innermost loops go along the width, which vectors hold."""
    out, state, added = outputs
    batch, steps, _, inner = query.shape
    shared, width = key.shape[2], value.shape[3]
    zero = tirx.const(0.0, "float32")
    with T.parallel(0, batch * shared) as pair:
        b, h = tirx.floordiv(pair, shared), tirx.floormod(pair, shared)
        with T.serial(0, inner) as i, T.serial(0, width) as j:
            T.buffer_store(state, start[b, h, i, j], [b, h, i, j])
        with T.serial(0, steps) as t:
            with T.serial(0, inner) as i, T.serial(0, width) as j:
                T.buffer_store(state, state[b, h, i, j] * _at(decay, b, t, h, i), [b, h, i, j])
            with T.serial(0, width) as j:
                T.buffer_store(added, value[b, t, h, j], [b, h, j])
            if attrs.is_delta:
                with T.serial(0, inner) as i, T.serial(0, width) as j:
                    T.buffer_store(added, added[b, h, j] - state[b, h, i, j] * key[b, t, h, i], [b, h, j])
            with T.serial(0, inner) as i, T.serial(0, width) as j:
                more = key[b, t, h, i] * (added[b, h, j] * _at(rate, b, t, h))
                T.buffer_store(state, state[b, h, i, j] + more, [b, h, i, j])
            for g in range(together):
                head = h * together + g
                with T.serial(0, width) as j:
                    T.buffer_store(out, zero, [b, t, head, j])
                with T.serial(0, inner) as i:
                    weight = query[b, t, head, i] * tirx.const(attrs.scale, "float32")
                    with T.serial(0, width) as j:
                        T.buffer_store(out, out[b, t, head, j] + weight * state[b, h, i, j], [b, t, head, j])
