"""Bytecode is read and written back to the same bytes; what is cut off or altered is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.bytecode.compiled import PROGRAMS
from tests.relax import programs as vm_programs
from vmkit import bytecode
from vmkit.errors import ExecutableError


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


def test_a_program_without_instructions_is_read() -> None:
    empty = bytecode.Program("1", (), (), ("text", 7, (1, 2)), ())
    assert bytecode.decode(bytecode.encode(empty)) == empty
