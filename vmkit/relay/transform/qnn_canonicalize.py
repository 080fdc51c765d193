"""Operators that stand for others, the quantised ones above all, are written out."""

from __future__ import annotations

from collections.abc import Iterable

import tvm

from ...errors import TypeCheckError, VMKitError
from ..analysis.infer_type import infer_changed, typed
from ..ir import Call, Function, Op, RelayExpr, post_order, rewrite, with_functions
from ..op.attached import QNN_CANONICALIZE, attached
from ..op.registry import entry
from .registry import ModuleTransform, is_changeable, relay_pass

__all__ = ["QnnCanonicalize", "canonicalize_ops"]


@relay_pass(opt_level=0)
def QnnCanonicalize() -> ModuleTransform:
    """Return the pass that writes out quantised operators in others; Relay's ``relay.qnn.transform.CanonicalizeOps``.

    See :func:`canonicalize_ops`.
    """
    return lambda mod: canonicalize_ops(typed(mod))


def canonicalize_ops(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a typed module in which every operator that stands for others is replaced by what it stands for.

    A module without such an operator is returned as it is.

    Raises
    ------
    TypeCheckError
        When an operator cannot be written out, such as a requantisation to a scale of 0.
    """
    functions = {v: f for v, f in mod.functions.items() if is_changeable(f)}
    if not _has_any(functions.values()):
        return mod
    result = with_functions(mod)
    for gvar, function in functions.items():
        try:
            result[gvar] = rewrite(function, {}, _canonical)
        except VMKitError as error:
            raise type(error)(f"in @{gvar.name_hint}: {error}") from error
    return infer_changed(result)


def _has_any(functions: Iterable[Function]) -> bool:
    return any(_stands_for_others(node) for function in functions for node in post_order(function))


def _stands_for_others(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and entry(node.op).canonicalize is not None


def _canonical(node: RelayExpr, original: RelayExpr) -> RelayExpr:
    if not _stands_for_others(node):
        return node
    made = entry(node.op)
    hook = attached(node.op, QNN_CANONICALIZE)
    types = [a.checked_type for a in original.args] + [original.checked_type]
    assert made.canonicalize is not None
    own = None if hook is None else hook(node.attrs, list(node.args), types)
    if own is not None:
        return own
    try:
        return made.canonicalize(node.attrs, list(node.args), types)
    except TypeCheckError as error:
        raise TypeCheckError(f"{made.name}: {error}") from error
