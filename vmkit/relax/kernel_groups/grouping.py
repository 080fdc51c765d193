"""Kernels that run one after another become one call of the VM.

An instruction of the VM costs up to 0.2 us: memory for a tensor, the tensor itself, a view, the call with all its
checks, and forgetting each of them again. A *kernel group* is a straight sequence of kernel calls with the allocations
and views between them. Its kernels are called by one function (:mod:`.functions`), and what only they see lies in one
workspace, where each of the storages that the memory planner gave them has its place. Groups that follow each other
share a workspace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.sym import Analyzer

from ..._tvm import retyped
from ...relay.ir.dims import structural_key
from ..aliases import TENSOR, home_of, is_call, is_silent
from ..rewrite import Reads, bindings_of, on_functions, variables_in, with_branches, with_functions
from .functions import KernelCall, KernelGroup, group_function, kernel_call
from .looks import is_long, look_part, run_state
from .loop_functions import KernelLoop, flag_part, loop_function, move_part
from .loops import FoundLoop, find_loop
from .parts import CALLS_PARTS, as_part
from .segments import segments
from .workspaces import places_of, with_workspaces

__all__ = ["group_kernels", "kernels_of_groups"]

_WORTH_A_WORKSPACE = 2  # tensors that only one kernel sees, each of which is four instructions

Functions = dict[ir.GlobalVar, tirx.PrimFunc]


def group_kernels(system: str) -> tvm.transform.Pass:
    """Return the pass, to be run when memory is planned and before it is released, that makes groups of kernels.

    They are for the operating `system` of that name; see :func:`.looks.look_part`.
    """
    return tvm.transform.module_pass(lambda mod, _: _Grouping(mod, system).module(), opt_level=0, name="GroupKernels")


def kernels_of_groups(mod: tvm.IRModule) -> dict[str, list[str]]:
    """Return the names of the kernels of each group in a module, by the name of its function."""
    attrs = {gvar.name_hint: f.attrs for gvar, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}
    return {name: [str(each) for each in of[CALLS_PARTS]] for name, of in attrs.items() if CALLS_PARTS in of}


class _Grouping:
    """What is known of a module while its kernels are grouped."""

    def __init__(self, mod: tvm.IRModule, system: str) -> None:
        self.mod, self.system = mod, system
        self.kernels = {v: f for v, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}
        self.names = {v.name_hint for v in mod.get_global_vars()}
        self.groups: list[KernelGroup] = []
        self.direct: set[ir.GlobalVar] = set()
        self.reads = Reads()
        self.analyzer = Analyzer()

    def module(self) -> tvm.IRModule:
        """Return the module with groups in it, and the kernels that only they call as parts."""
        result = on_functions(self.mod, self.body)
        made: dict[ir.GlobalVar, tirx.PrimFunc] = {}
        parts: dict[ir.GlobalVar, str] = {}
        for gvar in dict.fromkeys(call.kernel for group in self.groups for call in group.calls):
            is_called = gvar in self.direct or "global_symbol" in self.kernels[gvar].attrs
            part = self.new_name(f"{gvar.name_hint}_part") if is_called else gvar
            made[part] = as_part(self.kernels[gvar])
            parts[gvar] = part.name_hint
        look = self.new_name("look")
        if any(group.state is not None for group in self.groups):
            made[look] = look_part(self.system)
        others = [group for group in self.groups if not isinstance(group, KernelLoop)]
        functions = {group.name: group_function(group, parts, look.name_hint) for group in others}
        result, functions = _shared(result, functions)
        return with_functions(result, made | functions | self.loop_functions(parts, look.name_hint))

    def body(self, gvar: ir.GlobalVar, function: relax.Function) -> relax.SeqExpr:
        """Return the body of a function with its groups made calls."""
        found = find_loop(gvar, function, self.kernels, self.analyzer, self.new_name)
        return self.sequence(function.body, {}) if found is None else self.loop(found)

    def loop_functions(self, parts: Mapping[ir.GlobalVar, str], look: str) -> dict[ir.GlobalVar, tirx.PrimFunc]:
        """Return the functions of the loops, and what they call beside kernels."""
        loops = [group for group in self.groups if isinstance(group, KernelLoop)]
        if not loops:
            return {}
        move, flag = self.new_name("move"), self.new_name("flag")
        functions = {loop.name: loop_function(loop, parts, move.name_hint, flag.name_hint, look) for loop in loops}
        return {move: move_part(), flag: flag_part()} | functions

    def loop(self, found: FoundLoop) -> relax.SeqExpr:
        """Return the body of a function that is a loop."""
        self.groups.append(found.loop)
        nothing = relax.Var("nothing", relax.TupleType([]))
        call = with_workspaces([(relax.VarBinding(nothing, relax.Tuple([])), found.loop)], self.kernels, self.analyzer)
        rest = self.sequence(found.rest, {})
        return relax.SeqExpr([relax.BindingBlock([*found.memory, *call]), *rest.blocks], rest.body)

    def new_name(self, wanted: str) -> ir.GlobalVar:
        """Return a global variable of a name that no other has."""
        name, number = wanted, 0
        while name in self.names:
            number += 1
            name = f"{wanted}{number}"
        self.names.add(name)
        return retyped(ir.GlobalVar(name), relax.FuncType.opaque_func(ret=relax.TupleType([])))

    def sequence(self, sequence: relax.SeqExpr, outer: Mapping[relax.Expr, relax.Expr]) -> relax.SeqExpr:
        """Return a sequence with its groups made calls; `outer` is the memory, and its names, of before it."""
        if any(isinstance(block, relax.DataflowBlock) for block in sequence.blocks):
            return sequence
        bindings = list(bindings_of(sequence))
        memory = {**outer, **{b.var: b.value for b in bindings if is_silent(b)}}
        last = _last_uses(bindings, sequence.body, self.reads)
        calls = {b.var: call for b in bindings if (call := self.call_of(b)) is not None}
        items: list[relax.Binding | tuple[relax.VarBinding, KernelGroup]] = []
        for start, end in segments(bindings, calls, memory, last):
            segment = bindings[start:end]
            outside = {b.var for b in segment if last.get(b.var, -1) >= end}
            group = self.group_of(segment, calls, outside, memory)
            if group is not None:
                items += [b for b in segment if b.var not in calls]
                items.append((next(b for b in segment if isinstance(b, relax.VarBinding) and b.var in calls), group))
                continue
            for binding in segment:
                if not isinstance(binding.value, relax.If):
                    tvm_ffi.structural_walk(binding.value, (ir.GlobalVar, self.direct.add))
                items.append(with_branches(binding, lambda arm: self.sequence(arm, memory)))
        made = _without_unused(with_workspaces(items, self.kernels, self.analyzer), sequence.body, self.reads)
        return relax.SeqExpr([relax.BindingBlock(made)], sequence.body)

    def call_of(self, binding: relax.Binding) -> KernelCall | None:
        """Return a binding's call of a kernel that a group can make."""
        is_plain = isinstance(binding, relax.VarBinding)
        return kernel_call(binding.value, self.kernels, self.analyzer) if is_plain else None

    def group_of(
        self,
        segment: Sequence[relax.Binding],
        calls: Mapping[ir.Var, KernelCall],
        outside: set[ir.Var],
        memory: Mapping[relax.Expr, relax.Expr],
    ) -> KernelGroup | None:
        """Return the kernel calls of a segment as a group; None if that would save the VM nothing.

        A kernel alone is one where nobody else sees most of what it writes, such as where it sorts.

        Parameters
        ----------
        outside
            Variables of the segment that are used after it.
        memory
            What is known to be memory, or to name it, in the segment and before it.
        """
        ours = tuple(calls[b.var] for b in segment if b.var in calls)
        if not ours:
            return None
        silent = {b.var: b.value for b in segment if b.var not in calls}
        homes = {arg: home_of(arg, memory) for call in ours for arg in call.tensors}
        seen = outside | {home for home in homes.values() if not is_call(silent.get(home), TENSOR)}
        for var, value in reversed(silent.items()):
            if var in seen:
                seen.update(variables_in(value))
        position: dict[relax.Expr, int] = {}
        tensors: dict[relax.Expr, int] = {}
        inner: dict[relax.Expr, relax.Expr] = {}
        for arg, home in homes.items():
            if home in seen:
                position[arg] = tensors.setdefault(home, len(tensors))
            else:
                inner[arg] = silent[home].args[0]
        if len(ours) == 1 and len(set(inner.values())) < _WORTH_A_WORKSPACE:
            return None
        places, size = places_of({s: memory[s].args[0].values[0] for s in inner.values()}, self.analyzer)
        offset = {arg: places[storage] for arg, storage in inner.items()}
        state = run_state() if is_long([call.used for call in ours]) else None
        if state is not None:
            position[state] = tensors.setdefault(state, len(tensors))
        made = frozenset(t for t in tensors if isinstance(t, ir.GenericConst) or is_call(memory.get(t), TENSOR))
        name = self.new_name("kernel_group")
        group = KernelGroup(name, ours, tuple(tensors), made, position, offset, size, state)
        self.groups.append(group)
        return group


