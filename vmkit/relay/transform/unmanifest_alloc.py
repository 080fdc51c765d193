"""Calls that write into memory which the program asked for give their results back as values.

The reverse of :func:`.manifest_alloc.ManifestAlloc`, so that what it leaves can be compiled.
"""

from __future__ import annotations

from typing import Any, cast

import tvm

from ...errors import ModelError
from ...stack import on_deep_stack
from ..analysis.infer_type import infer_module
from ..expr_functor import ExprMutator
from ..ir import (
    Call,
    Expr,
    Function,
    FuncType,
    Let,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    is_call,
    post_order,
    with_functions,
)
from ..op.vm import shape_of
from .flat_tuples import leaves, structured
from .registry import ModuleTransform, relay_pass

__all__ = ["UnmanifestAlloc", "with_values"]

_WRITERS = ("vm.invoke_tvm_op", "vm.shape_func")
_ALLOCATIONS = ("memory.alloc_storage", "memory.alloc_tensor")


@relay_pass(opt_level=0)
def UnmanifestAlloc() -> ModuleTransform:
    """Return the pass that makes values of what calls write into memory; see :func:`with_values`."""

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and _writes(f)}
        if not functions:
            return mod
        changed = {v: with_values(f) for v, f in functions.items()}
        return infer_module(with_functions(mod, {**dict(mod.functions.items()), **changed}))

    return on_module


def _writes(function: Function) -> bool:
    return any(is_call(node, *_WRITERS) for node in post_order(function))


def with_values(function: Function) -> Function:
    """Return a typed function in which Lets bind results of calls to the variables whose tensors they were written to.

    ``vm.invoke_tvm_op(f, (a,), (t,))`` becomes ``let t = f(a)``, and the allocation of ``t`` goes. What a shape
    function writes becomes the shape of what the function itself gives: where nothing else needs that, no such kernel
    is compiled. A tensor that no such call writes to keeps its allocation, which the compiler refuses.
    """
    return cast("Function", on_deep_stack(_Values(function).visit, function))


def _bare(value: RelayExpr) -> RelayExpr:
    return value.args[0] if is_call(value, "on_device") else value


class _Values(ExprMutator):
    def __init__(self, function: Function) -> None:
        super().__init__()
        lets = [node for node in post_order(function) if isinstance(node, Let)]
        self.bound: dict[Any, RelayExpr] = {let.var: _bare(let.value) for let in lets}
        calls = [value for value in self.bound.values() if is_call(value, *_WRITERS)]
        self.written = {each for call in calls for each in self.fields(call.args[2])}
        self.gone = {v for v in self.written if is_call(self.bound.get(v), *_ALLOCATIONS)}
        self.gone |= {self.bound[v].args[0] for v in self.gone if isinstance(self.bound[v].args[0], Var)}

        self.callees = {call.args[0]: self.bound[call.args[0]] for call in calls if call.args[0] in self.bound}

    def fields(self, tup: RelayExpr) -> list[RelayExpr]:
        """Return the fields of a tuple that stands where it is used or is bound by a Let."""
        found = self.bound.get(tup, tup)
        if isinstance(found, Tuple):
            return list(found.fields)
        return [TupleGetItem(tup, i) for i in range(len(cast("TupleType", tup.checked_type).fields))]

    def visit_let(self, let: Let) -> RelayExpr:
        value = _bare(let.value)
        killed = value.args[0] if is_call(value, "memory.kill") else None
        if let.var in self.gone or killed in self.gone or killed in self.callees:
            return self.visit(let.body)
        if let.var in self.callees:
            self.memo_map[let.var] = value
            return self.visit(let.body)
        if not (is_call(value, *_WRITERS) and all(each in self.gone for each in self.fields(value.args[2]))):
            return super().visit_let(let)
        bindings = self.results(value) if is_call(value, "vm.invoke_tvm_op") else self.shapes(value)
        body = self.visit(let.body)
        for variable, made in reversed(bindings):
            body = Let(variable, made, body)
        return body

    def results(self, call: Call) -> list[tuple[Var, RelayExpr]]:
        """Return the results of a kernel, each with the variable of the tensor that they were written to."""
        args = [self.visit(each) for each in self.fields(call.args[1])]
        result = Var("result")
        made = Call(self.visit(call.args[0]), args)
        parts = leaves(call.args[0].checked_type.ret_type, result)
        return [(result, made), *zip(self.written_by(call), parts, strict=True)]

    def shapes(self, call: Call) -> list[tuple[Var, RelayExpr]]:
        """Return the shapes of a kernel's results, each with the variable of the vector that they were written to."""
        ty = cast("FuncType", call.args[0].checked_type)
        operands = zip(self.fields(call.args[1]), call.attrs.is_input, strict=True)
        values = (self.value_of(operand) if not is_value else self.visit(operand) for operand, is_value in operands)
        args = [structured(param, values) for param in ty.arg_types]
        result = Var("shaped")
        parts = leaves(ty.ret_type, result)
        bindings = [(v, shape_of(cast("Expr", part))) for v, part in zip(self.written_by(call), parts, strict=True)]
        return [(result, Call(self.visit(call.args[0]), args)), *bindings]

    def written_by(self, call: Call) -> list[Var]:
        """Return the variables of the tensors that a call writes to."""
        return cast("list[Var]", self.fields(call.args[2]))

    def value_of(self, shape: RelayExpr) -> RelayExpr:
        """Return a tensor of which an expression is the shape."""
        found = self.bound.get(shape, shape)
        if not is_call(found, "vm.shape_of"):
            raise ModelError("vm.shape_func is compiled where what it takes is a value or vm.shape_of one")
        return self.visit(found.args[0])
