"""How much memory is in use while each kernel of a program runs, as attributes of the functions."""

from __future__ import annotations

from math import prod
from typing import Any, cast

import tvm

from ...errors import ModelError
from ...stack import on_deep_stack
from ..analysis.infer_type import infer_module, typed
from ..analysis.liveness import live_variables
from ..expr_functor import ExprMutator
from ..ir import (
    Call,
    Function,
    FuncType,
    If,
    Let,
    Match,
    RelayExpr,
    TensorType,
    TupleType,
    Type,
    Var,
    with_functions,
)
from .registry import ModuleTransform, relay_pass

__all__ = ["AnnotateUsedMemory", "with_used_memory"]


@relay_pass(opt_level=0)
def AnnotateUsedMemory() -> ModuleTransform:
    """Return the pass that notes the memory in use at the calls of ``main``; see :func:`with_used_memory`."""

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        mod = typed(mod)
        functions = dict(mod.functions.items())
        functions[mod.get_global_var("main")] = with_used_memory(mod["main"])
        return infer_module(with_functions(mod, functions))

    return on_module


def with_used_memory(function: Function) -> Function:
    """Return a typed function in A-normal form with the bytes in use as attributes.

    A function marked ``Primitive`` that a Let binds gets ``used_memory``, one number for each of its calls: the bytes
    of all variables that are needed before or after the call. The function itself gets ``io_used_memory``, the bytes of
    its parameters and result.

    Raises
    ------
    ModelError
        When the function is not in A-normal form, binds a function that is not ``Primitive``, or a size is not known
        before the program runs.
    """
    lets = _in_order(function)
    kernels: dict[Any, list[int]] = {}
    for let in lets:
        if isinstance(let.value, Function):
            if not let.value.attrs.get("Primitive"):
                raise ModelError(f"%{let.var.name_hint} is a function that is not Primitive; inline or lift it first")
            kernels[let.var] = []
    live = live_variables(function)
    for let in lets:
        if isinstance(let.value, Call) and let.value.op in kernels:
            needed = live.before[let] | live.after[let]
            kernels[let.value.op].append(sum(_bytes(v.checked_type) for v in needed if v not in kernels))
    bytes_of_io = sum(_bytes(p.checked_type) for p in function.params) + _bytes(function.body.checked_type)
    made = cast("Function", on_deep_stack(_Noting(kernels).visit, function))
    return made.with_attr("io_used_memory", bytes_of_io)


def _in_order(function: Function) -> list[Let]:
    """Return the Lets of a function in the order of evaluation."""
    found: list[Let] = []
    waiting: list[RelayExpr] = [function.body]
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, Let):
            found.append(expr)
            waiting += [expr.body, *(reversed(_branches(expr.value)))]
    return found


def _branches(value: RelayExpr) -> list[RelayExpr]:
    if isinstance(value, If):
        return [value.true_branch, value.false_branch]
    return [clause.rhs for clause in value.clauses] if isinstance(value, Match) else []


def _bytes(ty: Type) -> int:
    if isinstance(ty, TupleType):
        return sum(map(_bytes, ty.fields))
    if isinstance(ty, FuncType):
        return 0
    if not isinstance(ty, TensorType):
        raise ModelError(f"AnnotateUsedMemory knows the size of tensors and tuples of them, not of {ty}")
    if not all(isinstance(size, int) for size in ty.shape):
        raise ModelError(f"AnnotateUsedMemory does not support dynamic shapes: {ty}")
    return prod(ty.shape) * ((tvm.DataType(ty.dtype).bits + 7) // 8)


class _Noting(ExprMutator):
    def __init__(self, kernels: dict[Any, list[int]]) -> None:
        super().__init__()
        self.kernels = kernels

    def visit_let(self, let: Let) -> RelayExpr:
        value = self.visit(let.value)
        if let.var in self.kernels:
            value = cast("Function", value).with_attr("used_memory", self.kernels[let.var])
        # The type of a function says nothing of its attributes, so the variable stays.
        return Let(cast("Var", let.var), value, self.visit(let.body), let.span)
