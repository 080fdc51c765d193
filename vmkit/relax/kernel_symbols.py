"""Kernels over the symbols of those who call them, in place of numbers that are made of these.

A kernel over ``2 * n`` positions that is given ``m // 2`` for ``n``, or as many rows, becomes one over
``m // 2 * 2``, given ``m``. TVM fuses kernels only where it finds one size written in one way in all of them, and
writes the sizes of kernels that it makes itself over the symbols of the caller, simplified.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.sym import Analyzer
from tvm.tirx.buffer import is_buffer_var

from .._tvm import retyped
from ..relay.ir.dims import structural_key
from .aliases import is_call
from .kernel_uses import results_of
from .rewrite import exchanged, on_bindings, on_functions, retyped_call, substituted, variables_in, with_branches

__all__ = ["simplified_sizes", "with_callers_symbols"]


def simplified_sizes(body: relax.SeqExpr) -> relax.SeqExpr:
    """Return a function's body whose shapes, also those of types, are written as TVM simplifies them."""
    analyzer = Analyzer()
    return tvm_ffi.structural_map(
        body, (relax.ShapeExpr, lambda shape: relax.ShapeExpr([analyzer.simplify(size) for size in shape.values]))
    )


def with_callers_symbols(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module in which no kernel is given a number, or a size, that is made of symbols."""
    made = _Kernels(mod)
    changed = on_functions(mod, lambda _, function: on_bindings(function.body, made.changed))
    if not made.kernels:
        return mod
    return tvm.IRModule({**changed.functions, **made.kernels}, attrs=changed.attrs, global_infos=changed.global_infos)


class _Kernels:
    """Kernels that take the place of others, by their names, one for all calls that give the same numbers."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.kernels: dict[ir.GlobalVar, tirx.PrimFunc] = {}
        self._mod = mod
        self._taken = {gvar.name_hint for gvar in mod.functions}
        self._known: dict[tuple[object, ...], tuple[ir.GlobalVar, list[relax.Expr]]] = {}

    def changed(self, binding: relax.Binding) -> list[relax.Binding]:
        """Return a binding, in whose place calls are of the kernels made for them."""
        call = binding.value
        if not is_call(call, "relax.call_tir"):
            return [with_branches(binding, lambda branch: on_bindings(branch, self.changed))]
        kernel = self._mod[call.args[0]]
        values = _values(kernel, call)
        if not values:
            return [binding]
        key = (call.args[0], *((param, structural_key(value)) for param, value in values.items()))
        if key not in self._known:
            self._known[key] = self._made(call, kernel, values)
        name, symbols = self._known[key]
        rest = [a for param, a in zip(kernel.params, call.args[1].fields, strict=False) if param not in values]
        return [relax.VarBinding(binding.var, retyped_call(call, [name, relax.Tuple([*rest, *symbols])]))]

    def _made(
        self, call: relax.Call, kernel: tirx.PrimFunc, values: Mapping[ir.Var, tirx.Expr]
    ) -> tuple[ir.GlobalVar, list[relax.Expr]]:
        """Return the name of a kernel over the symbols of some values, and these, which it takes behind the rest."""
        own = {symbol: tirx.Var(symbol.name, str(symbol.ty.dtype)) for symbol in variables_in(*values.values())}
        params = [param for param in kernel.params if param not in values]
        plain = tirx.PrimFunc(params, kernel.body, kernel.ret_type, kernel.attrs)
        plain = _simplified(substituted(plain, {param: substituted(value, own) for param, value in values.items()}))
        inputs = len(call.args[1].fields) - (len(kernel.params) - len(params))
        params = [*plain.params[:inputs], *own.values(), *plain.params[inputs:]]
        made = tirx.PrimFunc(params, plain.body, plain.ret_type, plain.attrs)
        hint = call.args[0].name_hint
        name = next(n for n in (f"{hint}_{k}" for k in itertools.count(1)) if n not in self._taken)
        self._taken.add(name)
        gvar = retyped(ir.GlobalVar(name), made.ty)
        self.kernels[gvar] = made
        return gvar, list(own)


def _values(kernel: tirx.PrimFunc, call: relax.Call) -> dict[ir.Var, tirx.Expr]:
    """Return what a call gives for symbols of a kernel, numbers and sizes, where that is made of symbols."""
    args = list(call.args[1].fields)
    found: dict[ir.Var, tirx.Expr] = {}
    for param, arg in zip(kernel.params, [*args, *results_of(call)], strict=True):
        if is_buffer_var(param):
            shape = getattr(getattr(arg, "ty", arg), "shape", None)
            if isinstance(shape, relax.ShapeExpr):
                found |= {
                    d: size for d, size in zip(param.ty.shape, shape.values, strict=True) if isinstance(d, ir.Var)
                }
        else:
            found[param] = arg
    return {symbol: value for symbol, value in found.items() if not isinstance(value, ir.Var | tirx.IntImm)}


def _simplified(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel with the sizes of its tensors as TVM simplifies them."""
    analyzer = Analyzer()
    sizes = {structural_key(d): d for param in kernel.params if is_buffer_var(param) for d in param.ty.shape}
    for size in sizes.values():
        simple = analyzer.simplify(size)
        if not tvm_ffi.structural_equal(simple, size):
            kernel = exchanged(kernel, size, simple)
    return kernel
