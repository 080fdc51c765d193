"""Loops over the steps of a recurrent layer become one operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tvm

from ..relay.analysis.infer_type import infer_module, typed
from ..relay.ir import Call, Expr, Function, GlobalVar, RelayExpr, const, with_functions
from ..relay.op.registry import build
from ..relay.recurrent_loop import RecurrentLoop
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, relay_pass
from ..relay.transform.remove_unused_functions import RemoveUnusedFunctions

__all__ = ["FuseRecurrence"]


@relay_pass(opt_level=1)
def FuseRecurrence(lanes: int = 16) -> ModuleTransform:
    """Return the pass that makes the loop of a recurrent layer one operator, whose steps are one kernel.

    Parameters
    ----------
    lanes : int
        How many float32 a vector of the target has.
    """

    def fused(mod: tvm.IRModule) -> tvm.IRModule:
        marks = {v: RecurrentLoop.of(f) for v, f in mod.functions.items() if isinstance(f, Function)}
        loops = {v: loop for v, loop in marks.items() if loop is not None}
        if not loops:
            return mod
        mod = typed(mod)
        result = with_functions(mod)
        for gvar, function in mod.functions.items():
            if isinstance(function, Function) and gvar not in loops:
                result[gvar] = rewrite_typed(function, lambda node: _fused(node, loops, lanes))
        return RemoveUnusedFunctions()(infer_module(result))

    return fused


def _fused(node: RelayExpr, loops: Mapping[GlobalVar, RecurrentLoop], lanes: int) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op in loops):
        return node
    loop = loops[node.op]
    _, _, rows, *rest = node.args
    lengths = [_integers(rest.pop())] if loop.has_lengths else []
    options = {"is_reverse": loop.is_reverse, "activations": loop.functions, "clip": loop.clip}
    match loop.cell:
        case "lstm":
            state, cell, recurrence, *peepholes = rest
            gates, states = 4, [state, cell]
            vectors = [_joined(peepholes)] if peepholes else []
            options |= {"has_peepholes": loop.has_peepholes, "input_forget": loop.input_forget}
        case "gru":
            state, update_and_reset, hidden_gate, bias = rest
            gates, states, vectors = 3, [state], [bias]
            recurrence = _joined([update_and_reset, hidden_gate])
            options |= {"linear_before_reset": loop.linear_before_reset}
        case _:
            state, recurrence = rest
            gates, states, vectors = 1, [state], []
    weight = _blocked(recurrence, gates, lanes)
    if weight is None:
        return node
    return build(f"nn.contrib_{loop.cell}", rows, weight, *states, *vectors, *lengths, **options)


def _joined(parts: Sequence[Expr]) -> Expr:
    whole = build("concatenate", list(parts), 0)
    type_of(whole)
    return whole


def _integers(lengths: Expr) -> Expr:
    is_fit = type_of(lengths).dtype in ("int32", "int64")
    return lengths if is_fit else build("cast", lengths, "int64")


def _blocked(weight: Expr, gates: int, lanes: int) -> Expr | None:
    """Return a recurrence's weights (gates * hidden, hidden) in blocks; None where there is no kernel for them."""
    _rows, hidden = weight.checked_type.shape
    if not isinstance(hidden, int) or hidden < 1 or weight.checked_type.dtype != "float32":
        return None
    lanes = min(lanes, 1 << (hidden.bit_length() - 1))
    blocks = -(-hidden // lanes)
    split = build("reshape", weight, newshape=[gates, hidden, hidden])
    if hidden % lanes:
        # The last block ends with the hidden units, and shares some with the block before.
        begins = np.minimum(np.arange(blocks) * lanes, hidden - lanes)
        split = build("take", split, const((begins[:, None] + np.arange(lanes)).reshape(-1), "int64"), axis=1)
    split = build("reshape", split, newshape=[gates, blocks, lanes, hidden])
    return build("transpose", split, axes=[1, 3, 0, 2])
