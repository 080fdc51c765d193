"""Bindings of Relax programs are cut out to be compiled as Relay.

Programs of other formats come as Relax. Bindings whose operators Relay has as well, and which have a convolution or a
product of matrices among them, become a function of Relay, are optimised and lowered as such, and are called where
they stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import tvm
import tvm_ffi
from tvm import ir, relax

from ..._tvm import retyped
from ...relax.rewrite import bindings_of, on_functions, variables_in, with_functions
from ...relay import ir as relay
from .operands import Operands
from .table import as_relay
from .windows import WINDOWS

__all__ = ["with_relay_parts"]

_WORTH = frozenset({"relax.matmul", *(name for name in WINDOWS if "conv" in name)})
_END = 1 << 60

Parts = dict[ir.GlobalVar, relay.Function]


def with_relay_parts(mod: tvm.IRModule, lowered: Callable[[tvm.IRModule], tvm.IRModule]) -> tvm.IRModule:
    """Return a Relax module that calls functions which were Relay's for what those have operators for.

    Parameters
    ----------
    lowered : callable
        Makes Relax functions of a Relay module's, of the same names, and their kernels.
    """
    if not any(map(_is_worth, _bindings(mod))):
        return mod
    clean = relax.transform.DeadCodeElimination()(relax.transform.CanonicalizeBindings()(mod))
    parts: Parts = {}
    cut = on_functions(clean, lambda _, function: _Cutter(function, parts).run())
    if not parts:
        return mod
    made = lowered(tvm.IRModule({gvar.name_hint: part for gvar, part in parts.items()}))
    return _merged(cut, made, {gvar.name_hint for gvar in parts})


def _bindings(mod: tvm.IRModule) -> Iterator[relax.Binding]:
    for function in mod.functions.values():
        if isinstance(function, relax.Function) and isinstance(function.body, relax.SeqExpr):
            yield from bindings_of(function.body)


def _is_worth(binding: relax.Binding) -> bool:
    value = getattr(binding, "value", None)
    return isinstance(value, ir.Call) and getattr(value.op, "name", "") in _WORTH


class _Cutter:
    """Takes the parts out of a function."""

    def __init__(self, function: relax.Function, parts: Parts) -> None:
        self._function, self._parts = function, parts
        self._fixed: dict[relax.Var, relay.Expr] = {}
        self._bound: dict[relax.Var, relax.Expr] = {}
        self._last: dict[Any, int] = {}  # where a variable is read last
        if isinstance(function.body, relax.SeqExpr):
            for at, binding in enumerate(bindings_of(function.body)):
                self._bound[binding.var] = binding.value
                self._last.update(dict.fromkeys(variables_in(binding.value), at))
            self._last.update(dict.fromkeys(variables_in(function.body.body), _END))

    def run(self) -> relax.SeqExpr | None:
        """Return the body that calls the parts; None if there are none."""
        body, before, at = self._function.body, len(self._parts), 0
        if not isinstance(body, relax.SeqExpr):
            return None
        blocks = []
        for block in body.blocks:
            is_pure = isinstance(block, relax.DataflowBlock)
            blocks.append(relax.DataflowBlock(self._cut(list(block.bindings), at)) if is_pure else block)
            at += len(block.bindings)
        return relax.SeqExpr(blocks, body.body) if len(self._parts) > before else None

    def _cut(self, bindings: Sequence[relax.Binding], begin: int) -> list[relax.Binding]:
        """Return the bindings of a block, the first of which is at a place of the function, with calls of parts."""
        made: list[relax.Binding] = []
        run: list[relax.VarBinding] = []
        operands = Operands(fixed=self._fixed, bound=self._bound)
        for at, binding in enumerate(bindings, begin):
            value = as_relay(binding, operands)
            if value is not None and isinstance(binding.value, ir.Call) and operands.is_fixed(binding):
                self._fixed[binding.var] = value  # and stays a constant for what reads it in Relax
            elif value is not None:
                operands.values[binding.var] = value
                run.append(cast("relax.VarBinding", binding))
                continue
            if any(var in operands.values for var in variables_in(binding.value)):
                made += self._part(run, operands, at)
                run, operands = [], Operands(fixed=self._fixed, bound=self._bound)
            made.append(binding)  # before the part, where that does not end here
        return made + self._part(run, operands, begin + len(bindings))

    def _part(self, run: list[relax.VarBinding], operands: Operands, end: int) -> list[relax.Binding]:
        """Return the call of a part and its results, or its own bindings where it is not worth it."""
        results = [
            each.var
            for each in run
            if not isinstance(each.var, relax.DataflowVar) or self._last.get(each.var, -1) >= end
        ]
        is_of_tensors = all(isinstance(var.ty, relax.TensorType) for var in results)
        if not results or not is_of_tensors or not any(map(_is_worth, run)):
            return list(run)
        values = [operands.values[var] for var in results]
        body = values[0] if len(values) == 1 else relay.Tuple(values)
        gvar = ir.GlobalVar(f"part{len(self._parts)}")
        self._parts[gvar] = relay.Function(list(operands.params.values()), body)
        # What is known here of the sizes of its results is not known of the lowered function's.
        types = [relax.TensorType(ndim=len(var.ty.shape), dtype=var.ty.dtype) for var in results]
        call = relax.Call(gvar, list(operands.params))
        if len(results) == 1:
            given = relax.DataflowVar("given", types[0])
            return [relax.VarBinding(given, call), relax.MatchCast(results[0], given, results[0].ty)]
        given = relax.DataflowVar("given", relax.TupleType(types))
        bindings: list[relax.Binding] = [relax.VarBinding(given, call)]
        for index, (var, ty) in enumerate(zip(results, types, strict=True)):
            each = relax.DataflowVar("given", ty)
            bindings += [relax.VarBinding(each, relax.TupleGetItem(given, index)), relax.MatchCast(var, each, var.ty)]
        return bindings


def _merged(mod: tvm.IRModule, made: tvm.IRModule, parts: set[str]) -> tvm.IRModule:
    """Return a module that calls the functions of another one, which have names there that it does not have."""
    taken = {gvar.name_hint for gvar in mod.functions} - parts
    names: dict[str, ir.GlobalVar] = {}
    for gvar in made.functions:
        name, count = gvar.name_hint, 0
        while name in taken:
            count += 1
            name = f"{gvar.name_hint}_{count}"
        taken.add(name)
        names[gvar.name_hint] = gvar if name == gvar.name_hint else retyped(ir.GlobalVar(name), gvar.ty)

    def renamed(function: relax.Function, among: Mapping[str, ir.GlobalVar]) -> relax.Function:
        body = tvm_ffi.structural_map(function.body, (ir.GlobalVar, lambda v: among.get(v.name_hint, v)))
        return relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)

    own = {name: names[name] for name in parts}
    added: dict[ir.GlobalVar, ir.BaseFunc] = {
        gvar: renamed(function, own) for gvar, function in mod.functions.items() if isinstance(function, relax.Function)
    }
    for gvar, function in made.functions.items():
        new = names[gvar.name_hint]
        if isinstance(function, relax.Function):
            function = renamed(function, names).without_attr("global_symbol")
        elif "global_symbol" in (function.attrs or {}):
            function = function.with_attr("global_symbol", new.name_hint)
        added[new] = function
    return relax.transform.Normalize()(with_functions(mod, added))
