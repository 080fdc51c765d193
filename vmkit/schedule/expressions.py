"""What schedule rules ask about indices, sizes and conditions, and variables replaced in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from .._tvm.nodes import TensorLoad, is_choice

__all__ = ["choices_in", "conjuncts", "decided", "is_one", "known", "loads_in", "replaced", "stride", "uses"]

N = TypeVar("N")


def uses(expr: tirx.Expr | tirx.Stmt, var: tirx.Var) -> bool:
    """Say whether an index, or a statement, depends on a variable."""
    found: list[tirx.Var] = []
    tvm_ffi.structural_walk(expr, (tvm.ir.Var, lambda v: found.append(v) if v.same_as(var) else None))
    return bool(found)


def stride(index: tirx.Expr, var: tirx.Var) -> int | None:
    """Return by how much an index grows with a variable; None where that is no constant."""
    grown = tvm_ffi.structural_map(index, (tvm.ir.Var, lambda v: v + 1 if v.same_as(var) else v))
    return known(Analyzer().simplify(grown - index))


def known(size: tirx.Expr) -> int | None:
    """Return the value of a constant; None of what is known at run time only."""
    return int(size) if isinstance(size, tirx.IntImm) else None


def is_one(size: tirx.Expr) -> bool:
    """Say whether a size is the constant 1."""
    return known(size) == 1


def conjuncts(condition: tirx.Expr) -> list[tirx.Expr]:
    """Return the conditions that hold together where a condition does."""
    if isinstance(condition, tirx.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def loads_in(node: tirx.Expr | tirx.Stmt) -> list[TensorLoad]:
    """Return all reads of an expression or statement."""
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(node, (TensorLoad, found.append))
    return found


def choices_in(value: tirx.Expr) -> list[tvm.ir.Call]:
    """Return the choices in an expression, those within others before these."""
    found: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(value, (tvm.ir.Call, lambda call: found.append(call) if is_choice(call) else None))
    return found


def decided(value: tirx.Expr, test: tirx.Expr, way: int) -> tirx.Expr:
    """Return an expression in which choices by a test are their first value (way 1) or their second (2)."""

    def choice(call: tvm.ir.Call) -> tirx.Expr:
        return call.args[way] if is_choice(call) and tvm_ffi.structural_equal(call.args[0], test) else call

    return tvm_ffi.structural_map(value, (tvm.ir.Call, choice))


def replaced(node: N, values: Mapping[tirx.Var, tirx.Expr | int]) -> N:
    """Return an expression, a statement or a list of them with other values in the place of some variables."""
    return tvm_ffi.structural_map(node, (tvm.ir.Var, lambda var: values.get(var, var)))
