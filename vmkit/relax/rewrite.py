"""Rewriting Relax: what all passes over functions, sequences, branches and calls have in common.

What a change leaves alone stays the same object. What is made anew has the type of what stood in its place: TVM gives
none to expressions that are built outside of its ``BlockBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.relax.analysis import free_vars

from .._tvm import retyped
from .._tvm.running import array_items

__all__ = [
    "Reads",
    "allocation",
    "are_same",
    "beginning_with",
    "bindings_of",
    "exchanged",
    "function_pass",
    "nested_bindings",
    "on_bindings",
    "on_functions",
    "retyped_call",
    "substituted",
    "variables_in",
    "with_branches",
    "with_functions",
]

E = TypeVar("E")


def function_pass(name: str, change: Callable[[relax.Function], relax.SeqExpr | None]) -> tvm.transform.Pass:
    """Return the pass that does to every Relax function of a module what :func:`on_functions` does."""
    return tvm.transform.module_pass(
        lambda mod, _: on_functions(mod, lambda _, function: change(function)), opt_level=0, name=name
    )


def on_functions(
    mod: tvm.IRModule, change: Callable[[ir.GlobalVar, relax.Function], relax.SeqExpr | None]
) -> tvm.IRModule:
    """Return a module whose Relax functions have the bodies that `change` returns, None for one that stays."""
    changed = {}
    for gvar, function in mod.functions.items():
        body = change(gvar, function) if isinstance(function, relax.Function) else None
        if body is not None:
            changed[gvar] = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
    return with_functions(mod, changed)


def with_functions(mod: tvm.IRModule, functions: Mapping[ir.GlobalVar, ir.BaseFunc]) -> tvm.IRModule:
    """Return a module with functions in the places of others, or in addition; the given one stays as it is.

    TVM puts a function that it updates behind the others, and so changes the order of the functions in bytecode.
    """
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs, global_infos=mod.global_infos)
    for gvar, function in functions.items():
        result.update_func(gvar, function)
    return result


def beginning_with(function: relax.Function, block: relax.BindingBlock) -> relax.Function:
    """Return a function that does what a block does before all that it does itself."""
    body = relax.SeqExpr([block, *function.body.blocks], function.body.body)
    return relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)


def bindings_of(sequence: relax.SeqExpr) -> Iterator[relax.Binding]:
    """Yield the bindings of a sequence in their order, without those of its branches."""
    return (binding for block in array_items(sequence.blocks) for binding in array_items(block.bindings))


def nested_bindings(sequence: relax.SeqExpr) -> Iterator[relax.Binding]:
    """Yield the bindings of a sequence in their order, those of branches before what is bound to their results."""
    for binding in bindings_of(sequence):
        if isinstance(binding.value, relax.If):
            yield from nested_bindings(binding.value.true_branch)
            yield from nested_bindings(binding.value.false_branch)
        yield binding


def on_bindings(sequence: relax.SeqExpr, change: Callable[[relax.Binding], Iterable[relax.Binding]]) -> relax.SeqExpr:
    """Return a sequence with each binding replaced by those that `change` returns for it, in blocks of its kind.

    Those of branches are the matter of `change`; see :func:`with_branches`.
    """
    blocks = []
    before = array_items(sequence.blocks)
    for block in before:
        bindings = array_items(block.bindings)
        made = [new for binding in bindings for new in change(binding)]
        blocks.append(block if are_same(made, bindings) else type(block)(made))
    if are_same(blocks, before):
        return sequence
    # TVM finds a function by its hash, which another type that the sequence gets only later would change.
    return retyped(relax.SeqExpr(blocks, sequence.body), sequence.ty)


def with_branches(
    binding: relax.Binding,
    change: Callable[[relax.SeqExpr], relax.SeqExpr],
    condition: relax.Expr | None = None,
) -> relax.Binding:
    """Return the binding of an ``If`` whose branches are what `change` returns for them; all others as they are.

    Parameters
    ----------
    condition : relax.Expr, optional
        What decides instead of the present condition.
    """
    branch = binding.value
    if not isinstance(branch, relax.If):
        return binding
    before = [branch.cond, branch.true_branch, branch.false_branch]
    parts = [branch.cond if condition is None else condition, *map(change, before[1:])]
    if are_same(parts, before):
        return binding
    return relax.VarBinding(binding.var, retyped(relax.If(*parts), branch.ty))


def retyped_call(call: relax.Call, args: Iterable[relax.Expr], span: object = None) -> relax.Call:
    """Return a call with other arguments, of the same type, at its place or, if one is given, at another."""
    place = call.span if span is None else span
    return retyped(relax.Call(call.op, list(args), call.attrs, list(call.ty_args), place), call.ty)


def substituted(expr: E, values: Mapping[ir.Var, ir.Expr]) -> E:
    """Return an expression with values in the places of variables."""
    return tvm_ffi.structural_map(expr, (ir.Var, lambda var: values.get(var, var))) if values else expr


def exchanged(node: E, size: ir.Expr, other: ir.Expr) -> E:
    """Return an expression or a kernel with another expression wherever one stands that is equal to `size`."""
    return tvm_ffi.structural_map(
        node, (type(size), lambda each: other if tvm_ffi.structural_equal(each, size) else each)
    )


def variables_in(*exprs: relax.Expr) -> list[ir.Var]:
    """Return the variables that expressions read or bind, as often as they stand there, in their order."""
    found: list[ir.Var] = []
    for expr in exprs:
        tvm_ffi.structural_walk(expr, (ir.Var, found.append))
    return found


class Reads:
    """The variables that values take from outside of them, each value looked at once, also where branches are nested.

    Symbols that only stand in types are not among them.

    A walk over each of the branches within each other would take time by the square of their depth.
    """

    def __init__(self) -> None:
        self._of_branches: dict[relax.SeqExpr, set[ir.Var]] = {}

    def of(self, value: relax.Expr) -> set[ir.Var]:
        """Return the variables that a value reads."""
        if not isinstance(value, relax.If):
            return _read_by(value)
        read = _read_by(value.cond)
        return read.union(*(self._of_branch(branch) for branch in (value.true_branch, value.false_branch)))

    def _of_branch(self, branch: relax.SeqExpr) -> set[ir.Var]:
        if branch not in self._of_branches:
            bindings = list(bindings_of(branch))
            read = _read_by(branch.body).union(*(self.of(binding.value) for binding in bindings))
            self._of_branches[branch] = read - {binding.var for binding in bindings}
        return self._of_branches[branch]


def _read_by(value: relax.Expr) -> set[ir.Var]:
    return set(array_items(free_vars(value)))


def allocation(tensor: relax.Var, size: tirx.Expr, storage: str = "storage") -> list[relax.VarBinding]:
    """Return the bindings that allocate `size` bytes, named `storage`, and make a tensor of known shape of them."""
    space = relax.op.memory.alloc_storage(relax.ShapeExpr([size]), 0, "global", "uint8")
    held = relax.Var(storage, relax.AnyType())
    made = relax.op.memory.alloc_tensor(held, 0, tensor.ty.shape, str(tensor.ty.dtype))
    return [
        relax.VarBinding(held, retyped(space, relax.AnyType())),
        relax.VarBinding(tensor, retyped(made, tensor.ty)),
    ]


def are_same(made: Sequence[ir.Node], before: Sequence[ir.Node]) -> bool:
    """Say whether nodes are those that stood there before, each the same object."""
    return len(made) == len(before) and all(a.same_as(b) for a, b in zip(made, before, strict=True))
