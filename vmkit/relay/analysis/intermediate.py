"""A program up to one of its expressions."""

from __future__ import annotations

import tvm

from ...errors import ModelError
from ..ir import Call, Function, Tuple, TupleGetItem, free_vars, post_order, with_functions

__all__ = ["extract_intermdeiate_expr"]


def extract_intermdeiate_expr(mod: tvm.IRModule, expr_id: int) -> tvm.IRModule:
    """Return a module whose ``main`` computes one expression of another's, spelt as Relay spelt it.

    Parameters
    ----------
    mod : tvm.IRModule
        The module.
    expr_id : int
        Which of the calls, tuples and fields of ``main``, counted from 0 in the order of evaluation: the number in
        ``%3`` of the printed text, where no result is written in place.

    Raises
    ------
    ModelError
        When ``main`` has no expression of that number.
    """
    found = [node for node in post_order(mod["main"]) if isinstance(node, Call | Tuple | TupleGetItem)]
    if not 0 <= expr_id < len(found):
        raise ModelError(f"main has {len(found)} calls, tuples and fields, numbered from 0; there is no {expr_id}")
    wanted = found[expr_id]
    rest = {gvar: function for gvar, function in mod.functions.items() if gvar.name_hint != "main"}
    main = Function(free_vars(wanted), wanted)
    return with_functions(mod, {**rest, tvm.ir.GlobalVar("main"): main})
