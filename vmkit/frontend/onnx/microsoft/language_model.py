"""Language models that an operator which generates text runs again and again: the graphs in its attributes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Any as AnyDim
from ....relay.ir import Expr, TensorType, dims
from ..check import sorted_nodes
from ..context import Context
from ..dtype import dtype_name
from ..operators.control_flow import one_outcome
from ..registry import AttributeGroup
from ..run_time_axes import pinned
from ..scope import Scope
from ..typing import typed

__all__ = ["SHARED", "Generation", "GptDecoder", "Network"]

SHARED = (
    "it is of the form that keeps past and present in one buffer, which is for GPUs; export the model without "
    "past_present_share_buffer and without decoder masked attention"
)


@dataclass(frozen=True)
class Generation(AttributeGroup):
    """The attributes that all operators have which generate text."""

    decoder: onnx.GraphProto
    eos_token_id: int
    pad_token_id: int
    decoder_start_token_id: int = -1
    encoder: onnx.GraphProto | None = None
    init_decoder: onnx.GraphProto | None = None
    model_type: int = 0
    no_repeat_ngram_size: int = 0
    vocab_size: int = -1


class Network:
    """A graph of an attribute, which may be imported several times; its weights are constants that all share.

    Attributes
    ----------
    ctx : Context
        The node, seen with the weights in scope.
    graph : GraphProto
        The graph.
    """

    def __init__(self, ctx: Context, graph: onnx.GraphProto, what: str) -> None:
        self.what, self.graph = what, graph
        scope = Scope(ctx.scope)
        ctx.importer.add_initializers(graph, scope, frozen=True)
        self.ctx = Context(ctx.importer, ctx.node, ctx.version, scope)
        self.nodes = sorted_nodes(graph, ctx.scope.names())

    def run(self, scope: Scope, inputs: Sequence[Expr]) -> list[Expr]:
        """Return what the graph gives in a scope within that of ``ctx``."""
        values = dict(zip((i.name for i in self.graph.input), inputs, strict=True))
        outcome = self.ctx.importer.walk(self.nodes, Scope(scope, values), [o.name for o in self.graph.output])
        return one_outcome(outcome, f"{self.ctx.node.op_type}: {self.what}")

    def declared(self, info: onnx.ValueInfoProto) -> TensorType:
        """Return the type of an input or output as the graph declares it, ``Any`` for sizes that it leaves open."""
        tensor = info.type.tensor_type
        if not tensor.HasField("shape"):
            self.ctx.fail(f"{self.what} does not declare the shape of {info.name!r}")
        shape = [int(d.dim_value) if d.dim_value > 0 else AnyDim() for d in tensor.shape.dim]
        return TensorType(shape, dtype_name(tensor.elem_type, f"{info.name!r} of {self.what}"))

    def vocabulary(self, given: int) -> int | None:
        """Return how many tokens are scored, by an attribute or else as the logits are declared; None for all."""
        size = self.declared(self.graph.output[0]).shape[-1]
        if given <= 0:
            return size if isinstance(size, int) else None
        if isinstance(size, int) and given > size:
            self.ctx.fail(f"vocab_size is {given}, and the {self.what} scores {size} tokens")
        return given


class GptDecoder:
    """A decoder in the form of GPT-2.

    It takes tokens, their positions, a mask of all tokens so far and the past of each layer, and gives logits and the
    past with the new tokens. A past has keys and values in one tensor, (2, rows, heads, tokens, size).
    """

    def __init__(self, ctx: Context, graph: onnx.GraphProto, what: str) -> None:
        self.network = Network(ctx, graph, what)
        given, results = list(graph.input), list(graph.output)
        if len(results) < 2 or len(given) != len(results) + 2:
            ctx.fail(
                f"{what} has {len(given)} inputs and {len(results)} outputs; it takes input_ids, position_ids, "
                "attention_mask and a past for each layer, and gives logits and a present for each layer"
                + (f"; {SHARED}" if len(given) > len(results) + 2 else "")
            )
        self.pasts = [self.network.declared(info) for info in given[3:]]
        for info, past in zip(given[3:], self.pasts, strict=True):
            if len(past.shape) != 5 or past.shape[0] != 2 or any(dims.is_any(past.shape[k]) for k in (2, 4)):
                ctx.fail(f"{info.name!r} of {what} is {past}; expected (2, rows, heads, tokens, size), 3 of them known")

    @property
    def ctx(self) -> Context:
        """The node, seen with the decoder's weights in scope."""
        return self.network.ctx

    def nothing(self, rows: Expr) -> list[Expr]:
        """Return the past of each layer before the first token, for as many rows as a tensor has."""
        count = self.ctx.shape(rows)[0]
        shapes = [[2, count, heads, 0, size] for _, _, heads, _, size in (p.shape for p in self.pasts)]
        kinds = [p.dtype for p in self.pasts]
        zeros = [relay.full(self.ctx.constant(0, k), s, k) for s, k in zip(shapes, kinds, strict=True)]
        return [typed(z) for z in zeros]

    def run(
        self, scope: Scope, tokens: Expr, positions: Expr, mask: Expr, pasts: Sequence[Expr]
    ) -> tuple[Expr, list[Expr]]:
        """Return the logits (rows, steps, vocabulary), and the past of each layer with the new tokens."""
        logits, *presents = self.network.run(scope, [tokens, positions, mask, *pasts])
        rows, steps = self.ctx.shape(tokens)
        whole = [
            pinned(self.ctx, new, [2, rows, heads, dims.add(self.ctx.shape(past)[3], steps), size])
            for new, past, (_, _, heads, _, size) in zip(presents, pasts, (p.shape for p in self.pasts), strict=True)
        ]
        return typed(pinned(self.ctx, logits, [rows, steps, AnyDim()])), [typed(p) for p in whole]
