"""Flags that kernels compute are looked at by kernels.

A check of values, such as that indices lie within a tensor, is a flag of one element. To compare it the VM would make
a shape of it, give its element a symbol and compare that: seven instructions, and the end of a kernel group. A kernel
that fails where the flag is 0 says the same, within the group.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import tvm
from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T

from ..._tvm import retyped
from ...kernels.builder import kernel
from ...relay.lower.checks import says_values
from ..aliases import is_call
from ..rewrite import (
    nested_bindings,
    on_bindings,
    on_functions,
    variables_in,
    with_branches,
    with_functions,
)
from ..shape_checks import is_check

__all__ = ["flags_in_kernels", "looks_at_flag"]

_NAME = "require_"

_Found = dict[ir.Var, tuple[relax.Expr, int] | None]


def flags_in_kernels() -> tvm.transform.Pass:
    """Return the pass, to be run before kernels are grouped, that lets kernels look at flags of checks."""
    return tvm.transform.module_pass(lambda mod, _: _Flags(mod).module(), opt_level=0, name="FlagsInKernels")


def looks_at_flag(kernel: ir.GlobalVar) -> bool:
    """Say whether a kernel is one that looks at a flag."""
    return kernel.name_hint.startswith(_NAME)


class _Flags:
    """The kernels that a module's checks become, by the numbers of the checks."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.names = {gvar.name_hint for gvar in mod.get_global_vars()}
        self.kernels: dict[int, ir.GlobalVar] = {}

    def module(self) -> tvm.IRModule:
        """Return the module with kernels that look at flags."""
        made = on_functions(self.mod, lambda _, function: self.body(function.body))
        return with_functions(made, {gvar: _kernel(number) for number, gvar in self.kernels.items()})

    def body(self, body: relax.SeqExpr) -> relax.SeqExpr | None:
        """Return a body in which kernels look at flags; None if there are none."""
        bindings = list(nested_bindings(body))
        if not any(is_check(binding) for binding in bindings):
            return None
        found = _found(bindings, Counter(variables_in(body)))
        return self.sequence(body, found) if found else None

    def sequence(self, sequence: relax.SeqExpr, found: _Found) -> relax.SeqExpr:
        """Return a sequence in which they do."""

        def changed(binding: relax.Binding) -> list[relax.Binding]:
            if binding.var not in found:
                return [with_branches(binding, lambda arm: self.sequence(arm, found))]
            flag = found[binding.var]
            return [] if flag is None else [self.call(*flag)]

        return on_bindings(sequence, changed)

    def call(self, flag: relax.Expr, number: int) -> relax.Binding:
        """Return the call of the kernel that looks at a flag."""
        if number not in self.kernels:
            name = f"{_NAME}{number}"
            while name in self.names:
                name += "_"
            self.kernels[number] = retyped(ir.GlobalVar(name), relax.FuncType.opaque_func(ret=relax.TupleType([])))
        nothing = relax.TupleType([])
        return relax.VarBinding(relax.Var("_", nothing), ir.Call(self.kernels[number], [flag], ret_ty=nothing))


def _found(bindings: Sequence[relax.Binding], counts: Counter[ir.Var]) -> _Found:
    """Return the checks of flags by the variables of shapes made of these, and None for what is made for them alone.

    `counts` says how often variables are bound and read.
    """
    values = {b.var: b.value for b in bindings}
    reads = {b.ty.values[0]: b for b in bindings if isinstance(b, relax.MatchCast) and _is_size(b.ty)}
    candidates: dict[ir.Var, _Found] = {}
    for check in bindings:
        given = values.get(check.value) if is_check(check) else None
        if not isinstance(given, relax.ShapeExpr) or len(given.values) != 2 or not _is_one(check.ty.values[0]):
            continue
        symbol, number = given.values
        read = reads.get(symbol)
        if read is None or not isinstance(number, tirx.IntImm) or says_values(int(number)):
            continue
        shape = values.get(read.value)
        is_alone = counts[check.var] == counts[read.var] == 1 and counts[read.value] == counts[check.value] == 2
        if shape is not None and is_alone and is_call(shape, "relax.tensor_to_shape") and _is_flag(shape.args[0]):
            # Where the flag was read: behind that, its memory may be that of another tensor.
            looked_at = (shape.args[0], int(number))
            candidates[symbol] = {read.value: looked_at, read.var: None, check.value: None, check.var: None}
    uses = _bindings_of_symbols(bindings) if candidates else {}
    alone = [found for symbol, found in candidates.items() if uses[symbol] <= found.keys()]
    return {var: flag for found in alone for var, flag in found.items()}


def _bindings_of_symbols(bindings: Sequence[relax.Binding]) -> dict[ir.Var, set[ir.Var]]:
    """Return the variables of the bindings in which each symbol, or other variable, stands."""
    uses: dict[ir.Var, set[ir.Var]] = defaultdict(set)
    for binding in bindings:
        if not isinstance(binding.value, relax.If):
            for each in variables_in(binding.value, binding.var.ty):
                uses[each].add(binding.var)
    return uses


def _is_size(ty: relax.Type) -> bool:
    """Say whether a type is that of a shape of one size, a symbol."""
    sizes = ty.values if isinstance(ty, relax.ShapeType) else None
    return sizes is not None and len(sizes) == 1 and isinstance(sizes[0], ir.Var)


def _is_one(size: ir.Expr) -> bool:
    return isinstance(size, tirx.IntImm) and size.value == 1


def _is_flag(flag: relax.Expr) -> bool:
    """Say whether a tensor is of one int64."""
    shape = flag.ty.shape if isinstance(flag.ty, relax.TensorType) else None
    is_short = isinstance(shape, relax.ShapeExpr) and len(shape.values) == 1 and _is_one(shape.values[0])
    return is_short and str(flag.ty.dtype) == "int64"


def _kernel(number: int) -> tirx.PrimFunc:
    """Return the kernel that fails where a flag is not 1, and says the number of the check."""
    with kernel() as builder:
        handle = T.arg("flag", T.handle())
        flag = T.match_buffer(handle, (1,), "int64", layout=None)
        with T.Assert(flag[0] == tirx.IntImm("int64", 1), f"check (0 vs. 1) {number}"):
            T.evaluate(T.int32(0))
    return builder.get()
