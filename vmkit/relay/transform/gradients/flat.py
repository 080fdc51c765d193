"""Write a function as one expression of operators, tuples and Ifs: its lets and the functions it calls are taken in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm.ir import GlobalVar, Op

from ....errors import ModelError
from ...ir import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var, free_vars, rewrite

__all__ = ["Flat"]


class Flat:
    """Write expressions without lets and calls of functions."""

    def __init__(self, module: tvm.IRModule, mode: str) -> None:
        self.module, self.mode = module, mode
        self.calling: list[Any] = []

    def expression(self, expr: RelayExpr, values: Mapping[Any, RelayExpr]) -> RelayExpr:
        """Return an expression with values in the place of its variables; what was shared is shared."""
        done: dict[Any, RelayExpr] = dict(values)

        def visit(node: RelayExpr) -> RelayExpr:
            while isinstance(node, Let) and node not in done:
                done[node.var] = visit(node.value) if node.var not in free_vars(node.value) else self._refuse_loop(node)
                node = node.body
            if node not in done:
                done[node] = self._rebuilt(node, visit)
            return done[node]

        return visit(expr)

    def _refuse_loop(self, let: Let) -> RelayExpr:
        raise ModelError(f"the gradient of recursion cannot be taken: {let.var.name_hint} calls itself")

    def _rebuilt(self, node: RelayExpr, visit: Callable[[RelayExpr], RelayExpr]) -> RelayExpr:
        match node:
            case Call():
                return self._call(node, visit)
            case Tuple():
                return Tuple([visit(field) for field in node.fields])
            case TupleGetItem():
                whole = visit(node.tuple_value)
                return whole.fields[node.index] if isinstance(whole, Tuple) else TupleGetItem(whole, node.index)
            case If():
                if self.mode == "first_order":
                    raise ModelError("mode 'first_order' takes no If; take mode 'higher_order'")
                return If(visit(node.cond), visit(node.true_branch), visit(node.false_branch))
            case Function():
                return rewrite(node, {variable: visit(variable) for variable in free_vars(node)})
            case Constant() | Op() | GlobalVar() | Var():
                return node
        raise ModelError(f"the gradient of a {type(node).__name__} cannot be taken; it is taken of tensors alone")

    def _call(self, call: Call, visit: Callable[[RelayExpr], RelayExpr]) -> RelayExpr:
        callee, args = visit(call.op), [visit(arg) for arg in call.args]
        if isinstance(callee, Op):
            return Call(callee, args, call.attrs)
        function = self.module[callee] if isinstance(callee, GlobalVar) else callee
        if not isinstance(function, Function):
            raise ModelError(
                f"the gradient of a call of {callee} cannot be taken: which function that is, is not known"
            )
        if callee in self.calling:
            raise ModelError(f"the gradient of recursion cannot be taken: {callee} calls itself")
        self.calling.append(callee)
        try:
            return self.expression(function.body, dict(zip(function.params, args, strict=True)))
        finally:
            self.calling.pop()
