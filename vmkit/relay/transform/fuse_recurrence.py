"""Loops over the steps of a recurrent layer become one operator."""

from __future__ import annotations

from typing import Any

import tvm

from ..ir import Call, Function, GlobalVar, with_functions
from ..op.registry import build
from .infer_type import infer_module, typed
from .known_type import rewrite_typed
from .registry import ModuleTransform, relay_pass
from .remove_unused_functions import RemoveUnusedFunctions

__all__ = ["LSTM_LOOP", "FuseRecurrence"]

# The attribute of a function (position, collected, rows, state, cell, recurrence) that runs the steps of an LSTM with
# its usual activations from a position on; the value says which way: "forward" or "reverse".
LSTM_LOOP = "vmkit.lstm_loop"


@relay_pass(opt_level=2)
def FuseRecurrence(lanes: int = 16) -> ModuleTransform:
    """Return the pass that makes the loop of an LSTM one operator, whose steps are one kernel.

    Parameters
    ----------
    lanes : int
        How many float32 a vector of the target has. A hidden size that is no multiple of it stays a loop.
    """

    def fused(mod: tvm.IRModule) -> tvm.IRModule:
        loops = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and f.attrs.get(LSTM_LOOP)}
        if not loops:
            return mod
        mod = typed(mod)
        result = with_functions(mod)
        for gvar, function in mod.functions.items():
            if isinstance(function, Function) and gvar not in loops:
                result[gvar] = rewrite_typed(function, lambda node: _fused(node, loops, lanes))
        return RemoveUnusedFunctions()(infer_module(result))

    return fused


def _fused(node: Any, loops: dict[GlobalVar, Function], lanes: int) -> Any:
    if not (isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op in loops):
        return node
    _, _, rows, state, cell, weight = node.args
    _gates, hidden = weight.checked_type.shape
    if not isinstance(hidden, int) or hidden % lanes or weight.checked_type.dtype != "float32":
        return node
    split = build("reshape", weight, newshape=[4, hidden // lanes, lanes, hidden])
    blocked = build("transpose", split, axes=[1, 3, 0, 2])
    is_reverse = str(loops[node.op].attrs[LSTM_LOOP]) == "reverse"
    return build("nn.contrib_lstm", rows, blocked, state, cell, is_reverse=is_reverse)
