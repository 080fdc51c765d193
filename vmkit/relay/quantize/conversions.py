"""A quantised program in three parts: to integers, the integers themselves, and back to reals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tvm

from ...errors import QuantizationError
from ..analysis import all_dtypes
from ..analysis.infer_type import infer_module, typed
from ..ir import (
    Call,
    Constant,
    Function,
    GlobalVar,
    Op,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    Var,
    children,
    free_vars,
    post_order,
    rewrite,
)

__all__ = ["partition_conversions"]

# What reals become integers with, and integers reals.
_CONVERSIONS = ("add", "multiply", "right_shift", "clip", "round", "cast")


def partition_conversions(
    mod: tvm.IRModule, quantized_dtypes: Collection[str], ensure_fully_integral: bool
) -> tvm.IRModule:
    """Return a quantised module in three functions, which ``main`` calls one after the other.

    Parameters
    ----------
    mod : tvm.IRModule
        A module of ``main`` alone.
    quantized_dtypes : collection of str
        The data types of quantised values.
    ensure_fully_integral : bool
        Whether reals in the middle are an error.

    Returns
    -------
    tvm.IRModule
        ``quantize_inputs``, which gives a tuple, ``quantized_main``, ``dequantize_outputs`` and ``main``.

    Raises
    ------
    QuantizationError
        When there are other functions, or reals in the middle that shall be none.
    """
    mod = typed(mod)
    if len(mod.functions) != 1:
        raise QuantizationError(
            f"partition_conversions takes a module of main alone, not of {len(mod.functions)} functions"
        )
    main = mod["main"]
    prefix, inner = _without_prefix(main)
    middle, outer = _without_suffix(inner, quantized_dtypes)
    result = _joined(main, prefix, middle, outer)
    if ensure_fully_integral:
        _require_integral(result, quantized_dtypes)
    return result


def _is_conversion(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in _CONVERSIONS


def _without_prefix(function: Function) -> tuple[Function, Function]:
    """Return a function from inputs to what quantised operators take of them, and one of the rest.

    The first gives a tuple: as many values as the second has parameters.
    """
    from_inputs: set[Any] = set(function.params)
    cut: dict[Any, Var] = {}
    for node in post_order(function.body):
        if isinstance(node, Constant | Var | Op | GlobalVar):
            continue
        parts = [c for c in children(node) if not isinstance(c, Op)]
        used = [c for c in parts if c in from_inputs]
        if _is_conversion(node) and all(c in from_inputs or isinstance(c, Constant) for c in parts):
            from_inputs.add(node)
        else:
            new = [c for c in used if c not in cut]
            cut.update((c, Var(free_vars(c)[0].name_hint, c.checked_type)) for c in new)
    body = rewrite(function.body, cut)
    rest = set(free_vars(body))
    untouched = [p for p in function.params if p in rest]
    replaced = {p: Var(p.name_hint, p.checked_type) for p in untouched}
    values = [*cut, *untouched]
    inner = Function([*cut.values(), *replaced.values()], rewrite(body, replaced))
    return Function(list(function.params), Tuple(values)), _typed(inner)


def _without_suffix(function: Function, dtypes: Collection[str]) -> tuple[Function, Function]:
    """Return a function that gives the last quantised values, and one from them to the results."""
    last: list[RelayExpr] = []
    seen: set[Any] = set()
    waiting: list[RelayExpr] = [function.body]
    while waiting:
        node = waiting.pop()
        if node in seen or isinstance(node, Constant | Op | GlobalVar):
            continue
        seen.add(node)
        ty = node.checked_type
        if isinstance(ty, TensorType) and ty.dtype in dtypes:
            last.append(node)
        else:
            waiting += reversed(children(node))
    rest = [v for v in free_vars(rewrite(function.body, {n: Constant(tvm.runtime.tensor([0])) for n in last}))]
    if not last or rest:
        # No cut parts the results from the inputs: all of it is the middle.
        whole = Var("input", function.body.checked_type)
        return function, Function([whole], whole)
    names = ["input"] if len(last) == 1 else [f"input{k}" for k in range(len(last))]
    parameters = {n: Var(name, n.checked_type) for n, name in zip(last, names, strict=True)}
    body = last[0] if len(last) == 1 else Tuple(last)
    return Function(list(function.params), body), Function(
        list(parameters.values()), rewrite(function.body, parameters)
    )


def _typed(function: Function) -> Function:
    return infer_module(tvm.IRModule({"main": function}))["main"]


def _joined(main: Function, prefix: Function, middle: Function, suffix: Function) -> tvm.IRModule:
    names = ("quantize_inputs", "quantized_main", "dequantize_outputs")
    functions = {GlobalVar(name): f for name, f in zip(names, (prefix, middle, suffix), strict=True)}
    first, second, third = functions
    params = [Var(p.name_hint, p.checked_type) for p in main.params]
    inputs = Call(first, params)
    outputs = Call(second, [TupleGetItem(inputs, k) for k in range(len(middle.params))])
    count = len(suffix.params)
    last = [outputs] if count == 1 else [TupleGetItem(outputs, k) for k in range(count)]
    whole = {**functions, GlobalVar("main"): Function(params, Call(third, last))}
    return infer_module(tvm.IRModule(whole))


def _require_integral(mod: tvm.IRModule, dtypes: Collection[str]) -> None:
    problems = [
        f"  {name} calls {', '.join(others)}"
        for name in ("quantize_inputs", "dequantize_outputs")
        if (others := _others(mod[name]))
    ]
    reals = all_dtypes(mod["quantized_main"]) - set(dtypes)
    if reals:
        problems.append(f"  quantized_main computes in {', '.join(sorted(reals))}")
    if problems:
        raise QuantizationError("\n".join(["the program is not fully integral", *problems]))


def _others(function: Function) -> Sequence[str]:
    nodes = [n for n in post_order(function) if isinstance(n, Call) and not _is_conversion(n)]
    return sorted({n.op.name if isinstance(n.op, Op) else "a function" for n in nodes})
