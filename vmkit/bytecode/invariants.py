"""What a loop in the bytecode need not do again in every iteration.

The types of the parameters are those that the function itself passes on. Memory of a fixed size for a value that only
kernels see, and that so is of no use once the iteration is over, serves every iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .program import SPECIAL_REGISTER, ArgKind, Call, FunctionKind, If, Instruction, Program, Ret, VMFunction

__all__ = ["first_of_loop", "lasting_memory"]

_HEAP = "vm.builtin.alloc_shape_heap"
_TYPE = "vm.builtin.check_tensor_info"
_STORAGE = "vm.builtin.alloc_storage"
_TENSOR = "vm.builtin.alloc_tensor"
_KILL = "vm.builtin.null_value"
_READ = "vm.builtin.read_if_cond"
# A large tensor is better given back: next to its kernel, allocating it costs nothing.
_LARGEST = 1 << 16


def first_of_loop(code: Sequence[Instruction], functions: Sequence[VMFunction]) -> int:
    """Return the position of the first instruction that a further iteration has to run."""
    for at, instruction in enumerate(code):
        if not isinstance(instruction, Call) or functions[instruction.function].name not in (_HEAP, _TYPE):
            return at
    return 0


def lasting_memory(code: Sequence[Instruction], program: Program) -> tuple[list[Call], set[int]]:
    """Return the allocations that can be made once, before the loop, and the positions to leave out inside.

    These are the positions of the allocations and of the instructions that release them.
    """
    uses = _Uses(code, program)
    lasting: list[int] = []
    for storage, at in uses.allocated(_STORAGE).items():
        tensors = uses.made_in(storage)
        if _bytes(code[at], program) <= _LARGEST and tensors is not None and all(map(uses.is_kernels_own, tensors)):
            lasting += [at, *(uses.defined[t] for t in tensors)]
    registers = {code[at].destination for at in lasting}  # type: ignore[union-attr]
    killed = {at for at, call in enumerate(code) if uses.name(call) == _KILL and call.destination in registers}  # type: ignore[union-attr]
    return [code[at] for at in sorted(lasting)], {*lasting, *killed}  # type: ignore[misc]


def _bytes(allocation: Instruction, program: Program) -> int:
    shape = allocation.args[1] if isinstance(allocation, Call) else None
    value = program.constants[shape.value] if shape is not None and shape.kind == ArgKind.CONSTANT else None
    return prod(value) if isinstance(value, tuple) else _LARGEST + 1


class _Uses:
    """Where the registers of a function are written and read."""

    def __init__(self, code: Sequence[Instruction], program: Program) -> None:
        self.code = code
        self.functions = program.functions
        self.defined: dict[int, int] = {}
        self.several: set[int] = set()
        self.readers: dict[int, list[int]] = {}
        for at, instruction in enumerate(code):
            for register in _read(instruction):
                self.readers.setdefault(register, []).append(at)
            if isinstance(instruction, Call) and self.name(instruction) != _KILL:
                if instruction.destination in self.defined:
                    self.several.add(instruction.destination)
                self.defined[instruction.destination] = at

    def name(self, instruction: Instruction) -> str:
        return self.functions[instruction.function].name if isinstance(instruction, Call) else ""

    def allocated(self, name: str) -> dict[int, int]:
        """Return the registers that only an allocation of a fixed size writes, with its position."""
        return {
            register: at
            for register, at in self.defined.items()
            if self.name(self.code[at]) == name
            and register not in self.several
            and all(a.kind != ArgKind.REGISTER or a.value >= SPECIAL_REGISTER for a in self.code[at].args)  # type: ignore[union-attr]
        }

    def made_in(self, storage: int) -> list[int] | None:
        """Return the tensors of fixed shape in a storage; None if something else is done with it."""
        tensors = []
        for at in self.readers.get(storage, ()):
            call = self.code[at]
            if self.name(call) != _TENSOR or call.destination in self.several:  # type: ignore[union-attr]
                return None
            if any(a.kind == ArgKind.REGISTER and a.value != storage for a in call.args):  # type: ignore[union-attr]
                return None
            tensors.append(call.destination)  # type: ignore[union-attr]
        return tensors

    def is_kernels_own(self, tensor: int) -> bool:
        """Say whether only kernels and branches see a tensor: they do not keep it."""
        return all(
            self.name(self.code[at]) == _READ or self.is_kernel(self.code[at]) for at in self.readers.get(tensor, ())
        )

    def is_kernel(self, instruction: Instruction) -> bool:
        if not isinstance(instruction, Call):
            return False
        function = self.functions[instruction.function]
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
