"""Large constants passed to a program's functions, in place of being part of its code.

The VM copies the constants of a blob into memory of its own. Passed as a value they stay where they are: in the one
buffer that a file was read to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .program import (
    SPECIAL_REGISTER,
    Arg,
    ArgKind,
    Call,
    FunctionKind,
    If,
    Instruction,
    Program,
    Ret,
    TensorConstant,
    VMFunction,
)

__all__ = ["WEIGHT_BYTES", "lift_weights"]

WEIGHT_BYTES = 1 << 16
"""From this size on a constant is worth the instruction that fetches it in every call."""

_PARAMETER = "vmkit.weights"
_FETCH = "vm.builtin.tuple_getitem"
_CLOSURE = "vm.builtin.make_closure"


def lift_weights(program: Program, smallest: int = WEIGHT_BYTES) -> tuple[Program, list[int], set[str]]:
    """Return a program whose large constants are passed to it.

    Every function that needs one, itself or in what it calls, takes a tuple of them as its last argument.

    Returns
    -------
    program
        In the places of the constants stand zeros.
    weights
        Their positions among the constants of the old program, in the order of the tuple.
    functions
        The names of the functions that take the tuple; empty if nothing could be lifted.
    """
    weights = [
        index
        for index, constant in enumerate(program.constants)
        if isinstance(constant, TensorConstant) and len(constant.data) >= smallest
    ]
    if not weights or _is_opaque(program):
        return program, [], set()
    constants: list[Any] = list(program.constants)
    for index in weights:
        constants[index] = 0
    functions = list(program.functions)
    names = [function.name for function in functions]
    if _FETCH not in names:
        functions.append(VMFunction(FunctionKind.PACKED, _FETCH, 0, 0, -2, 0, ()))
        names.append(_FETCH)
    lifting = _Lifting({index: place for place, index in enumerate(weights)}, names, _takers(program, set(weights)))
    instructions: list[Instruction] = []
    for position, function in sorted(enumerate(program.functions), key=lambda pair: pair[1].start):
        if function.kind != FunctionKind.VM:
            continue
        body = program.instructions[function.start : function.end]
        start = len(instructions)
        registers = function.register_file_size
        if position in lifting.takers:
            body, registers = lifting.body(function, body)
            function = replace(
                function, num_args=function.num_args + 1, param_names=(*function.param_names, _PARAMETER)
            )
        instructions += body
        functions[position] = replace(function, start=start, end=len(instructions), register_file_size=registers)
    lifted = replace(program, functions=tuple(functions), constants=tuple(constants), instructions=tuple(instructions))
    return lifted, weights, {names[position] for position in lifting.takers}


def _is_opaque(program: Program) -> bool:
    """Tell whether a function value goes where its captured values cannot be given another."""
    names = [function.name for function in program.functions]
    return any(
        arg.kind == ArgKind.FUNCTION and (names[one.function] != _CLOSURE or at > 0)
        for one in program.instructions
        if isinstance(one, Call)
        for at, arg in enumerate(one.args)
    )


def _takers(program: Program, weights: set[int]) -> set[int]:
    """Return the positions of the functions that read a weight, or come to call one that does."""
    reads: dict[int, bool] = {}
    calls: dict[int, set[int]] = {}
    for position, function in enumerate(program.functions):
        if function.kind != FunctionKind.VM:
            continue
        body = [one for one in program.instructions[function.start : function.end] if isinstance(one, Call)]
        args = [arg for one in body for arg in one.args]
        reads[position] = any(arg.kind == ArgKind.CONSTANT and arg.value in weights for arg in args)
        made = {arg.value for arg in args if arg.kind == ArgKind.FUNCTION}
        calls[position] = {one.function for one in body} | made
    takers = {position for position, does in reads.items() if does}
    while True:
        more = {position for position, called in calls.items() if called & takers} - takers
        if not more:
            return takers
        takers |= more


class _Lifting:
    """Writes the bodies of functions anew: the places of the weights, the names and positions of functions."""

    def __init__(self, places: dict[int, int], names: list[str], takers: set[int]) -> None:
        self.places = places
        self.names = names
        self.takers = takers
        self.fetch = names.index(_FETCH)

    def body(self, function: VMFunction, body: tuple[Instruction, ...]) -> tuple[tuple[Instruction, ...], int]:
        """Return the instructions of a function that takes the tuple, and how many registers it has.

        The parameter comes after the others, so registers from there on move up by one. All weights are fetched at
        the start: jumps within the body stay as they are.
        """
        given = function.num_args
        used = dict.fromkeys(
            arg.value
            for one in body
            if isinstance(one, Call)
            for arg in one.args
            if arg.kind == ArgKind.CONSTANT and arg.value in self.places
        )
        held = {index: function.register_file_size + 1 + at for at, index in enumerate(used)}
        tuple_arg = Arg(ArgKind.REGISTER, given)
        start = [
            Call(register, self.fetch, (tuple_arg, Arg(ArgKind.IMMEDIATE, self.places[index])))
            for index, register in held.items()
        ]
        rest = [self._instruction(one, given, held) for one in body]
        return (*start, *rest), function.register_file_size + 1 + len(held)

    def _instruction(self, one: Instruction, given: int, held: dict[int, int]) -> Instruction:
        def moved(register: int) -> int:
            return register + 1 if given <= register < SPECIAL_REGISTER else register

        match one:
            case Call(destination, callee, args):
                new = [
                    Arg(ArgKind.REGISTER, moved(arg.value))
                    if arg.kind == ArgKind.REGISTER
                    else Arg(ArgKind.REGISTER, held[arg.value])
                    if arg.kind == ArgKind.CONSTANT and arg.value in held
                    else arg
                    for arg in args
                ]
                makes = self.names[callee] == _CLOSURE and args[0].value in self.takers
                if callee in self.takers or makes:
                    new.append(Arg(ArgKind.REGISTER, given))
                return Call(moved(destination), callee, tuple(new))
            case Ret(result):
                return Ret(moved(result))
            case If(condition, offset):
                return If(moved(condition), offset)
            case _:
                return one
