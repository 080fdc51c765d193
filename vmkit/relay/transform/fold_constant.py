"""Constant folding: what depends on constants alone is computed when compiling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import tvm

from ..ir import (
    Call,
    Constant,
    Function,
    Op,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    children,
    const,
    post_order,
    rewrite,
    with_functions,
)
from ..op.registry import entry
from .infer_type import infer_module, typed
from .registry import ModuleTransform, relay_pass

__all__ = ["Evaluate", "FoldConstant", "fold_constants"]

Evaluate = Callable[[tvm.IRModule], Sequence[Any]]

# A folded value may be larger than what it is computed from by this much before it is left to run time: a constant
# broadcast to a large shape costs more to store than to compute.
_GROWTH_BYTES = 1 << 20


@relay_pass(opt_level=2)
def FoldConstant(fold_qnn: bool = False) -> ModuleTransform:
    """Return the pass that computes what depends on constants alone; see :func:`fold_constants`.

    Parameters
    ----------
    fold_qnn : bool
        Whether operators of quantised numbers on constants are computed, too.
    """
    # What runs a program stands above Relay.
    from ...compiler import evaluate

    return lambda mod: fold_constants(typed(mod), evaluate, fold_qnn)


def fold_constants(mod: tvm.IRModule, evaluate: Evaluate, fold_qnn: bool = True) -> tvm.IRModule:
    """Return a typed module in which calls of operators on constants are constants.

    Parameters
    ----------
    mod : tvm.IRModule
        The Relay module, its types inferred.
    evaluate : callable
        Runs ``main`` of a module without parameters and returns the fields of its tuple result as arrays. All values
        of the module are computed in one such run.
    fold_qnn : bool
        Whether operators of quantised numbers on constants are computed, too.
    """
    functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
    wanted = _foldable(functions.values(), fold_qnn)
    if not wanted:
        return mod
    values = evaluate(infer_module(tvm.IRModule({"main": Function([], Tuple(wanted))})))
    folded = {expr: const(np.asarray(value)) for expr, value in zip(wanted, values, strict=True)}
    result = with_functions(mod)
    for gvar, function in functions.items():
        result[gvar] = rewrite(function, folded)
    return infer_module(result)


def _foldable(functions: Iterable[Function], fold_qnn: bool) -> list[Any]:
    """Return the largest tensor expressions that depend on constants alone, each once."""
    sizes: dict[Any, int] = {}
    wanted: dict[Any, None] = {}
    for function in functions:
        for node in post_order(function):
            operands = None if _is_quantized(node) and not fold_qnn else _operands(node)
            if operands is not None and all(o in sizes for o in operands):
                size = _bytes_of(node.checked_type)
                is_stored = isinstance(node, Constant)
                if size is not None and (is_stored or size <= sum(sizes[o] for o in operands) + _GROWTH_BYTES):
                    sizes[node] = size
                    continue
            for child in children(node):
                parts = child.fields if isinstance(child, Tuple) else [child]
                wanted.update((p, None) for p in parts if p in sizes and _is_computed(p))
    return list(wanted)


def _operands(node: Any) -> list[Any] | None:
    """Return what a node's value is computed from, or None for a node that is never folded."""
    if isinstance(node, Constant):
        return []
    if isinstance(node, Tuple):
        return list(node.fields)
    if isinstance(node, TupleGetItem):
        return [node.tuple_value]
    if isinstance(node, Call) and isinstance(node.op, Op) and entry(node.op).is_pure and not _has_symbols(node.attrs):
        return list(node.args)
    return None


def _is_quantized(node: Any) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name.startswith("qnn.")


def _has_symbols(attrs: Any) -> bool:
    """Say whether attributes hold symbolic dimensions, whose values only the run gives."""
    waiting = [getattr(attrs, field.name) for field in attrs.declared] if attrs is not None else []
    while waiting:
        value = waiting.pop()
        if isinstance(value, Sequence) and not isinstance(value, str):
            waiting += list(value)
        elif isinstance(value, tvm.ir.Expr) and not isinstance(value, tvm.tirx.IntImm):
            return True
    return False


def _is_computed(node: Any) -> bool:
    return not isinstance(node, Constant) and isinstance(node.checked_type, TensorType)


def _bytes_of(ty: Type) -> int | None:
    """Return the size of a type's values, or None where it is not known at compile time."""
    if isinstance(ty, TupleType):
        sizes = [_bytes_of(f) for f in ty.fields]
        return None if None in sizes else sum(s for s in sizes if s is not None)
    if not isinstance(ty, TensorType) or not all(isinstance(d, int) for d in ty.shape):
        return None
    return prod(ty.shape) * max(1, tvm.DataType(ty.dtype).bits // 8)
