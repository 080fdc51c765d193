"""What the Model Library Format cannot hold of a Relay program, named by the nodes that it stands at."""

from __future__ import annotations

from collections.abc import Container, Iterator

import tvm

from ..errors import CompileError, ModelError, VMKitError
from ..relay.ir import (
    Call,
    Function,
    FuncType,
    If,
    Let,
    Match,
    RefCreate,
    RelayExpr,
    TensorType,
    Tuple,
    TupleType,
    Type,
    Var,
    post_order,
)
from ..relay.ir.types import type_text
from ..relay.transform import typed

__all__ = ["require_static", "with_nodes"]

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


def with_nodes(error: CompileError, mod: tvm.IRModule) -> VMKitError:
    """Return the error of a later stage of compilation as one that names the nodes of the program that it comes from.

    It stays as it is where no node makes a value of an unknown size, or one that is no tensor.
    """
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    found = [text for f in (typed(mod).functions.values() if functions else ()) for text in _unknown(f)]
    return _refusal(found) if found else error


def _refuse(function: Function) -> None:
    raise _refusal(list(_unknown(function)))


def _refusal(found: list[str]) -> ModelError:
    return ModelError(
        "\n  ".join(["C needs tensors of sizes that are known when it is compiled", *found[:_MOST_NAMED]])
    )


def _unknown(function: tvm.ir.BaseFunc) -> Iterator[str]:
    """Yield what first makes values that are no tensors of known sizes, each by its node."""
    for node in post_order(function.body) if isinstance(function, Function) else ():
        if isinstance(node, Match | RefCreate):
            yield f"{_where(node)}: a {type(node).__name__}"
        if isinstance(node, Call) and not isinstance(node.op, Function | Var) and _is_static_before(node):
            yield f"{_where(node)}: its result is {type_text(node.checked_type)}"
    if isinstance(function, Function):
        yield from dict.fromkeys(
            f"{_where(node)}: a value of type {type_text(node.checked_type)}" for node in _functions_as_values(function)
        )


def _functions_as_values(function: Function) -> Iterator[RelayExpr]:
    """Yield functions that are passed on, chosen or returned, and so are not known where they are called."""
    for node in (function, *post_order(function.body)):
        match node:
            case Call():
                parts = list(node.args)
            case Tuple():
                parts = list(node.fields)
            case If():
                parts = [node.true_branch, node.false_branch]
            case Function():
                parts = [node.body]
            case _:
                continue
        for part in parts:
            while isinstance(part, Let):
                part = part.body
            if isinstance(part.checked_type, FuncType):
                yield part


def _is_static_before(call: Call) -> bool:
    """Say whether a call makes a value of unknown sizes out of values of known ones."""
    return not _is_static(call.checked_type) and all(_is_static(arg.checked_type) for arg in call.args)


def _where(node: RelayExpr) -> str:
    name = node.op if isinstance(node, Call) else node
    called = str(getattr(name, "name", None) or getattr(name, "name_hint", type(node).__name__))
    span = getattr(node, "span", None)
    source = getattr(getattr(span, "source_name", None), "name", "")
    if span is None or not source:
        return called
    return f"{called} at {source}:{span.line}" if span.line else f"{called} at node {source}"


def _is_static(ty: Type) -> bool:
    """Say whether a type is one of tensors of known sizes."""
    if isinstance(ty, TupleType):
        return all(map(_is_static, ty.fields))
    return isinstance(ty, TensorType) and all(isinstance(d, int) for d in ty.shape)
