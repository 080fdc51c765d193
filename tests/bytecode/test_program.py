"""Which functions a program has, which recurse, and what the VM must not be given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import relax

from tests.bytecode.compiled import PROGRAMS
from tests.relax import programs as vm_programs
from vmkit import bytecode
from vmkit.errors import ExecutableError


def test_unknown_function_lists_the_known_ones(constant_add: bytes) -> None:
    with pytest.raises(ExecutableError, match="Cannot find function foo in executable; it has main"):
        bytecode.decode(constant_add).function("foo")


@pytest.mark.parametrize(
    ("instruction", "problem"),
    [
        (bytecode.Call(99, 0, ()), "writes register 99 of"),
        (bytecode.Call(0, 99, ()), "calls function 99 of"),
        (bytecode.Call(0, 0, (bytecode.Arg(bytecode.ArgKind.CONSTANT, 99),)), "reads constant 99 of"),
        (bytecode.Goto(-1), "jumps by -1"),
        (bytecode.If(0, 99), "jumps by 99"),
        (bytecode.If(99, 1), "reads register 99 of"),
        (bytecode.Ret(-1), "reads register -1 of"),
    ],
)
def test_validate_finds(constant_add: bytes, instruction: bytecode.Instruction, problem: str) -> None:
    program = bytecode.decode(constant_add)
    broken = replace(program, instructions=(instruction, *program.instructions[1:]))
    with pytest.raises(ExecutableError, match=f"bytecode of main, instruction 0: {problem}"):
        broken.validate()


def test_code_that_runs_past_its_end_is_refused(constant_add: bytes) -> None:
    program = bytecode.decode(constant_add)
    with pytest.raises(ExecutableError, match="runs past the end of its function"):
        replace(program, instructions=(*program.instructions[:-1], program.instructions[0])).validate()


@pytest.mark.parametrize("shape", [(100,), (-1, -1), (-4,), (1 << 62, 1 << 62)])
def test_a_constant_that_is_not_whole_is_refused(constant_add: bytes, shape: tuple[int, ...]) -> None:
    program = bytecode.decode(constant_add)
    broken = bytecode.TensorConstant((2, 32, 1), (1, 0), shape, bytes(16))
    with pytest.raises(ExecutableError, match=r"constant 0 of the bytecode: 16 bytes for float32\["):
        replace(program, constants=(broken, *program.constants)).validate()


@pytest.mark.parametrize(("name", "recursive"), [("sum", True), ("triangle", True), ("add_rows", False)])
def test_recursion_is_found_in_calls(name: str, recursive: bool) -> None:
    code = vm_programs.code_of(vm_programs.compiled(PROGRAMS[name]()))
    assert bytecode.decode(code).recursive_functions() == ({0} if recursive else set())
    assert bytecode.decode(bytecode.tail_calls_to_loops(code)).recursive_functions() == (
        {0} if name == "triangle" else set()
    )


def test_mutual_recursion_is_found() -> None:
    builder = relax.ExecBuilder()
    for name in ("even", "odd", "main"):
        builder.declare_function(name, relax.exec_builder.VMFuncKind.VM_FUNC)
    for name, other in (("even", "odd"), ("odd", "even"), ("main", "even")):
        with builder.function(name, num_inputs=1, param_names=["x"]):
            builder.emit_call(other, [builder.r(0)], dst=builder.r(1))
            builder.emit_ret(builder.r(1))
    program = bytecode.decode(vm_programs.code_of(builder.get().mod))
    names = {program.functions[index].name for index in program.recursive_functions()}
    assert names == {"even", "odd"}
