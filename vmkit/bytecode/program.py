"""A VM program as data: functions, constants and instructions, and the rules that a well-formed one keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from .._dataclasses import dataclass
from ..errors import ExecutableError
from ..values.kernel_needs import KnownTensor, Need, dtype_name, is_nameable
from .builtins import MAKE_TUPLE, PREFIX, RELEASE
from .instructions import (
    SPECIAL_REGISTER,
    VM_REGISTER,
    VOID_REGISTER,
    Arg,
    ArgKind,
    Call,
    FunctionKind,
    Goto,
    If,
    Instruction,
    Ret,
)
from .verifier import register_problem

__all__ = [
    "SPECIAL_REGISTER",
    "VM_REGISTER",
    "VOID_REGISTER",
    "Arg",
    "ArgKind",
    "Call",
    "Constant",
    "DTypeConstant",
    "FunctionKind",
    "Goto",
    "If",
    "Instruction",
    "Program",
    "Ret",
    "TensorConstant",
    "VMFunction",
    "is_placeholder",
]


@dataclass(frozen=True)
class TensorConstant:
    """A constant tensor as stored: the DLPack dtype triple, the device, the shape and the bytes."""

    dtype: tuple[int, int, int]
    device: tuple[int, int]
    shape: tuple[int, ...]
    data: bytes | memoryview
    reserved: int = 0

    @property
    def dtype_name(self) -> str:
        """The dtype's name, such as ``float32``."""
        return dtype_name(self.dtype)

    @property
    def nbytes(self) -> int:
        """How many bytes there are."""
        return len(self.data)

    @property
    def is_whole(self) -> bool:
        """Whether the bytes hold every element of the shape, whose extents are none of them negative."""
        known = self.known
        return known.is_possible and known.bits <= 8 * self.nbytes

    @property
    def known(self) -> KnownTensor:
        """Its data type and extents."""
        return KnownTensor(self.dtype, self.shape)

    def numpy(self) -> np.ndarray:
        """Return the values as a read-only array; a dtype that numpy lacks comes as raw ``uint8`` bytes."""
        known = {"bfloat16": "uint16"}.get(self.dtype_name, self.dtype_name)
        try:
            return np.frombuffer(self.data, known).reshape(self.shape)
        except (TypeError, ValueError):
            return np.frombuffer(self.data, "uint8")


@dataclass(frozen=True)
class DTypeConstant:
    """A constant dtype, as the DLPack triple of code, bits and lanes."""

    dtype: tuple[int, int, int]

    def __str__(self) -> str:
        return dtype_name(self.dtype)


Constant = TensorConstant | DTypeConstant | tuple[int, ...] | str | int | float
_PLACEHOLDERS = "vmkit."  # what texts begin with that stand in the place of tensors that are kept elsewhere
_KINDS: dict[type, str] = {
    TensorConstant: "a tensor",
    DTypeConstant: "a data type",
    tuple: "a shape",
    str: "a string",
    int: "a number",
    float: "a number",
}
"""A constant of a program; tuples are shapes."""


@dataclass(frozen=True)
class VMFunction:
    """A row of the function table. Only functions of kind VM have instructions and registers."""

    kind: FunctionKind
    name: str
    start: int
    end: int
    num_args: int
    register_file_size: int
    param_names: tuple[str, ...]


def _constant_problem(constant: Constant) -> str:
    if isinstance(constant, TensorConstant | DTypeConstant) and not is_nameable(constant.dtype):
        return f"the data type {dtype_name(constant.dtype)}, which no program has"
    if isinstance(constant, TensorConstant) and not constant.is_whole:
        return f"{constant.nbytes} bytes for {constant.known}"
    return ""


def is_placeholder(constant: Constant) -> bool:
    """Say whether a constant is a text in the place of a tensor that is kept elsewhere."""
    return isinstance(constant, str) and constant.startswith(_PLACEHOLDERS)


def _kind_of(constant: Constant) -> str:
    if is_placeholder(constant):
        return _KINDS[TensorConstant]
    return _KINDS[TensorConstant if isinstance(constant, TensorConstant) else type(constant)]


