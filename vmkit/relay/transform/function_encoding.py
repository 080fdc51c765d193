"""The data types that functions become where they are values, and the functions that apply them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tvm
from tvm.ir import GlobalVar

from ...errors import ModelError
from ..ir import (
    Clause,
    Constructor,
    Function,
    FuncType,
    GlobalTypeVar,
    Kind,
    Match,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
    Var,
    define_type,
    type_parts,
    type_text,
)
from ..type_functor import TypeMutator

__all__ = ["AppliedFunctions", "FunctionEncoding", "matched"]

FirstOrder: TypeAlias = "Callable[[FunctionEncoding, Function, Mapping[Any, Type]], Function]"
"""Writes a function without functions as values, for some types of its type parameters."""


class _Encoded(TypeMutator):
    """Types with data types in the place of those of functions."""

    def __init__(self, encoding: FunctionEncoding) -> None:
        self.encoding = encoding

    def visit_func_type(self, ty: FuncType) -> Type:
        return TypeCall(self.encoding.applied(ty).header)


def matched(pattern: Type, ty: Type, types: dict[Any, Type]) -> None:
    """Note what the type variables of one type are for it to become another."""
    if isinstance(pattern, TypeVar):
        types.setdefault(pattern, ty)
        return
    for part, other in zip(type_parts(pattern), type_parts(ty), strict=False):
        matched(part, other, types)


class AppliedFunctions:
    """The functions of one type that are values: their data type, and the function that applies one of them."""

    def __init__(self, ty: FuncType, number: int) -> None:
        self.type = ty
        self.header = GlobalTypeVar(f"Function{number}", Kind.AdtHandle)
        self.apply = GlobalVar(f"apply{number}")
        self.constructors: list[Constructor] = []
        self.clauses: list[Clause] = []
        self.value = Var("function")
        self.args: list[Var] = []


class FunctionEncoding:
    """What a module gets: data types, functions that apply their values, and copies of its functions for types."""

    def __init__(self, mod: tvm.IRModule, first_order: FirstOrder) -> None:
        self.mod = mod
        self.first_order = first_order
        self.taken = {gvar.name_hint for gvar in mod.functions}
        self.by_type: dict[str, AppliedFunctions] = {}
        self.of_global: dict[tuple[GlobalVar, str], Constructor] = {}
        self.copies: dict[tuple[GlobalVar, str], GlobalVar] = {}
        self.encoded = _Encoded(self)

    def applied(self, ty: FuncType) -> AppliedFunctions:
        key = type_text(ty)
        if key not in self.by_type:
            made = self.by_type[key] = AppliedFunctions(ty, len(self.by_type))
            made.value = Var("function", TypeCall(made.header))
            made.args = [Var(f"arg{i}", self.encoded.visit(arg)) for i, arg in enumerate(ty.arg_types)]
        return self.by_type[key]

    def constructor(self, ty: FuncType, name: str, inputs: Sequence[Type]) -> Constructor:
        applied = self.applied(ty)
        made = Constructor(f"{applied.header.name_hint}_{len(applied.constructors)}_{name}", inputs, applied.header)
        applied.constructors.append(made)
        return made

    def copy(self, gvar: GlobalVar, type_args: Sequence[Type]) -> GlobalVar:
        """Return the name of a global function's copy for types."""
        key = (gvar, ", ".join(map(type_text, type_args)))
        if key not in self.copies:
            function = self.mod[gvar]
            if not isinstance(function, Function):
                raise ModelError(f"{gvar.name_hint} is no function of Relay's and cannot be defunctionalised")
            made = self.copies[key] = GlobalVar(self.fresh(f"{gvar.name_hint}_first_order"))
            types = dict(zip(function.type_params, type_args, strict=True))
            self.mod[made] = self.first_order(self, function, types)
        return self.copies[key]

    def fresh(self, name: str) -> str:
        number, chosen = 0, name
        while chosen in self.taken:
            number += 1
            chosen = f"{name}{number}"
        self.taken.add(chosen)
        return chosen

    def finish(self) -> None:
        """Add the data types and the functions that apply their values to the module."""
        for applied in self.by_type.values():
            define_type(self.mod, TypeData(applied.header, [], applied.constructors))
            result = self.encoded.visit(applied.type.ret_type)
            body = Match(applied.value, applied.clauses)
            self.mod[applied.apply] = Function([applied.value, *applied.args], body, result)
