"""Instructions are put in and taken out; jumps and functions find their places again."""

from __future__ import annotations

from vmkit.bytecode import Arg, ArgKind, Call, FunctionKind, Goto, If, Program, Ret, VMFunction, disassemble
from vmkit.bytecode.rewrite import JumpTo, edited, with_bodies, with_packed, with_registers

A, B, C = (Call(0, 0, (Arg(ArgKind.IMMEDIATE, number),)) for number in (1, 2, 3))
# A loop: 0 is done once, 1 decides, 2 is the body, 3 jumps back to 1, 4 returns.
LOOP = (A, If(0, 3), B, Goto(-2), Ret(0))


def program(*bodies: tuple[Call | Goto | If | Ret, ...]) -> Program:
    rows, instructions = [VMFunction(FunctionKind.PACKED, "test.kernel", 0, 0, -2, 0, ())], ()
    for number, body in enumerate(bodies):
        start, instructions = len(instructions), (*instructions, *body)
        rows.append(VMFunction(FunctionKind.VM, f"f{number}", start, len(instructions), 1, 3, ("x",)))
    return Program("", tuple(rows), (), (), instructions)


def test_code_without_edits_is_the_same() -> None:
    assert edited(LOOP) == LOOP


def test_a_jump_passes_by_what_is_put_before_its_goal() -> None:
    assert edited(LOOP, before={1: [C, C]}) == (A, C, C, If(0, 3), B, Goto(-2), Ret(0))
    assert edited(LOOP, before={2: [C]}) == (A, If(0, 4), C, B, Goto(-3), Ret(0))


def test_a_jump_goes_to_what_takes_the_place_of_its_goal() -> None:
    assert edited(LOOP, instead={4: [C, Ret(0)]}) == (A, If(0, 3), B, Goto(-2), C, Ret(0))
    assert edited((Goto(1), A, Ret(0)), instead={1: []}) == (Goto(1), Ret(0))


def test_a_new_jump_names_an_old_position() -> None:
    assert edited(LOOP, before={0: [C]}, instead={4: [C, JumpTo(2)]}) == (C, A, If(0, 3), B, Goto(-2), C, Goto(-3))


def test_functions_behind_a_longer_one_move() -> None:
    before = program((A, Ret(0)), LOOP)
    after = with_bodies(before, {1: (before.functions[1], (A, B, C, Ret(0)))})
    after.validate()
    assert [(f.start, f.end) for f in after.functions] == [(0, 0), (0, 4), (4, 9)]
    assert after.code(after.functions[2]) == LOOP
    assert with_bodies(after, {1: (before.functions[1], (A, Ret(0)))}) == before
    assert disassemble(after).count("goto 1") == 1


def test_a_packed_function_is_in_the_table_once() -> None:
    before = program(LOOP)
    after, position = with_packed(before, "other")
    assert (position, after.functions[2].name, after.functions[2].kind) == (2, "other", FunctionKind.PACKED)
    assert with_packed(after, "other") == (after, 2)
    assert with_packed(after, "test.kernel") == (after, 0)


def test_special_registers_keep_their_numbers() -> None:
    special = 1 << 54
    call = Call(special, 0, (Arg(ArgKind.REGISTER, 1), Arg(ArgKind.REGISTER, special + 1), Arg(ArgKind.CONSTANT, 1)))
    moved = with_registers(call, lambda register: register + 10)
    assert moved == Call(special, 0, (Arg(ArgKind.REGISTER, 11), *call.args[1:]))
    assert [with_registers(one, lambda register: register + 10) for one in (Ret(0), If(1, 2), Goto(3))] == [
        Ret(10), If(11, 2), Goto(3),
    ]  # fmt: skip
