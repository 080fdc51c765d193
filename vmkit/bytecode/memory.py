"""What memory a program asks for: the storages of each function, and the tensors that take turns in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from math import prod

from .._dataclasses import dataclass
from .builtins import ALLOC_SHAPE_HEAP, ALLOC_STORAGE, ALLOC_TENSOR
from .listing import argument_text
from .program import ArgKind, Call, Program, TensorConstant

__all__ = ["Storage", "memory_text", "storages"]


@dataclass
class Storage:
    """A piece of memory that a function asks for.

    Attributes
    ----------
    function : str
        The function.
    register : int
        What holds it.
    size : int or None
        Its bytes; None where they are computed when the program runs.
    tensors : list of str
        The shapes and data types of the tensors that are made in it.
    """

    function: str
    register: int
    size: int | None
    tensors: list[str] = field(default_factory=list)


def storages(program: Program) -> Iterator[Storage]:
    """Yield the storages of each function in the order of its instructions."""
    for function in program.vm_functions():
        held: dict[int, Storage] = {}
        for instruction in program.code(function):
            if not isinstance(instruction, Call):
                continue
            name, args = program.functions[instruction.function].name, instruction.args
            if name == ALLOC_STORAGE:
                size = program.constants[args[1].value] if args[1].kind == ArgKind.CONSTANT else None
                known = prod(size) if isinstance(size, tuple) else None
                held[instruction.destination] = made = Storage(function.name, instruction.destination, known)
                yield made
            elif name == ALLOC_SHAPE_HEAP and args[1].kind == ArgKind.REGISTER:
                yield Storage(function.name, instruction.destination, None, ["int64"])
            elif name == ALLOC_TENSOR and args[0].value in held:
                shape, dtype = argument_text(program, args[2]), argument_text(program, args[3])
                held[args[0].value].tensors.append(f"{dtype}{shape}")


def memory_text(program: Program) -> str:
    """Return a line for each storage, with the sums of each function, and what the constants take."""
    found = list(storages(program))
    for_function: dict[str, list[Storage]] = {}
    for each in found:
        for_function.setdefault(each.function, []).append(each)
    lines = []
    for name, own in for_function.items():
        lines.append(name)
        for each in own:
            size = "at run time" if each.size is None else f"{each.size:,} bytes"
            lines.append(f"  {size:>20}  %{each.register:<4} {', '.join(each.tensors)}".rstrip())
        known = sum(each.size for each in own if each.size is not None)
        more = sum(each.size is None for each in own)
        lines.append(f"  {f'{known:,} bytes':>20}  in all{f', and {more} of sizes known at run time' if more else ''}")
    constants = [constant for constant in program.constants if isinstance(constant, TensorConstant)]
    lines.append(f"{len(constants)} constants: {sum(each.nbytes for each in constants):,} bytes")
    return "\n".join(lines)
