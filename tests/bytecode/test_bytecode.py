"""Reading, printing, rewriting and writing the VM's bytecode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax import programs as vm_programs
from vmkit import bytecode
from vmkit.errors import ExecutableError

PROGRAMS = {
    "sum": lambda: vm_programs.Sum,
    "swap": lambda: vm_programs.Swap,
    "nested": lambda: vm_programs.Nested,
    "triangle": lambda: vm_programs.Triangle,
    "add_rows": lambda: vm_programs.add_rows()[0],
    "tuples": lambda: vm_programs.tuples()[0],
    "constant_add": lambda: vm_programs.constant_add()[0],
}


def run(module: tvm.runtime.Module, *args: int) -> int:
    vm = relax.VirtualMachine(module, tvm.cpu())
    return int(vm["main"](*(tvm.runtime.tensor(np.array(arg, "int32")) for arg in args)).numpy())


@pytest.fixture(scope="module")
def constant_add() -> bytes:
    return vm_programs.code_of(vm_programs.compiled(vm_programs.constant_add()[0]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_decode_then_encode_gives_the_same_bytes(name: str) -> None:
    code = vm_programs.code_of(vm_programs.compiled(PROGRAMS[name]()))
    program = bytecode.decode(code)
    program.validate()
    assert bytecode.encode(program) == code


def test_every_kind_of_constant_is_kept() -> None:
    builder = relax.ExecBuilder()
    values = [np.arange(3, dtype="int8"), np.array(True), np.zeros((0, 2), "float16")]
    constants = [builder.convert_constant(tvm.runtime.tensor(value)) for value in values]
    constants += [builder.convert_constant("text"), builder.convert_constant(tvm.DataType("bool"))]
    with builder.function("main", num_inputs=0):
        builder.emit_call("vm.builtin.make_tuple", [*constants, builder.imm(-3)], dst=builder.r(0))
        builder.emit_ret(builder.r(0))
    code = vm_programs.code_of(builder.get().mod)
    program = bytecode.decode(code)
    assert bytecode.encode(program) == code
    assert [c.dtype_name for c in program.constants[:3]] == ["int8", "bool", "float16"]
    np.testing.assert_array_equal(program.constants[0].numpy(), values[0])
    assert program.constants[3] == "text"
    assert "make_tuple(c[0]:int8[3], c[1]:bool[], c[2]:float16[0, 2], 'text', bool, -3)" in bytecode.disassemble(
        program
    )


def test_listings_name_functions_kernels_and_constants(constant_add: bytes) -> None:
    program = bytecode.decode(constant_add)
    assert program.globals == ["main"]
    assert program.primitive_ops == ["add"]
    assert program.function("main").param_names == ("x",)
    assert "Constant shapes (# 1): [[4]]" in bytecode.stats(program)
    assert 'Globals (#1): [("main", 0)]' in bytecode.stats(program)
    assert bytecode.disassemble(program).startswith("VM Function[0]: main(x)\n# reg file size = ")
    assert "invoke_packed add(%0, c[" in bytecode.disassemble(program)
    assert bytecode.constants_text(program) == (
        "VM Const[0]: NDArray[(4),float32,(1,0)]=[0., 1., 2., 3.] on device index 0\n"
    )
    assert bytecode.primitives_text(program) == "VM PackedFunc[0]: add\n"


def test_unknown_function_lists_the_known_ones(constant_add: bytes) -> None:
    with pytest.raises(ExecutableError, match="Cannot find function foo in executable; it has main"):
        bytecode.decode(constant_add).function("foo")


def test_every_truncation_is_an_error_that_names_the_section(constant_add: bytes) -> None:
    sections = set()
    for size in range(len(constant_add)):
        with pytest.raises(ExecutableError, match=r"Invalid VM file format in the [a-z ]+ section") as caught:
            bytecode.decode(constant_add[:size])
        sections.add(str(caught.value).split("in the ")[1].split(" section")[0])
    assert sections == {"header", "global", "memory scope", "constant", "code"}


def test_no_altered_byte_escapes_as_another_exception(constant_add: bytes) -> None:
    for at in range(len(constant_add)):
        altered = bytearray(constant_add)
        altered[at] ^= 0x81
        try:
            bytecode.decode(altered).validate()
        except ExecutableError:
            continue


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


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("sum", (0, 7), 7),
        ("sum", (10, 0), 55),
        ("swap", (0, 5, 2), 3),
        ("swap", (1, 5, 2), -3),
        ("swap", (1001, 5, 2), -3),
        ("nested", (9, 1), 41),
    ],
)
def test_tail_calls_to_loops_keeps_values(name: str, args: tuple[int, ...], expected: int) -> None:
    module = vm_programs.compiled(PROGRAMS[name]())
    code = vm_programs.code_of(module)
    looped = bytecode.tail_calls_to_loops(code)
    bytecode.decode(looped).validate()
    assert "invoke main" in bytecode.disassemble(bytecode.decode(code))
    assert "invoke main" not in bytecode.disassemble(bytecode.decode(looped)), "no call to itself is left"
    assert run(module, *args) == expected
    assert run(vm_programs.link(looped, module), *args) == expected


def test_a_million_iterations_run_in_one_frame() -> None:
    module = vm_programs.compiled(vm_programs.Sum)
    looped = vm_programs.link(bytecode.tail_calls_to_loops(vm_programs.code_of(module)), module)
    expected = np.int64(1_000_000 * 1_000_001 // 2).astype("int32")
    assert run(looped, 1_000_000, 0) == expected


@pytest.mark.parametrize("name", ["triangle", "add_rows", "constant_add"])
def test_programs_without_tail_calls_are_unchanged(name: str) -> None:
    code = vm_programs.code_of(vm_programs.compiled(PROGRAMS[name]()))
    assert bytecode.tail_calls_to_loops(code) == code


def test_a_loop_leaves_functions_after_it_intact() -> None:
    mod = tvm.IRModule({**vm_programs.Sum.functions})
    builder = relax.BlockBuilder(mod)
    x = relax.Var("x", relax.TensorType((), "int32"))
    with builder.function("zebra", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    module = vm_programs.compiled(builder.get())
    looped = vm_programs.link(bytecode.tail_calls_to_loops(vm_programs.code_of(module)), module)
    vm = relax.VirtualMachine(looped, tvm.cpu())
    assert int(vm["zebra"](tvm.runtime.tensor(np.array(21, "int32"))).numpy()) == 42
    assert run(looped, 3, 0) == 6


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
