"""Where a kernel group keeps what only its kernels see."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from tvm import ir, relax, tirx
from tvm.sym import Analyzer

from ...values.host_memory import ALIGNMENT
from ..rewrite import allocation
from ..shape_checks import is_check
from .functions import WORD, KernelGroup

__all__ = ["WORKSPACE_STORAGE", "places_of", "with_workspaces"]

WORKSPACE_STORAGE = "workspace_storage"
"""What the names of variables begin with that are bound to the storage of workspaces, and to no other."""

_CLOSURES = ("relax.invoke_closure", "relax.invoke_pure_closure")


def places_of(
    sizes: Mapping[relax.Expr, tirx.Expr], analyzer: Analyzer
) -> tuple[dict[relax.Expr, tirx.Expr], tirx.Expr]:
    """Return the offset of each storage in a workspace, and the size of that; those of known sizes come first."""
    places: dict[relax.Expr, tirx.Expr] = {}
    end = tirx.IntImm("int64", 0)
    for storage, size in sorted(sizes.items(), key=lambda one: not isinstance(one[1], tirx.IntImm)):
        places[storage] = end
        end = analyzer.simplify(end + (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT)
    return places, end


def with_workspaces(
    items: Sequence[relax.Binding | tuple[relax.VarBinding, KernelGroup]],
    kernels: Container[ir.GlobalVar],
    analyzer: Analyzer,
) -> list[relax.Binding]:
    """Return the bindings of a sequence, in which kernel groups are calls.

    Groups share a workspace up to where its size would hold symbols that are not known before, or where a function of
    the program is called, which may allocate one itself.
    """
    needed: list[list[tirx.Expr]] = [[]]
    for item in items:
        if isinstance(item, tuple):
            needed[-1] += [item[1].size] if item[1].offset else []
        elif _ends_workspace(item, kernels):
            needed.append([])
    made: list[relax.Binding] = []
    workspace: relax.Var | None = None
    for item in items:
        if not isinstance(item, tuple):
            made.append(item)
            if _ends_workspace(item, kernels):
                needed, workspace = needed[1:], None
            continue
        binding, group = item
        args = list(group.tensors)
        if group.offset:
            if workspace is None:
                allocations = _workspace(_largest(needed[0], analyzer), analyzer)
                made += allocations
                workspace = allocations[-1].var
            args.append(workspace)
        call = ir.Call(group.name, [*args, *group.symbols], ret_ty=binding.value.ty)
        made.append(relax.VarBinding(binding.var, call))
    return made


def _largest(sizes: Sequence[tirx.Expr], analyzer: Analyzer) -> tirx.Expr:
    """Return the largest of some sizes, as an expression where symbols decide."""
    known = [size for size in sizes if isinstance(size, tirx.IntImm)]
    others = [size for size in sizes if not isinstance(size, tirx.IntImm)]
    largest = max(known, key=lambda size: int(size.value)) if known else others[0]
    for size in others:
        largest = analyzer.simplify(tirx.max(largest, size))
    return largest


def _ends_workspace(binding: relax.Binding, kernels: Container[ir.GlobalVar]) -> bool:
    """Say whether a binding defines symbols, or runs other functions of the program."""
    value = binding.value
    if isinstance(binding, relax.MatchCast):
        return not is_check(binding)
    if not isinstance(value, ir.Call):
        return isinstance(value, relax.If)
    if isinstance(value.op, ir.GlobalVar):
        return value.op not in kernels
    return isinstance(value.op, ir.Var) or getattr(value.op, "name", "") in _CLOSURES


def _workspace(size: tirx.Expr, analyzer: Analyzer) -> list[relax.VarBinding]:
    """Return the allocation of a workspace of `size` bytes, as integers: so the VM makes little ones at once."""
    ty = relax.TensorType([analyzer.simplify(tirx.floordiv(size, WORD))], "int64")
    return allocation(relax.Var("workspace", ty), size, WORKSPACE_STORAGE)
