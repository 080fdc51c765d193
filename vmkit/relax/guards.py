"""What TVM's kernels trust in the values that a run is given: positions in tensors, and divisors of integers.

A position outside of a tensor reads, or writes, whatever memory is there, and a division by 0 ends the process. In the
kernels that TVM's passes make of operators, the nearest element is read instead, and 0 where there is none, nothing is
written, and a division by 0 gives 0, as in Relay's kernels. Kernels that a module has of its own stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import ir, tirx

from .._tvm.nodes import TensorLoad
from ..relay.op.kernel import as_index, guarded_division, inside
from .rewrite import are_same, with_functions

__all__ = ["ASKED", "with_divisors", "with_guards"]

ASKED = "vmkit.guarded"
"""The attribute by which a kernel that is made before asks to be guarded as well."""

_Divide: TypeAlias = Callable[[tirx.Expr, tirx.Expr], tirx.Expr]
_Division: TypeAlias = tirx.Div | tirx.Mod | tirx.FloorDiv | tirx.FloorMod

_DIVISIONS: dict[type, _Divide] = {
    tirx.Div: guarded_division(tirx.truncdiv, is_remainder=False),
    tirx.FloorDiv: guarded_division(tirx.floordiv, is_remainder=False),
    tirx.Mod: guarded_division(tirx.truncmod, is_remainder=True),
    tirx.FloorMod: guarded_division(tirx.floormod, is_remainder=True),
}


def with_guards(makes: tvm.transform.Pass) -> tvm.transform.Pass:
    """Return a pass that does what another does, and guards the kernels that it adds and those that ask for it."""

    def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        known, made = set(mod.functions), makes(mod)
        changed = {
            gvar: guarded
            for gvar, function in made.functions.items()
            if isinstance(function, tirx.PrimFunc) and (gvar not in known or ASKED in (function.attrs or {}))
            if not (guarded := _guarded(function)).same_as(function)
        }
        return with_functions(made, changed) if changed else made

    return tvm.transform.module_pass(run, opt_level=0, name=makes.info.name)


def with_divisors(size: tirx.Expr) -> tirx.Expr:
    """Return an integer expression of sizes that divides by 1 where a run makes the divisor 0.

    A choice around the quotient would not do: within it TVM takes the divisor for what it is, and computes both sides.
    """
    if isinstance(size, ir.Var | tirx.IntImm):
        return size

    def divided(division: _Division) -> _Division:
        divisor = division.b
        if isinstance(divisor, tirx.IntImm) or (isinstance(divisor, tirx.Max) and _is_positive(divisor.b)):
            return division
        one = tirx.const(1, str(divisor.ty.dtype))
        return type(division)(division.a, tirx.Select(tirx.EQ(divisor, one - one), one, divisor))

    return tvm_ffi.structural_map(size, (tuple(_DIVISIONS), divided))


def _guarded(function: tirx.PrimFunc) -> tirx.PrimFunc:
    if ASKED in (function.attrs or {}):
        function = function.without_attr(ASKED)
    given = _Given(function.body)
    if not given.is_trusted:
        return function
    changes = [
        (ir.TensorRegion, partial(_whole, given)),
        (TensorLoad, partial(_nearest, given)),
        (tirx.BufferStore, partial(_inside_alone, given)),
        *((kind, partial(_divided, given, divide)) for kind, divide in _DIVISIONS.items()),
    ]
    return function.with_body(tvm_ffi.structural_map(function.body, changes))


class _Given:
    """Which expressions of a kernel's body depend on elements of tensors, and whether it trusts one of these."""

    def __init__(self, body: tirx.Stmt) -> None:
        self._variables: set[ir.Var] = set()
        bound: list[tirx.Bind | tirx.Let] = []
        indices: list[tirx.Expr] = []
        divisors: list[tirx.Expr] = []
        tvm_ffi.structural_walk(
            body,
            [
                ((tirx.Bind, tirx.Let), bound.append),
                ((TensorLoad, tirx.BufferStore), lambda access: indices.extend(access.indices)),
                (tuple(_DIVISIONS), lambda division: divisors.append(division.b)),
            ],
        )
        while found := {b.var for b in bound if b.var not in self._variables and self.decide(b.value)}:
            self._variables |= found
        self.is_trusted = any(map(self.decide, indices)) or any(map(self.decide, divisors))

    def decide(self, expr: tirx.Expr) -> bool:
        """Say whether an expression depends on elements of tensors."""
        if isinstance(expr, ir.Var | tirx.IntImm):
            return expr in self._variables
        loads: list[TensorLoad] = []
        read: list[ir.Var] = []
        tvm_ffi.structural_walk(expr, [(TensorLoad, loads.append), (ir.Var, read.append)])
        return bool(loads) or not self._variables.isdisjoint(read)


def _nearest(given: _Given, load: TensorLoad) -> tirx.Expr:
    """Return the element that is nearest to a position, 0 where there is none."""
    shape = load.source.shape
    limited = {axis for axis, index in enumerate(load.indices) if given.decide(index)}
    if not limited:
        return load
    at = [inside(as_index(i), as_index(shape[a])) if a in limited else i for a, i in enumerate(load.indices)]
    nearest = tirx.BufferLoad(load.source, at, load.span)
    may_be_none = [shape[a] > 0 for a in sorted(limited) if not _is_positive(shape[a])]
    if not may_be_none:
        return nearest
    return tirx.if_then_else(tirx.all(*may_be_none), nearest, tirx.const(0, str(load.ty.dtype)))


def _inside_alone(given: _Given, store: tirx.BufferStore) -> tirx.Stmt:
    """Return a statement that writes an element only where it is one of the tensor's."""
    places = [(i, d) for i, d in zip(store.indices, store.buffer.shape, strict=True) if given.decide(i)]
    if not places:
        return store
    conditions = [condition for i, d in places for condition in (as_index(i) >= 0, as_index(i) < as_index(d))]
    return tirx.IfThenElse(tirx.all(*conditions), store, None)


def _whole(given: _Given, region: ir.TensorRegion) -> ir.TensorRegion:
    """Return a region whose axes are whole where the part depends on elements of tensors, which are limited now."""
    before = list(region.region)
    parts = [
        ir.Range(0, extent) if given.decide(part.min) or given.decide(part.extent) else part
        for extent, part in zip(region.source.shape, before, strict=True)
    ]
    return region if are_same(parts, before) else tirx.BufferRegion(region.source, parts)


def _divided(given: _Given, divide: _Divide, division: _Division) -> tirx.Expr:
    is_whole = str(division.ty.dtype).startswith(("int", "uint"))
    return divide(division.a, division.b) if is_whole and given.decide(division.b) else division


def _is_positive(size: tirx.Expr) -> bool:
    return isinstance(size, tirx.IntImm) and int(size) > 0
