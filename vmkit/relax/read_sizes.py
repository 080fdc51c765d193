"""Sizes that a kernel has found are read where they get names, and not before.

The VM makes a shape of a tensor, whose sizes a cast then stores. As one binding, of which the tensor is a value, both
are the matter of the function that computes other sizes of these; see :mod:`.size_functions`. In a loop the tensor is
then one that only kernels see, which is allocated once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence

import tvm
from tvm import ir, relax

from .._tvm import retyped
from .._tvm.running import array_items
from .aliases import is_call
from .rewrite import function_pass, nested_bindings, variables_in, with_branches

__all__ = ["read_tensor", "sizes_read_where_named"]

_READ = "vm.builtin.tensor_to_shape"
_KILL = "relax.vm.kill_object"
_ALLOCATED = "relax.vm.alloc_tensor"


def sizes_read_where_named() -> tvm.transform.Pass:
    """Return the pass, to be run on lowered calls of the VM, that reads sizes in the casts that give them names.

    It is for programs whose tensors are where the functions that compute sizes run.
    """
    return function_pass("ReadSizes", lambda function: _read_where_named(function.body))


def read_tensor(value: relax.Expr) -> relax.Expr | None:
    """Return the tensor whose elements a value is as a shape; None for all other values."""
    is_read = isinstance(value, ir.Call) and isinstance(value.op, relax.ExternFunc)
    return value.args[0] if is_read and value.op.global_symbol == _READ else None


def _read_where_named(body: relax.SeqExpr) -> relax.SeqExpr | None:
    values = {binding.var: binding.value for binding in nested_bindings(body)}
    if not any(read_tensor(value) is not None for value in values.values()):
        return None
    counts = Counter(variables_in(body))
    # A tensor that the program allocates is where its kernels run.
    alone = {
        var for var, value in values.items() if counts[var] == 2 and is_call(values.get(read_tensor(value)), _ALLOCATED)
    }

    def sequence(each: relax.SeqExpr) -> relax.SeqExpr:
        blocks = [type(block)(_joined(array_items(block.bindings), alone, counts, sequence)) for block in each.blocks]
        return retyped(relax.SeqExpr(blocks, each.body), each.ty)

    return sequence(body) if alone else None


def _joined(
    bindings: Sequence[relax.Binding],
    alone: Container[ir.Var],
    counts: Mapping[ir.Var, int],
    change: Callable[[relax.SeqExpr], relax.SeqExpr],
) -> list[relax.Binding]:
    """Return bindings in which casts read tensors, and what is forgotten between is forgotten behind them."""
    made: list[relax.Binding] = []
    read: relax.Binding | None = None
    kept: list[relax.Binding] = []
    for binding in bindings:
        if read is not None and is_call(binding.value, _KILL):
            kept.append(binding)
            continue
        if read is not None:
            is_cast = isinstance(binding, relax.MatchCast) and binding.value.same_as(read.var)
            if is_cast and binding.ty.values and counts[binding.var] == 1:
                made += [relax.MatchCast(binding.var, read.value, binding.ty), *kept]
                read, kept = None, []
                continue
            made += [read, *kept]
            read, kept = None, []
        if binding.var in alone:
            read = binding
        else:
            made.append(with_branches(binding, change))
    return made if read is None else [*made, read, *kept]
