"""A VM program for people to read, under the headings that Relay's executable had. Not a format to parse.

The VM may call one function in place of many kernels, a group. `groups` says which: the kernels' names, in their order,
by the name of the function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from .builtins import PREFIX
from .program import (
    VM_REGISTER,
    VOID_REGISTER,
    Arg,
    ArgKind,
    Call,
    Constant,
    FunctionKind,
    Goto,
    If,
    Instruction,
    Program,
    Ret,
    TensorConstant,
)

__all__ = ["argument_text", "constants_text", "disassemble", "kernel_names", "primitives_text", "stats"]

_Groups = Mapping[str, Sequence[str]]
_NONE: _Groups = MappingProxyType({})
# What Relay's listing called the instruction of a builtin that has another name now.
_INSTRUCTIONS = {"reshape": "reshape_tensor"}


def kernel_names(program: Program, groups: _Groups = _NONE) -> list[str]:
    """Return the names of the kernels, each once, also of those that the VM does not call itself."""
    return list(dict.fromkeys(name for called in program.primitive_ops for name in groups.get(called, [called])))


def stats(program: Program, groups: _Groups = _NONE) -> str:
    """Return the counts of constants, globals and kernels with their names and shapes."""
    tensors = _tensors(program)
    shapes = ", ".join(str(list(tensor.shape)) if tensor.shape else "scalar" for tensor in tensors)
    globals_ = ", ".join(f'("{name}", {index})' for index, name in enumerate(program.globals))
    size = sum(len(tensor.data) for tensor in tensors)
    kernels = kernel_names(program, groups)
    return (
        "Relay VM executable statistics:\n"
        f"  Constant shapes (# {len(tensors)}): [{shapes}]\n"
        f"  Constant bytes: {size}\n"
        f"  Globals (#{len(program.globals)}): [{globals_}]\n"
        f"  Primitive ops (#{len(kernels)}): [{', '.join(kernels)}]\n"
        f"  Instructions: {len(program.instructions)}\n"
    )


def disassemble(program: Program, groups: _Groups = _NONE) -> str:
    """Return the instructions of every function, numbered, with kernels and builtins by name, and what groups are."""
    parts = []
    for index, function in enumerate(program.vm_functions()):
        lines = [
            f"VM Function[{index}]: {function.name}({', '.join(function.param_names)})",
            f"# reg file size = {function.register_file_size}",
            f"# instruction count = {function.end - function.start}",
        ]
        for number, instruction in enumerate(program.code(function)):
            lines.append(f"{number:>4}: {_instruction(program, instruction, number)}")
        parts.append("\n".join(lines) + "\n")
    parts += [f"Kernel group {name}: {', '.join(kernels)}\n" for name, kernels in groups.items()]
    return "\n".join(parts)


def constants_text(program: Program) -> str:
    """Return one line per constant tensor: shape, dtype, values (the first few), device index."""
    lines = []
    for index, tensor in enumerate(_tensors(program)):
        values = np.array2string(tensor.numpy(), threshold=8, separator=", ").replace("\n", "")
        shape = f"({', '.join(map(str, tensor.shape))})"
        lines.append(
            f"VM Const[{index}]: NDArray[{shape},{tensor.dtype_name},({tensor.device[0]},{tensor.device[1]})]="
            f"{values} on device index {tensor.device[1]}\n"
        )
    return "".join(lines)


def primitives_text(program: Program, groups: _Groups = _NONE) -> str:
    """Return one line per kernel."""
    return "".join(f"VM PackedFunc[{index}]: {name}\n" for index, name in enumerate(kernel_names(program, groups)))


def _tensors(program: Program) -> list[TensorConstant]:
    return [constant for constant in program.constants if isinstance(constant, TensorConstant)]


def _instruction(program: Program, instruction: Instruction, number: int) -> str:
    match instruction:
        case Call(destination, callee, args):
            function = program.functions[callee]
            name = function.name.removeprefix(PREFIX)
            if name != function.name:
                name = _INSTRUCTIONS.get(name, name)
            else:
                name = ("invoke_packed " if function.kind == FunctionKind.PACKED else "invoke ") + name
            into = "" if destination == VOID_REGISTER else f"%{destination} = "
            return f"{into}{name}({', '.join(argument_text(program, arg) for arg in args)})"
        case Ret(result):
            return f"ret {_register(result)}"
        case Goto(offset):
            return f"goto {number + offset}"
        case If(condition, offset):
            return f"if {_register(condition)} else goto {number + offset}"


def argument_text(program: Program, arg: Arg) -> str:
    """Return an argument of an instruction as the listing has it."""
    match arg.kind:
        case ArgKind.REGISTER:
            return _register(arg.value)
        case ArgKind.IMMEDIATE:
            return str(arg.value)
        case ArgKind.CONSTANT:
            return _constant(arg.value, program.constants[arg.value])
        case ArgKind.FUNCTION:
            return f"@{program.functions[arg.value].name}"


def _constant(index: int, value: Constant) -> str:
    if isinstance(value, TensorConstant):
        return f"c[{index}]:{value.dtype_name}{list(value.shape)}"
    if isinstance(value, str):
        return repr(value)
    return str(value)


def _register(number: int) -> str:
    return {VOID_REGISTER: "void", VM_REGISTER: "vm"}.get(number, f"%{number}")
