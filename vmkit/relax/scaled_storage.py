"""Storage whose size is known at run time only is used again by tensors of another size.

TVM's memory planner gives released storage of an unknown size to tensors of the very same size only. But in a network
over any number of images all sizes are multiples of that number, so that it is known which is larger. A network that
works in fewer places finds more of them in the cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import inf

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.sym import Analyzer

from .._dataclasses import dataclass
from .aliases import STORAGE, TENSOR, is_call
from .rewrite import bindings_of, function_pass, on_bindings, retyped_call, variables_in

__all__ = ["share_scaled_storage"]

_LIKE = 16  # how many times larger or smaller storage that is used again may be, as in TVM's planner


@dataclass
class _Storage:
    """Storage of `scale` times `unit` bytes; `call` allocates such storage for one tensor of those that lie in it.

    It is used from binding `begin` to binding `end`, which is infinite for what the function returns.
    """

    var: relax.Var
    call: relax.Call
    scale: int
    unit: tirx.Expr
    begin: int
    end: float

    def takes(self, other: _Storage) -> bool:
        """Say whether this storage is released when the other is needed, and may have its size."""
        if self.end >= other.begin or not self.scale <= other.scale * _LIKE <= self.scale * _LIKE * _LIKE:
            return False
        _, *mine, _ = self.call.args  # between size and data type, which says nothing: the device and the scope
        _, *others, _ = other.call.args
        return all(map(tvm_ffi.structural_equal, [self.unit, *mine], [other.unit, *others]))


def share_scaled_storage() -> tvm.transform.Pass:
    """Return the pass, to be run after memory planning, that plans storage of related unknown sizes anew."""
    return function_pass("ShareScaledStorage", lambda function: _shared(function.body))


def _shared(body: relax.SeqExpr) -> relax.SeqExpr | None:
    planned = {b.var: b.value for b in bindings_of(body) if _scaled_size(b.value)} if _is_straight(body) else {}
    return _rewritten(body, planned, _owners(_tensors(body, planned))) if planned else None


def _is_straight(body: relax.SeqExpr) -> bool:
    """Say whether a function has no branches and no functions within, so that its bindings run in their order."""
    nested = (relax.If, relax.Function)
    return not any(isinstance(binding.value, nested) for binding in bindings_of(body))


def _scaled_size(value: relax.Expr) -> tuple[int, tirx.Expr] | None:
    """Return what the unknown size of allocated storage is a multiple of, after how many times that it is."""
    if not is_call(value, STORAGE):
        return None
    size = Analyzer().simplify(value.args[0].values[0])
    if isinstance(size, tirx.Mul) and isinstance(size.b, tirx.IntImm) and int(size.b) > 0:
        return int(size.b), size.a
    return None if isinstance(size, tirx.IntImm) else (1, size)


def _tensors(body: relax.SeqExpr, planned: Mapping[relax.Var, relax.Call]) -> dict[relax.Var, _Storage]:
    """Return for each tensor in the storage that was planned storage of its own, as long as anything may lie in it."""
    found: dict[relax.Var, _Storage] = {}
    holds: dict[relax.Var, list[_Storage]] = {}  # what a value may lie in: a tensor, views of it, tuples of it

    def used(value: relax.Expr, at: float) -> list[_Storage]:
        inside = [storage for var in variables_in(value) for storage in holds.get(var, ())]
        for storage in inside:
            storage.end = max(storage.end, at)
        return inside

    for count, binding in enumerate(bindings_of(body), start=1):
        value, var = binding.value, binding.var
        if not _is_tensor_in(value, planned):
            holds[var] = used(value, count)
            continue
        call = planned[value.args[0]]
        size = _scaled_size(call)
        assert size is not None
        found[var] = _Storage(relax.Var("storage", value.args[0].ty), call, *size, begin=count, end=count)
        holds[var] = [found[var]]
    used(body.body, inf)
    return found


def _owners(tensors: Mapping[relax.Var, _Storage]) -> dict[relax.Var, _Storage]:
    """Return for each tensor the storage it lies in: its own, or that of others which are released by then."""
    kept = defaultdict[int, list[_Storage]](list)  # by the unit, for a program may have as many as tensors
    owners: dict[relax.Var, _Storage] = {}
    for tensor, storage in tensors.items():
        alike = kept[tvm_ffi.structural_hash(storage.unit)]
        # The caller shall not hold more than the result.
        free = [each for each in alike if each.takes(storage)] if storage.end < inf else []
        large = [each for each in free if each.scale >= storage.scale]
        wanted = storage.scale
        # The smallest that is large enough, else the one that has to grow least.
        owner = min(large or free, key=lambda each: abs(each.scale - wanted), default=None)
        if owner is None:
            owner = storage
            alike.append(storage)
        owner.scale, owner.end = max(owner.scale, storage.scale), storage.end
        owners[tensor] = owner
    return owners


def _rewritten(
    body: relax.SeqExpr, planned: Mapping[relax.Var, relax.Call], owners: Mapping[relax.Var, _Storage]
) -> relax.SeqExpr:
    """Return a function's body that allocates storage as its tensors own it, each before the first of them."""
    made: set[relax.Var] = set()

    def change(binding: relax.Binding) -> Iterator[relax.Binding]:
        owner = owners.get(binding.var)
        if owner is None:
            yield from () if binding.var in planned else (binding,)
            return
        if owner.var not in made:
            made.add(owner.var)
            size = relax.ShapeExpr([owner.unit * tirx.IntImm("int64", owner.scale)])
            yield relax.VarBinding(owner.var, retyped_call(owner.call, [size, *list(owner.call.args)[1:]]))
        yield relax.VarBinding(binding.var, retyped_call(binding.value, [owner.var, *list(binding.value.args)[1:]]))

    return on_bindings(body, change)


def _is_tensor_in(value: relax.Expr, planned: Mapping[relax.Var, relax.Call]) -> bool:
    return is_call(value, TENSOR) and value.args[0] in planned
