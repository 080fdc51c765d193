"""Few integers that only kernels see are allocated as a shape heap is: by one instruction in the place of three.

A tensor takes the VM storage, the tensor in it, and forgetting the storage again. What a shape heap is allocated by
gives a vector of int64 at once, on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from .builtins import ALLOC_SHAPE_HEAP, NULL_VALUE
from .invariants import Uses
from .known_tensors import allocated_tensor
from .program import VM_REGISTER, Arg, ArgKind, Call, FunctionKind, Instruction, Program, VMFunction
from .rewrite import edited, with_bodies, with_packed

__all__ = ["with_integer_tensors"]

_LARGEST = 1 << 10
_INT64 = (0, 64, 1)


def with_integer_tensors(program: Program) -> Program:
    """Return a program, of a CPU alone, in which its functions allocate vectors of integers for kernels at once."""
    changed: dict[int, tuple[VMFunction, Sequence[Instruction]]] = {}
    made, allocate = with_packed(program, ALLOC_SHAPE_HEAP)
    for at, function in enumerate(program.functions):
        if function.kind == FunctionKind.VM:
            code = program.code(function)
            instead = _instead(code, program, allocate)
            if instead:
                changed[at] = function, edited(code, instead=instead)
    return with_bodies(made, changed) if changed else program


def _instead(code: Sequence[Instruction], program: Program, allocate: int) -> dict[int, Sequence[Instruction]]:
    """Return what takes the places of instructions that allocate vectors of integers in storage of their own."""
    uses = Uses(code, program.functions)
    instead: dict[int, Sequence[Instruction]] = {}
    storages: set[int] = set()
    for at in uses.own_storage(program, _LARGEST):
        storage = uses.calls[at].destination
        made = {place: _vector(uses, uses.calls[place], program, allocate) for place in uses.readers.get(storage, ())}
        vectors = {place: vector for place, vector in made.items() if vector is not None}
        if vectors and len(vectors) == len(made):
            instead |= {at: (), **{place: [vector] for place, vector in vectors.items()}}
            storages.add(storage)
    for at, call in uses.calls.items():
        if uses.name(at) == NULL_VALUE and call.destination in storages:
            instead[at] = ()
    return instead


def _vector(uses: Uses, tensor: Call, program: Program, allocate: int) -> Call | None:
    """Return what allocates a tensor for kernels if it is a vector of int64."""
    known = allocated_tensor(program, tensor.args)
    is_seen_by_kernels = all(map(uses.is_kernel, uses.readers.get(tensor.destination, ())))
    if known is None or known.dtype != _INT64 or len(known.shape) != 1 or not is_seen_by_kernels:
        return None
    return Call(
        tensor.destination, allocate, (Arg(ArgKind.REGISTER, VM_REGISTER), Arg(ArgKind.IMMEDIATE, *known.shape))
    )