@dataclass(frozen=True)
class Program:
    """The code half of an executable."""

    version: str
    functions: tuple[VMFunction, ...]
    memory_scopes: tuple[tuple[int, str], ...]
    constants: tuple[Constant, ...]
    instructions: tuple[Instruction, ...] = field(repr=False)

    def vm_functions(self) -> Iterator[VMFunction]:
        """Yield the functions that have bytecode, in the table's order."""
        return (function for function in self.functions if function.kind == FunctionKind.VM)

    def code(self, function: VMFunction) -> tuple[Instruction, ...]:
        """Return the instructions of a function of the table; packed ones have none."""
        return self.instructions[function.start : function.end] if function.kind == FunctionKind.VM else ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the functions, by position."""
        return tuple(function.name for function in self.functions)

    @cached_property
    def constant_kinds(self) -> tuple[str, ...]:
        """What each constant is."""
        return tuple(_kind_of(constant) for constant in self.constants)

    @property
    def globals(self) -> list[str]:
        """The names of the functions that can be called from outside."""
        own = [function.name for function in self.functions if function.kind != FunctionKind.PACKED]
        return [name for name in own if not name.endswith(RELEASE)]

    @property
    def primitive_ops(self) -> list[str]:
        """The names of the kernels: packed functions that are not the VM's own."""
        return [name for name in self.packed_names if not name.startswith(PREFIX)]

    @property
    def packed_names(self) -> list[str]:
        """The names of all functions that are called and are not bytecode: kernels, the VM's own, and others."""
        return [function.name for function in self.functions if function.kind == FunctionKind.PACKED]

    def function(self, name: str) -> VMFunction:
        """Return a function that can be called from outside."""
        for candidate in self.functions:
            if candidate.name == name and candidate.kind != FunctionKind.PACKED:
                return candidate
        raise ExecutableError(f"Cannot find function {name} in executable; it has {', '.join(self.globals) or 'none'}")

    def calls(self) -> dict[int, set[int]]:
        """Return the positions of the functions that each function calls, by its own.

        Making a function a value counts as calling it: who calls the value is not known.
        """
        calls: dict[int, set[int]] = {}
        for index, function in enumerate(self.functions):
            called = [instruction for instruction in self.code(function) if isinstance(instruction, Call)]
            made = {arg.value for call in called for arg in call.args if arg.kind == ArgKind.FUNCTION}
            calls[index] = {call.function for call in called} | made
        return calls

    def recursive_functions(self) -> set[int]:
        """Return the positions of the functions that can come to call themselves; that may take any amount of stack."""
        calls = self.calls()
        return {index for index in calls if index in _reachable(calls, index)}

    def makes_adt_values(self) -> bool:
        """Tell whether a function makes ADT values: tuples that start with a number."""
        names = [function.name for function in self.functions]
        return any(
            isinstance(instruction, Call)
            and names[instruction.function] == MAKE_TUPLE
            and bool(instruction.args)
            and instruction.args[0].kind == ArgKind.IMMEDIATE
            for instruction in self.instructions
        )

    def require_needs(self, needs: Mapping[str, Sequence[Need]]) -> None:
        """Raise if a kernel group is given what it cannot work with; :meth:`validate` has passed the program.

        Parameters
        ----------
        needs
            What groups need of their arguments, by their names, as their library tells it.
        """
        for function in self.vm_functions():
            found = register_problem(self, function, needs)
            if found is not None:
                raise ExecutableError(f"bytecode of {function.name}, instruction {found[0]}: {found[1]}")

    def validate(self) -> None:
        """Raise if an instruction refers to a register, constant, function or instruction that does not exist.

        Likewise if a constant has fewer bytes than elements, or a register is read that is not set on every path, or
        does not hold what one of the VM's functions expects (see :mod:`.verifier`). The VM does not look at this
        itself: bad bytecode reads and writes foreign memory there.
        """
        for position, constant in enumerate(self.constants):
            problem = _constant_problem(constant)
            if problem:
                raise ExecutableError(f"constant {position} of the bytecode: {problem}")
        for function in self.vm_functions():
            if not 0 <= function.start < function.end <= len(self.instructions):
                raise ExecutableError(
                    f"bytecode of {function.name}: instructions {function.start} to {function.end} of "
                    f"{len(self.instructions)}"
                )
            if not function.num_args == len(function.param_names) <= function.register_file_size:
                raise ExecutableError(f"bytecode of {function.name}: parameters and registers do not agree")
            for position in range(function.start, function.end):
                problem = self._problem(function, position)
                if problem:
                    raise ExecutableError(f"bytecode of {function.name}, instruction {position}: {problem}")
            found = register_problem(self, function)
            if found is not None:
                raise ExecutableError(f"bytecode of {function.name}, instruction {found[0]}: {found[1]}")

    def _problem(self, function: VMFunction, position: int) -> str:
        instruction = self.instructions[position]
        last = position == function.end - 1
        if last and isinstance(instruction, Call | If):
            return "runs past the end of its function"
        match instruction:
            case Call(destination, callee, args):
                if not 0 <= callee < len(self.functions):
                    return f"calls function {callee} of {len(self.functions)}"
                if destination != VOID_REGISTER and not 0 <= destination < function.register_file_size:
                    return f"writes register {destination} of {function.register_file_size}"
                limits = self._limits(function)
                for arg in args:
                    if not 0 <= arg.value < limits[arg.kind] and (problem := self._arg_problem(function, arg)):
                        return problem
                return ""
            case Ret(result):
                return self._arg_problem(function, Arg(ArgKind.REGISTER, result))
            case Goto(offset):
                return "" if function.start <= position + offset < function.end else f"jumps by {offset}"
            case If(condition, offset):
                if not function.start <= position + offset < function.end:
                    return f"jumps by {offset}"
                return self._arg_problem(function, Arg(ArgKind.REGISTER, condition))

    def _arg_problem(self, function: VMFunction, arg: Arg) -> str:
        limit = self._limits(function)[arg.kind]
        special = arg.kind == ArgKind.REGISTER and arg.value in (VOID_REGISTER, VM_REGISTER)
        if special or arg.kind == ArgKind.IMMEDIATE or 0 <= arg.value < limit:
            return ""
        return f"reads {arg.kind.name.lower()} {arg.value} of {limit}"

    def _limits(self, function: VMFunction) -> tuple[int, int, int, int]:
        """Return, by kind of argument, from which number on there is nothing; immediate values have no end."""
        return function.register_file_size, SPECIAL_REGISTER, len(self.constants), len(self.functions)


def _reachable(calls: dict[int, set[int]], start: int) -> set[int]:
    """Return what can be reached from `start` by one call or more."""
    seen: set[int] = set()
    waiting = list(calls[start])
    while waiting:
        index = waiting.pop()
        if index not in seen:
            seen.add(index)
            waiting.extend(calls[index])
    return seen
