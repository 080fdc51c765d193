"""Keep the symbols of a Relax function defined before they are used.

Inside a dataflow block, operator fusion sorts bindings by the variables that they read. It does not see that a symbolic
dimension comes from a ``match_cast`` whose own variable nobody reads, and may put the cast behind the kernels that need
the symbol. A cast that defines symbols therefore stands between dataflow blocks. A cast that only compares sizes does
not get through fusion in a branch at all; it stands before the dataflow block, where its symbols are known already.
"""

from __future__ import annotations

import tvm
from tvm import ir, relax

from .._tvm.running import array_items
from .rewrite import function_pass, on_bindings, substituted, variables_in, with_branches

__all__ = ["isolate_definitions"]


def isolate_definitions() -> tvm.transform.Pass:
    """Return the pass that takes casts which define symbols out of dataflow blocks."""

    def change(function: relax.Function) -> relax.SeqExpr | None:
        body = _sequence(function.body)
        return None if body.same_as(function.body) else body

    return function_pass("IsolateDefinitions", change)


def _sequence(sequence: relax.SeqExpr) -> relax.SeqExpr:
    """Return a sequence with its dataflow blocks split; the same one where there is nothing to split."""
    sequence = on_bindings(sequence, lambda binding: [with_branches(binding, _sequence)])
    blocks: list[relax.BindingBlock] = []
    for block in array_items(sequence.blocks):
        blocks += _split(block) if isinstance(block, relax.DataflowBlock) else [block]
    is_same = len(blocks) == len(sequence.blocks) and all(map(relax.BindingBlock.same_as, blocks, sequence.blocks))
    return sequence if is_same else relax.SeqExpr(blocks, sequence.body)


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
    for part in _between_definitions(array_items(block.bindings)):
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
        value = substituted(binding.value, shared)
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


def _shared(groups: list[tuple[type[relax.BindingBlock], list[relax.Binding]]]) -> dict[ir.Var, relax.Var]:
    """Return the variables of one dataflow block that others read, each with the ordinary variable for it."""
    home = {b.var: position for position, (_, group) in enumerate(groups) for b in group}
    shared: dict[ir.Var, relax.Var] = {}

    def share(variable: ir.Var) -> None:
        if isinstance(variable, relax.DataflowVar) and variable not in shared:
            shared[variable] = relax.Var(variable.name, variable.ty)

    for position, (kind, group) in enumerate(groups):
        for binding in group:
            if kind is relax.BindingBlock:
                share(binding.var)
            for variable in variables_in(binding.value):
                if home.get(variable, position) != position:
                    share(variable)
    return shared
