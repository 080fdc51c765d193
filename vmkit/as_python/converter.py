"""Expressions of Relay, each of whose values has a name, as statements of Python."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Sequence
from typing import Any

import tvm
from tvm.ir import GlobalVar, Op
from tvm.target import Target

from ..errors import ModelError
from ..relay.ir import (
    Call,
    Constant,
    Constructor,
    Function,
    If,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from ..relay.json import save_json
from .literals import literal
from .patterns import bindings, condition
from .syntax import assigned, call, name, text

__all__ = ["Converter"]

# The module that programs import what they need from.
_SUPPORT = "vmkit.as_python.support"
_SUPPORTED = ("ADT", "RefValue", "constructor", "no_match", "operator", "tensor", "truth")

Block = list[ast.stmt]


class Converter:
    """Writes the program of a module's expressions.

    Parameters
    ----------
    mod : tvm.IRModule
        Where global functions are found.
    target : str or Target
        What operators are compiled for.
    """

    def __init__(self, mod: tvm.IRModule, target: str | Target) -> None:
        self._mod = mod
        self._target = str(target)
        self._taken = set(_SUPPORTED)
        self._names: dict[Any, str] = {}
        self._globals: dict[str, str] = {}
        # What stands before the first statement: constants and operators, each once, and global functions.
        self._constants: Block = []
        self._operators: dict[tuple[str, str | None], str] = {}
        self._functions: Block = []

    def program(self, expr: RelayExpr, output: str) -> ast.Module:
        """Return a program that puts the value of an expression into the variable `output`."""
        self._taken.add(output)
        body: Block = []
        self._into(output, expr, body)
        imported = ast.ImportFrom(_SUPPORT, [ast.alias(each) for each in _SUPPORTED], 0)
        operators: Block = [
            assigned(own, call("operator", text(key[0]), text(key[1]), text(self._target)))
            for key, own in self._operators.items()
        ]
        whole = ast.Module([imported, *self._constants, *operators, *self._functions, *body], [])
        return ast.fix_missing_locations(whole)

    # -- names

    def _fresh(self, hint: str) -> str:
        plain = re.sub(r"\W", "_", hint)
        base = plain if plain and not plain[0].isdigit() and not keyword.iskeyword(plain) else f"v_{plain}"
        number = 1
        while f"{base}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{base}_{number}")
        return f"{base}_{number}"

    def _variable(self, var: Var) -> str:
        if var not in self._names:
            self._names[var] = self._fresh(var.name_hint)
        return self._names[var]

    def _named(self, value: ast.expr, body: Block, own: str) -> ast.expr:
        own = own or self._fresh("value")
        body.append(assigned(own, value))
        return name(own)

    # -- expressions

    def _into(self, own: str, expr: RelayExpr, body: Block) -> None:
        """Add the statements after which a variable has the value of an expression."""
        value = self._value(expr, body, own)
        if not (isinstance(value, ast.Name) and value.id == own):
            body.append(assigned(own, value))

    def _value(self, expr: RelayExpr, body: Block, own: str = "") -> ast.expr:
        """Return the name of a value, whose computation is added to `body`: `own`, if it is computed here."""
        while isinstance(expr, Let):
            # A function may call itself by the variable: it is defined under its name.
            self._into(self._variable(expr.var), expr.value, body)
            expr = expr.body
        match expr:
            case Var():
                return name(self._variable(expr))
            case GlobalVar():
                return name(self._global(expr))
            case Constant():
                return self._named(literal(expr.data), self._constants, self._fresh("constant"))
            case Op():
                return name(self._operator(str(expr.name), None))
            case Constructor():
                return call("constructor", ast.Constant(expr.tag))
            case Tuple():
                return self._named(ast.Tuple(self._values(expr.fields, body), ast.Load()), body, own)
            case TupleGetItem():
                source = self._value(expr.tuple_value, body)
                return self._named(ast.Subscript(source, ast.Constant(expr.index), ast.Load()), body, own)
            case Function():
                return self._function(expr, own or self._fresh("function"), body)
            case Call():
                return self._named(self._call(expr, body), body, own)
            case If():
                return self._if(expr, body, own)
            case Match():
                return self._match(expr, body, own)
            case RefCreate() | RefRead() | RefWrite():
                return self._reference(expr, body, own)
        raise ModelError(f"{type(expr).__name__} has no counterpart in Python")

    def _values(self, exprs: Sequence[RelayExpr], body: Block) -> list[ast.expr]:
        return [self._value(expr, body) for expr in exprs]

    def _function(self, function: Function, own: str, body: Block) -> ast.expr:
        inner: Block = []
        params = ", ".join(self._variable(param) for param in function.params)
        # What else a definition has differs between versions of Python.
        (definition,) = ast.parse(f"def {own}({params}): pass").body
        assert isinstance(definition, ast.FunctionDef)
        inner.append(ast.Return(self._value(function.body, inner)))
        definition.body = inner
        body.append(definition)
        return name(own)

    def _global(self, gvar: GlobalVar) -> str:
        known = self._globals.get(gvar.name_hint)
        if known is None:
            known = self._globals[gvar.name_hint] = self._fresh(gvar.name_hint)
            self._function(self._mod[gvar], known, self._functions)
        return known

    def _operator(self, operator: str, attributes: str | None) -> str:
        key = (operator, attributes)
        if key not in self._operators:
            self._operators[key] = self._fresh(operator)
        return self._operators[key]

    def _call(self, expr: Call, body: Block) -> ast.expr:
        match expr.op:
            case Op():
                callee: ast.expr = name(
                    self._operator(str(expr.op.name), None if expr.attrs is None else str(save_json(expr.attrs)))
                )
            case Constructor():
                fields = ast.List(self._values(expr.args, body), ast.Load())
                return call("ADT", ast.Constant(expr.op.tag), fields)
            case _:
                callee = self._value(expr.op, body)
        return ast.Call(callee, self._values(expr.args, body), [])

    def _if(self, expr: If, body: Block, own: str) -> ast.expr:
        own = own or self._fresh("chosen")
        test = call("truth", self._value(expr.cond, body))
        body.append(ast.If(test, self._branch(expr.true_branch, own), self._branch(expr.false_branch, own)))
        return name(own)

    def _branch(self, expr: RelayExpr, own: str, before: Block | None = None) -> Block:
        inner: Block = before or []
        self._into(own, expr, inner)
        return inner

    def _match(self, expr: Match, body: Block, own: str) -> ast.expr:
        own, data = own or self._fresh("matched"), self._value(expr.data, body)
        chosen: Block = [ast.Expr(call("no_match", data))]
        for clause in reversed(expr.clauses):
            bound = [assigned(self._variable(var), path) for var, path in bindings(clause.lhs, data)]
            branch, test = self._branch(clause.rhs, own, bound), condition(clause.lhs, data)
            chosen = branch if test is None else [ast.If(test, branch, chosen)]
        body += chosen
        return name(own)

    def _reference(self, expr: RefCreate | RefRead | RefWrite, body: Block, own: str) -> ast.expr:
        if isinstance(expr, RefCreate):
            return self._named(call("RefValue", self._value(expr.value, body)), body, own)
        cell = self._value(expr.ref, body)
        if isinstance(expr, RefRead):
            return self._named(ast.Attribute(cell, "value", ast.Load()), body, own)
        value = self._value(expr.value, body)
        body.append(ast.Assign([ast.Attribute(cell, "value", ast.Store())], value))
        return self._named(ast.Tuple([], ast.Load()), body, own)
