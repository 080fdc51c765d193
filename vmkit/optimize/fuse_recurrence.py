"""Loops over the steps of a recurrent layer become one operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tvm

from ..relay.analysis.infer_type import infer_module, typed
from ..relay.ir import Call, Constant, Expr, Function, GlobalVar, RelayExpr, const, with_functions
from ..relay.op.registry import build
from ..relay.recurrent_loop import RecurrentLoop
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, relay_pass
from ..relay.transform.remove_unused_functions import RemoveUnusedFunctions
from ..target.integer_unit import IntegerUnit

__all__ = ["FuseRecurrence"]

_QUANTIZED = "quantized_lstm"


@relay_pass(opt_level=1)
def FuseRecurrence(lanes: int = 16, unit: IntegerUnit | None = None) -> ModuleTransform:
    """Return the pass that makes the loop of a recurrent layer one operator, whose steps are one kernel.

    Parameters
    ----------
    lanes : int
        How many float32 a vector of the target has.
    unit : IntegerUnit, optional
        What multiplies integers of 8 bits, for recurrences that are quantised.
    """

    def fused(mod: tvm.IRModule) -> tvm.IRModule:
        marks = {v: RecurrentLoop.of(f) for v, f in mod.functions.items() if isinstance(f, Function)}
        loops = {v: loop for v, loop in marks.items() if loop is not None}
        if not loops:
            return mod
        constants = {v: RecurrentLoop.constants_of(mod[v]) for v, loop in loops.items() if loop.cell == _QUANTIZED}
        mod = typed(mod)
        result = with_functions(mod)
        for gvar, function in mod.functions.items():
            if isinstance(function, Function) and gvar not in loops:
                result[gvar] = rewrite_typed(function, lambda node: _layer(node, loops, constants, lanes, unit))
        return RemoveUnusedFunctions()(infer_module(result))

    return fused


def _layer(
    node: RelayExpr,
    loops: Mapping[GlobalVar, RecurrentLoop],
    constants: Mapping[GlobalVar, tuple[Constant, Constant, Constant]],
    lanes: int,
    unit: IntegerUnit | None,
) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op in loops):
        return node
    if node.op in constants:
        return _quantized(node, loops[node.op], constants[node.op], unit)
    return _fused(node, loops[node.op], lanes)


def _fused(node: Call, loop: RecurrentLoop, lanes: int) -> RelayExpr:
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


def _quantized(
    node: Call, loop: RecurrentLoop, constants: tuple[Constant, Constant, Constant], unit: IntegerUnit | None
) -> RelayExpr:
    """Return a layer whose recurrence is quantised; the node as it is where there is no kernel for it."""
    integers, scale, zero = (value.data.numpy() for value in constants)
    hidden = len(integers)
    # Tiles multiply many rows sooner than a kernel of vectors does.
    if unit is None or unit.has_tiles or loop.has_lengths or hidden < unit.lanes:
        return node
    weight = integers.astype("int32") - zero.astype("int32")
    if weight.min() < -128 or weight.max() > 127:
        return node
    _, _, rows, state, cell, *peepholes = node.args
    if any(type_of(value).dtype != "float32" for value in (rows, state, cell, *peepholes)):
        return node
    begins = _begins(hidden, unit.lanes)
    units = begins[:, None] + np.arange(unit.lanes)

    def of_units(values: np.ndarray) -> Expr:
        whole = np.broadcast_to(values.reshape(-1), (4 * hidden,)).reshape(4, hidden)
        return const(np.ascontiguousarray(whole[:, units].transpose(1, 0, 2)))

    filled = np.pad(weight.astype("int8"), ((0, -hidden % unit.group), (0, 0)))
    groups = filled.reshape(-1, unit.group, 4, hidden)[..., units].transpose(3, 0, 2, 4, 1)
    operands = [const(np.ascontiguousarray(groups)), of_units(scale), of_units(weight.sum(0, dtype="int32"))]
    vectors = [_joined(peepholes)] if peepholes else []
    return build(
        "nn.contrib_quantized_lstm",
        rows,
        *operands,
        state,
        cell,
        *vectors,
        hidden=hidden,
        is_reverse=loop.is_reverse,
        activations=loop.functions,
        clip=loop.clip,
        has_peepholes=loop.has_peepholes,
        input_forget=loop.input_forget,
    )


def _begins(hidden: int, lanes: int) -> np.ndarray:
    """Return where blocks of hidden units begin, of which the last ends with them, and may share some with another."""
    return np.minimum(np.arange(-(-hidden // lanes)) * lanes, hidden - lanes)


def _blocked(weight: Expr, gates: int, lanes: int) -> Expr | None:
    """Return a recurrence's weights (gates * hidden, hidden) in blocks; None where there is no kernel for them."""
    _rows, hidden = weight.checked_type.shape
    if not isinstance(hidden, int) or hidden < 1 or weight.checked_type.dtype != "float32":
        return None
    lanes = min(lanes, 1 << (hidden.bit_length() - 1))
    blocks = -(-hidden // lanes)
    split = build("reshape", weight, newshape=[gates, hidden, hidden])
    if hidden % lanes:
        begins = _begins(hidden, lanes)
        split = build("take", split, const((begins[:, None] + np.arange(lanes)).reshape(-1), "int64"), axis=1)
    split = build("reshape", split, newshape=[gates, blocks, lanes, hidden])
    return build("transpose", split, axes=[1, 3, 0, 2])
