"""Programs for people to read."""

from __future__ import annotations

from vmkit import bytecode


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
