"""What the Model Library Format cannot hold of a Relay program, named by the nodes that it stands at."""

from __future__ import annotations

from collections.abc import Container, Iterator

import tvm

from ..errors import ModelError
from ..relay.ir import (
    Call,
    Function,
    GlobalVar,
    Match,
    Op,
    RefCreate,
    RelayExpr,
    TensorType,
    TupleType,
    Type,
    post_order,
)
from ..relay.ir.types import type_text
from ..relay.transform import typed

__all__ = ["require_static"]

_MOST_NAMED = 8


def require_static(mod: tvm.IRModule, bound: Container[str] = ()) -> None:
    """Raise ModelError where a Relay module has sizes that are known at run time only, or values that are no tensors.

    Parameters
    ----------
    bound
        The parameters of ``main`` that are constants.
    """
    functions = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, Function)}
    if "main" not in functions:
        return
    checked = typed(mod)
    main = checked["main"]
    problems = [
        f"input {param.name_hint}: {type_text(param.checked_type)}"
        for param in main.params
        if param.name_hint not in bound and not _is_static(param.checked_type)
    ]
    if problems:
        raise ModelError(
            "\n  ".join(
                ["C needs inputs of known sizes; say them with shapes={...}, or in the module", *problems[:_MOST_NAMED]]
            )
        )
    if not _is_static(main.checked_type.ret_type):
        _refuse(main)


def _refuse(function: Function) -> None:
    found = list(_unknown(function))[:_MOST_NAMED]
    raise ModelError("\n  ".join(["C needs sizes that are known when it is compiled", *found]))


def _unknown(function: Function) -> Iterator[str]:
    """Yield what first makes values of unknown sizes, each by its node."""
    for node in post_order(function.body):
        if isinstance(node, Match | RefCreate):
            yield f"{_where(node)}: a {type(node).__name__}"
        if isinstance(node, Call) and isinstance(node.op, Op | GlobalVar) and _is_static_before(node):
            yield f"{_where(node)}: its result is {type_text(node.checked_type)}"


def _is_static_before(call: Call) -> bool:
    """Say whether a call makes a value of unknown sizes out of values of known ones."""
    return not _is_static(call.checked_type) and all(_is_static(arg.checked_type) for arg in call.args)


def _where(node: RelayExpr) -> str:
    name = node.op if isinstance(node, Call) else None
    called = str(getattr(name, "name", None) or getattr(name, "name_hint", type(node).__name__))
    source = getattr(getattr(node, "span", None), "source_name", None)
    return f"{called} at node {source.name}" if source is not None and source.name else called


def _is_static(ty: Type) -> bool:
    """Say whether a type is one of tensors of known sizes."""
    if isinstance(ty, TupleType):
        return all(map(_is_static, ty.fields))
    return isinstance(ty, TensorType) and all(isinstance(d, int) for d in ty.shape)
