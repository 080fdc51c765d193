"""What goes into and comes out of the parts of a program that another compiler is to take, on given inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm.ir import GlobalVar
from tvm.runtime import Tensor

from ..errors import InputError, ModelError
from ..relay.ir import (
    Call,
    Expr,
    Function,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TupleType,
    const,
    post_order,
    rewrite,
    with_functions,
)
from ..relay.transform import InferType
from .stages import evaluate

__all__ = ["get_calibration_data"]


def get_calibration_data(mod: tvm.IRModule, data: Mapping[str, Any]) -> dict[GlobalVar, dict[str, list[Tensor]]]:
    """Return the arguments and the results of the functions for other compilers, in one run on this machine.

    Parameters
    ----------
    mod : tvm.IRModule
        The program; the functions in question have the attribute ``Compiler`` and are called from ``main``, each once.
    data : mapping of str to array
        The inputs of ``main`` by name.

    Returns
    -------
    dict of GlobalVar to dict
        By function: ``"inputs"``, a tensor for each parameter, and ``"outputs"``, one for each field of a tuple.

    Raises
    ------
    InputError
        When an input has no value.
    ModelError
        When a function is called more than once, or not at all.
    """
    typed = InferType()(mod)
    calls = _calls(typed)
    main = typed["main"]
    missing = [p.name_hint for p in main.params if p.name_hint not in data]
    if missing:
        raise InputError(f"there is no data for {', '.join(missing)}, which main takes")
    values: list[RelayExpr] = []
    slots: dict[GlobalVar, tuple[slice, slice]] = {}
    for gvar, call in calls.items():
        begin, middle = len(values), len(values) + len(call.args)
        values += [*call.args, *_fields(call)]
        slots[gvar] = slice(begin, middle), slice(middle, len(values))
    given = {p: const(data[p.name_hint]) for p in main.params}
    found = evaluate(_plain(typed, rewrite(Tuple(values), given)))
    return {g: {"inputs": list(found[i]), "outputs": list(found[o])} for g, (i, o) in slots.items()}


def _calls(mod: tvm.IRModule) -> dict[GlobalVar, Call]:
    """Return the call in ``main`` of each function that is for another compiler."""
    wanted = [g for g, f in mod.functions.items() if isinstance(f, Function) and f.attrs and f.attrs.get("Compiler")]
    sites: dict[str, list[Call]] = {g.name_hint: [] for g in wanted}
    for node in post_order(mod["main"].body):
        if isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op.name_hint in sites:
            sites[node.op.name_hint].append(node)
    wrong = [f"@{name} is called {len(found)} times" for name, found in sites.items() if len(found) != 1]
    if wrong:
        raise ModelError(f"each function for another compiler is to be called once from main: {', '.join(wrong)}")
    return {g: sites[g.name_hint][0] for g in wanted}


def _fields(call: Expr) -> Sequence[RelayExpr]:
    ty = call.checked_type
    return [TupleGetItem(call, i) for i in range(len(ty.fields))] if isinstance(ty, TupleType) else [call]


def _plain(mod: tvm.IRModule, body: RelayExpr) -> tvm.IRModule:
    """Return a module that this compiler takes whole, and whose ``main`` has another body and no parameters."""
    plain = with_functions(mod)
    for gvar, function in mod.functions.items():
        if isinstance(function, Function):
            plain[gvar] = Function(function.params, function.body, function.ret_type, list(function.type_params))
    plain["main"] = Function([], body)
    return plain
