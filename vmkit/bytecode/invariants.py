"""What a loop in the bytecode need not do again in every iteration.

The types of the parameters are those that the function itself passes on. Memory of a fixed size for a value that only
kernels see, and that so is of no use once the iteration is over, serves every iteration.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod

from .builtins import (
    ALLOC_SHAPE_HEAP,
    ALLOC_STORAGE,
    ALLOC_TENSOR,
    CHECK_TENSOR_INFO,
    NULL_VALUE,
    READ_IF_COND,
)
from .program import SPECIAL_REGISTER, ArgKind, Call, FunctionKind, If, Instruction, Program, Ret, VMFunction

__all__ = ["Uses", "first_of_loop", "lasting_memory"]

_ONCE = (ALLOC_SHAPE_HEAP, CHECK_TENSOR_INFO)  # what the start of a function does that its parameters' types decide
# A large tensor is better given back: next to its kernel, allocating it costs nothing.
_LARGEST = 1 << 16


def first_of_loop(code: Sequence[Instruction], functions: Sequence[VMFunction]) -> int:
    """Return the position of the first instruction that a further iteration has to run."""
    for at, instruction in enumerate(code):
        if not isinstance(instruction, Call) or functions[instruction.function].name not in _ONCE:
            return at
    return 0


def lasting_memory(code: Sequence[Instruction], program: Program) -> tuple[list[Call], set[int]]:
    """Return the allocations that can be made once, before the loop, and the positions to leave out inside.

    These are the positions of the allocations and of the instructions that release them.
    """
    uses = Uses(code, program.functions)
    calls = uses.calls
    lasting: list[int] = []
    for at in uses.own_storage(program, _LARGEST):
        lasting += [at, *uses.readers.get(calls[at].destination, ())]
    registers = {calls[at].destination for at in lasting}
    killed = {at for at, call in calls.items() if uses.name(at) == NULL_VALUE and call.destination in registers}
    return [calls[at] for at in sorted(lasting)], {*lasting, *killed}


def _bytes(allocation: Call, program: Program) -> int:
    shape = allocation.args[1]
    value = program.constants[shape.value] if shape.kind == ArgKind.CONSTANT else None
    return prod(value) if isinstance(value, tuple) else sys.maxsize


class Uses:
    """Where the registers of a function are written and read.

    Attributes
    ----------
    calls : dict of int to Call
        The calls by position.
    readers : dict of int to list of int
        The positions of the instructions that read each register.
    """

    def __init__(self, code: Sequence[Instruction], functions: Sequence[VMFunction]) -> None:
        self.calls = {at: instruction for at, instruction in enumerate(code) if isinstance(instruction, Call)}
        self.functions = functions
        self.defined: dict[int, int] = {}
        self.several: set[int] = set()
        self.readers: dict[int, list[int]] = {}
        for at, instruction in enumerate(code):
            for register in _read(instruction):
                self.readers.setdefault(register, []).append(at)
        for at, call in self.calls.items():
            if self.name(at) != NULL_VALUE:
                if call.destination in self.defined:
                    self.several.add(call.destination)
                self.defined[call.destination] = at

    def name(self, at: int) -> str:
        """Return the name of the function that the instruction at a position calls; nothing if it is no call."""
        return self.functions[self.calls[at].function].name if at in self.calls else ""

    def own_storage(self, program: Program, largest: int) -> list[int]:
        """Return the positions that allocate storage of a fixed size, up to `largest` bytes, for kernels alone."""
        found = []
        for storage, at in self.allocated(ALLOC_STORAGE).items():
            tensors = self.made_in(storage) if _bytes(self.calls[at], program) <= largest else None
            if tensors is not None and all(map(self.is_kernels_own, tensors)):
                found.append(at)
        return found

    def allocated(self, name: str) -> dict[int, int]:
        """Return the registers that only an allocation of a fixed size writes, with its position."""
        return {
            register: at
            for register, at in self.defined.items()
            if self.name(at) == name
            and register not in self.several
            and all(a.kind != ArgKind.REGISTER or a.value >= SPECIAL_REGISTER for a in self.calls[at].args)
        }

    def made_in(self, storage: int) -> list[int] | None:
        """Return the tensors of fixed shape in a storage; None if something else is done with it."""
        tensors = []
        for at in self.readers.get(storage, ()):
            call = self.calls.get(at)
            if call is None or self.name(at) != ALLOC_TENSOR or call.destination in self.several:
                return None
            if any(a.kind == ArgKind.REGISTER and a.value != storage for a in call.args):
                return None
            tensors.append(call.destination)
        return tensors

    def is_kernels_own(self, tensor: int) -> bool:
        """Say whether only kernels and branches see a tensor: they do not keep it."""
        return all(self.name(at) == READ_IF_COND or self.is_kernel(at) for at in self.readers.get(tensor, ()))

    def is_kernel(self, at: int) -> bool:
        """Say whether the instruction at a position calls a kernel."""
        if at not in self.calls:
            return False
        function = self.functions[self.calls[at].function]
        # Functions of the runtime have dots in their names, the kernels of the program have none.
        return function.kind == FunctionKind.PACKED and "." not in function.name


def _read(instruction: Instruction) -> list[int]:
    match instruction:
        case Call(_, _, args):
            return [a.value for a in args if a.kind == ArgKind.REGISTER]
        case Ret(result):
            return [result]
        case If(condition):
            return [condition]
    return []