def _shared(mod: tvm.IRModule, groups: Mapping[ir.GlobalVar, tirx.PrimFunc]) -> tuple[tvm.IRModule, Functions]:
    """Return a module that calls the first of the groups' functions that are equal, and these alone.

    What a model does several times, such as for each column of its data, are the same kernels in the same places.
    """
    first: dict[tvm_ffi.StructuralKey, ir.GlobalVar] = {}
    names = {gvar: first.setdefault(structural_key(function), gvar) for gvar, function in groups.items()}
    if len(first) == len(groups):
        return mod, dict(groups)

    def changed(function: relax.Function) -> relax.Function:
        return tvm_ffi.structural_map(function, (ir.GlobalVar, lambda gvar: names.get(gvar, gvar)))

    callers = {gvar: changed(f) for gvar, f in mod.functions.items() if isinstance(f, relax.Function)}
    return with_functions(mod, callers), {gvar: groups[gvar] for gvar in first.values()}


def _last_uses(bindings: Sequence[relax.Binding], body: relax.Expr, reads: Reads) -> dict[ir.Var, int]:
    """Return by variable the position of the last binding that reads it; what the sequence returns comes after all."""
    values = enumerate([*(binding.value for binding in bindings), body])
    return {var: position for position, value in values for var in reads.of(value)}


def _without_unused(bindings: Sequence[relax.Binding], body: relax.Expr, reads: Reads) -> list[relax.Binding]:
    """Return bindings without memory that nobody reads or writes."""
    used = set(variables_in(body))
    kept: list[relax.Binding] = []
    for binding in reversed(bindings):
        if binding.var in used or not is_silent(binding):
            used.update(reads.of(binding.value))
            kept.append(binding)
    return kept[::-1]
