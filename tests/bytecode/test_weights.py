"""Large constants become an argument of the functions that need them, and of their callers."""

from __future__ import annotations

from vmkit.bytecode import Arg, ArgKind, Call, FunctionKind, Program, Ret, TensorConstant, VMFunction, disassemble
from vmkit.bytecode.weights import lift_weights

WEIGHT = TensorConstant((2, 32, 1), (1, 0), (4,), bytes(16))
SMALL = TensorConstant((2, 32, 1), (1, 0), (), bytes(4))


def register(number: int) -> Arg:
    return Arg(ArgKind.REGISTER, number)


def constant(number: int) -> Arg:
    return Arg(ArgKind.CONSTANT, number)


def program(last: Call) -> Program:
    """Return ``main``, which calls ``uses``, which reads the constants, and ``other``, whose first call is `last`."""
    rows = (
        VMFunction(FunctionKind.PACKED, "test.kernel", 0, 0, -2, 0, ()),
        VMFunction(FunctionKind.VM, "main", 0, 2, 1, 2, ("x",)),
        VMFunction(FunctionKind.VM, "uses", 2, 4, 1, 2, ("x",)),
        VMFunction(FunctionKind.VM, "other", 4, 6, 1, 2, ("x",)),
        VMFunction(FunctionKind.PACKED, "vm.builtin.make_closure", 0, 0, -2, 0, ()),
    )
    code = (
        Call(1, 2, (register(0),)),
        Ret(1),
        Call(1, 0, (register(0), constant(0), constant(1))),
        Ret(1),
        last,
        Ret(1),
    )
    return Program("1", rows, (), (SMALL, WEIGHT), code)


def test_who_needs_a_weight_takes_the_tuple_and_its_callers_do() -> None:
    before = program(Call(1, 0, (register(0), constant(0))))
    lifted, weights, takers = lift_weights(before, 16)
    lifted.validate()
    assert weights == (WEIGHT,)
    assert takers == {"main", "uses"}
    assert lifted.constants == (SMALL, 0)
    main, uses, other = ([line[6:] for line in text.splitlines()[3:]] for text in disassemble(lifted).split("\n\n"))
    assert main == ["%2 = invoke uses(%0, %1)", "ret %2"]
    assert uses == [
        "%3 = tuple_getitem(%1, 0)",
        "%2 = invoke_packed test.kernel(%0, c[0]:float32[], %3)",
        "ret %2",
    ]
    assert other == ["%1 = invoke_packed test.kernel(%0, c[0]:float32[])", "ret %1"]
    assert lifted.function("uses").param_names == ("x", "vmkit.weights")
    assert lifted.function("uses").register_file_size == 4


def test_a_closure_captures_the_tuple() -> None:
    lifted, _, takers = lift_weights(program(Call(1, 4, (Arg(ArgKind.FUNCTION, 2), register(0)))), 16)
    assert takers == {"main", "uses", "other"}
    assert "make_closure(@uses, %0, %1)" in disassemble(lifted)


def test_a_function_value_that_goes_elsewhere_leaves_all_as_it_is() -> None:
    before = program(Call(1, 0, (Arg(ArgKind.FUNCTION, 2),)))
    assert lift_weights(before, 16) == (before, (), set())


def test_without_large_constants_nothing_changes() -> None:
    before = program(Call(1, 0, ()))
    assert lift_weights(before, 17) == (before, (), set())
