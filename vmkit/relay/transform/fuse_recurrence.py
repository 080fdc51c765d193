"""Loops over the steps of a recurrent layer become one operator."""

from __future__ import annotations

from typing import Any

import tvm

from ..ir import Call, Expr, Function, GlobalVar, with_functions
from ..op.registry import build
from .infer_type import infer_module, typed
from .known_type import rewrite_typed, type_of
from .registry import ModuleTransform, relay_pass
from .remove_unused_functions import RemoveUnusedFunctions

__all__ = ["GRU_LOOP", "LSTM_LOOP", "FuseRecurrence"]

# The attribute of a function (position, collected, rows, state, cell, recurrence) that runs the steps of an LSTM with
# its usual activations from a position on; the value says which way: "forward" or "reverse".
LSTM_LOOP = "vmkit.lstm_loop"
# That of a function (position, collected, rows, state, recurrence of the update and reset gates, recurrence and bias of
# the hidden gate) that does so for a GRU; the value says which way, and then whether the state's product comes
# "before" or "after" the reset gate.
GRU_LOOP = "vmkit.gru_loop"


@relay_pass(opt_level=2)
def FuseRecurrence(lanes: int = 16) -> ModuleTransform:
    """Return the pass that makes the loop of an LSTM or a GRU one operator, whose steps are one kernel.

    Parameters
    ----------
    lanes : int
        How many float32 a vector of the target has. A hidden size that is no multiple of it stays a loop.
    """

    def fused(mod: tvm.IRModule) -> tvm.IRModule:
        loops = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and _is_loop(f)}
        if not loops:
            return mod
        mod = typed(mod)
        result = with_functions(mod)
        for gvar, function in mod.functions.items():
            if isinstance(function, Function) and gvar not in loops:
                result[gvar] = rewrite_typed(function, lambda node: _fused(node, loops, lanes))
        return RemoveUnusedFunctions()(infer_module(result))

    return fused


def _is_loop(function: Function) -> bool:
    return bool(function.attrs.get(LSTM_LOOP) or function.attrs.get(GRU_LOOP))


def _fused(node: Any, loops: dict[GlobalVar, Function], lanes: int) -> Any:
    if not (isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op in loops):
        return node
    attrs = loops[node.op].attrs
    if attrs.get(LSTM_LOOP):
        _, _, rows, state, cell, weight = node.args
        blocked = _blocked(weight, 4, lanes)
        if blocked is None:
            return node
        return build("nn.contrib_lstm", rows, blocked, state, cell, is_reverse=str(attrs[LSTM_LOOP]) == "reverse")
    _, _, rows, state, gates, last, bias = node.args
    direction, order = str(attrs[GRU_LOOP]).split()
    weight = build("concatenate", [gates, last], 0)
    type_of(weight)
    blocked = _blocked(weight, 3, lanes)
    if blocked is None:
        return node
    flags = {"is_reverse": direction == "reverse", "linear_before_reset": order == "before"}
    return build("nn.contrib_gru", rows, blocked, bias, state, **flags)


def _blocked(weight: Expr, gates: int, lanes: int) -> Any:
    """Return a recurrence's weights (gates * hidden, hidden) in blocks; None where vectors do not divide them."""
    _rows, hidden = weight.checked_type.shape
    if not isinstance(hidden, int) or hidden % lanes or weight.checked_type.dtype != "float32":
        return None
    split = build("reshape", weight, newshape=[gates, hidden // lanes, lanes, hidden])
    return build("transpose", split, axes=[1, 3, 0, 2])
