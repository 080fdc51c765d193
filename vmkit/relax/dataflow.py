"""Keep the symbols of a Relax function defined before they are used.

Inside a dataflow block, operator fusion sorts bindings by the variables that they read. It does not see that a symbolic
dimension comes from a ``match_cast`` whose own variable nobody reads, and may put the cast behind the kernels that need
the symbol. A cast that defines symbols therefore stands between dataflow blocks. A cast that only compares sizes does
not get through fusion in a branch at all; it stands before the dataflow block, where its symbols are known already.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax

from .._tvm import retyped

__all__ = ["isolate_definitions"]


def isolate_definitions() -> tvm.transform.Pass:
    """Return the pass that takes casts which define symbols out of dataflow blocks."""
    return tvm.transform.module_pass(lambda mod, _: _isolated(mod), opt_level=0, name="IsolateDefinitions")


def _isolated(mod: tvm.IRModule) -> tvm.IRModule:
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs, global_infos=mod.global_infos)
    for gvar, function in mod.functions.items():
        if isinstance(function, relax.Function):
            body = _sequence(function.body)
            if body.same_as(function.body):
                continue
            made = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
            result.update_func(gvar, made)
    return result


def _sequence(sequence: relax.SeqExpr) -> relax.SeqExpr:
    """Return a sequence with its dataflow blocks split; the same one where there is nothing to split."""
    blocks: list[relax.BindingBlock] = []
    for block in sequence.blocks:
        blocks += _split(block) if isinstance(block, relax.DataflowBlock) else [_plain(block)]
    if len(blocks) == len(sequence.blocks) and all(a.same_as(b) for a, b in zip(blocks, sequence.blocks, strict=True)):
        return sequence
    return relax.SeqExpr(blocks, sequence.body)


def _plain(block: relax.BindingBlock) -> relax.BindingBlock:
    bindings = [_with_branches(b) for b in block.bindings]
    if all(a.same_as(b) for a, b in zip(bindings, block.bindings, strict=True)):
        return block
    return relax.BindingBlock(bindings)


def _with_branches(binding: relax.Binding) -> relax.Binding:
    if not isinstance(binding, relax.VarBinding) or not isinstance(binding.value, relax.If):
        return binding
    branch = binding.value
    then, other = _sequence(branch.true_branch), _sequence(branch.false_branch)
    if then.same_as(branch.true_branch) and other.same_as(branch.false_branch):
        return binding
    made = relax.If(branch.cond, then, other)
    retyped(made, branch.ty)
    return relax.VarBinding(binding.var, made)


def _defines_symbols(binding: relax.Binding) -> bool:
    """Say whether a cast gives names to sizes that nothing told before; a check of known sizes does not."""
    if not isinstance(binding, relax.MatchCast):
        return False
    ty = binding.value.ty
    if isinstance(ty, relax.ShapeType):
        return ty.values is None
    return not isinstance(ty, relax.TensorType) or ty.shape is None


def _is_check(binding: relax.Binding) -> bool:
    """Say whether a binding only compares sizes that are known before the block."""
    if isinstance(binding, relax.MatchCast):
        return isinstance(binding.value.ty, relax.ShapeType)
    return isinstance(binding, relax.VarBinding) and isinstance(binding.value, relax.ShapeExpr)


def _split(block: relax.DataflowBlock) -> list[relax.BindingBlock]:
    """Return a dataflow block as several, with definitions of symbols between them and checks before each."""
    groups: list[tuple[type[relax.BindingBlock], list[relax.Binding]]] = []
    for part in _between_definitions(list(block.bindings)):
        if len(part) == 1 and _defines_symbols(part[0]):
            groups.append((relax.BindingBlock, part))
            continue
        groups.append((relax.BindingBlock, [b for b in part if _is_check(b)]))
        groups.append((relax.DataflowBlock, [b for b in part if not _is_check(b)]))
    groups = [(kind, group) for kind, group in groups if group]
    if len(groups) == 1 and groups[0][0] is relax.DataflowBlock:
        return [block]
    shared = _shared(groups)

    def renamed(binding: relax.Binding) -> relax.Binding:
        variable = shared.get(binding.var, binding.var)
        value = tvm_ffi.structural_map(binding.value, (ir.Var, lambda v: shared.get(v, v)))
        if isinstance(binding, relax.MatchCast):
            return relax.MatchCast(variable, value, binding.ty)
        return relax.VarBinding(variable, value)

    return [kind([renamed(b) for b in group]) for kind, group in groups]


def _between_definitions(bindings: list[relax.Binding]) -> list[list[relax.Binding]]:
    parts: list[list[relax.Binding]] = [[]]
    for binding in bindings:
        if _defines_symbols(binding):
            parts += [[binding], []]
        else:
            parts[-1].append(binding)
    return [part for part in parts if part]


def _shared(groups: list[tuple[type[relax.BindingBlock], list[relax.Binding]]]) -> dict[Any, relax.Var]:
    """Return the variables of one dataflow block that others read, each with the ordinary variable for it."""
    home = {b.var: position for position, (_, group) in enumerate(groups) for b in group}
    shared: dict[Any, relax.Var] = {}

    def share(variable: Any) -> None:
        if isinstance(variable, relax.DataflowVar) and variable not in shared:
            shared[variable] = relax.Var(variable.name, variable.ty)

    for position, (kind, group) in enumerate(groups):
        for binding in group:
            if kind is relax.BindingBlock:
                share(binding.var)

            def visit(variable: Any, here: int = position) -> None:
                if home.get(variable, here) != here:
                    share(variable)

            tvm_ffi.structural_walk(binding.value, (ir.Var, visit))
    return shared
